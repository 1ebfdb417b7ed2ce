"""Text by a stranger, as the pages of feedback and formgrader show it: nothing in it does anything.

Markdown may contain HTML, nbgrader's templates put it onto the page as it is, and who opens the
page may be logged in as the teacher. So the HTML that Markdown is rendered to is cleaned with an
allow-list (nh3, the Rust library ammonia); :func:`tcplab.grading.course.configure` makes
:func:`safe_markdown` the filter that both pages use.
"""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any, Final

import nh3
from jinja2 import pass_context
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from pygments.token import STANDARD_TYPES

#: Text, tables and pictures. No form, frame, style, script, vector graphics or embedded object.
_TAGS: Final = {
    *("a", "abbr", "b", "blockquote", "br", "code", "del", "details", "div", "em"),
    *("h1", "h2", "h3", "h4", "h5", "h6", "hr", "i", "img", "kbd", "li", "ol", "p", "pre", "s"),
    *("span", "strong", "sub", "summary", "sup", "table", "tbody", "td", "th", "thead", "tr"),
    *("u", "ul"),
}
_ATTRIBUTES: Final = {
    "a": {"href", "title"},
    "img": {"src", "alt", "title", "width", "height"},
    "ol": {"start"},
    "td": {"style"},
    "th": {"style"},
}
#: Of highlighted code, and no other: the page's own classes could lay text over its buttons.
_CLASSES: Final = {"div": {"highlight"}, "span": set(STANDARD_TYPES.values()) - {""}}
#: A picture that was pasted into a cell.
_PICTURES: Final = tuple(f"data:image/{kind};base64," for kind in ("png", "jpeg", "gif"))


def _keep_attribute(tag: str, name: str, value: str) -> str | None:
    is_data = value.strip().lower().startswith("data:")
    if is_data and not (tag == "img" and name == "src" and value.startswith(_PICTURES)):
        return None
    return value


def _clean(html: str) -> str:
    return nh3.clean(
        html,
        tags=_TAGS,
        attributes=_ATTRIBUTES,
        allowed_classes=_CLASSES,
        attribute_filter=_keep_attribute,
        url_schemes={"http", "https", "mailto", "data"},
        filter_style_properties={"text-align"},
    )


def _render(source: str, attachments: Any) -> str:
    renderer = IPythonRenderer(escape=False, attachments=attachments, exclude_anchor_links=True)
    return str(MarkdownWithMath(renderer=renderer).render(source))


@pass_context
def safe_markdown(context: Any, source: str) -> str:
    """Renders a cell's Markdown to HTML that does nothing but show it: a filter of nbconvert's."""
    return _clean(_render(source, context.get("cell", {}).get("attachments", {})))


def is_active(cell: Any) -> bool:
    """Whether a cell of text contains more than text: tags, links or attributes that are removed.

    Args:
        cell: of a notebook, of any type.
    """
    if cell.cell_type != "markdown":
        return False
    html = _render(cell.source, cell.get("attachments", {}))
    return _elements(html) != _elements(_clean(html))


def _elements(html: str) -> list[tuple[str, dict[str, str | None]]]:
    """The tags in order, with their attributes but for those of layout."""
    parser = _Elements()
    parser.feed(html)
    return parser.found


class _Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        layout = ("class", "id", "rel")
        self.found.append((tag, {name: value for name, value in attrs if name not in layout}))
