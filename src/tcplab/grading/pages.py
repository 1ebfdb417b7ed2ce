"""Make learners' texts harmless for the pages of feedback and formgrader.

Markdown may contain HTML, and the reader of the page may be logged in as the teacher, so the
rendered HTML is cleaned with an allow-list (nh3). Rendering takes quadratic time for some texts,
which :func:`settle_texts` finds first.
"""

from __future__ import annotations

import html
import json
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final, NoReturn
from urllib.parse import unquote

import nh3
from jinja2 import pass_context
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbformat import v4
from pygments.token import STANDARD_TYPES

#: Text, tables and pictures are allowed, but no forms, frames, styles, scripts, SVG or objects.
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
#: Only the classes of highlighted code are allowed. The page's own classes could put text over its
#: buttons.
_CLASSES: Final = {"div": {"highlight"}, "span": set(STANDARD_TYPES.values()) - {""}}
#: The prefixes of the addresses of pictures that were pasted into a cell.
_PICTURES: Final = tuple(f"data:image/{kind};base64," for kind in ("png", "jpeg", "gif"))
#: An anchor on this page is allowed, or a file of the submission that runs no script in the
#: browser. An absolute path would be a page of the teacher's server, such as /logout.
_ADDRESS: Final = re.compile(
    r"#|(?:\./)?(?!.*(?:\.\.|%2e|%2f|%5c))[\w(][\w ./()+,%-]*"
    r"\.(?:c|csv|gif|h|jpe?g|json|pcap(?:ng)?|png|py|txt)$",
    re.IGNORECASE,
)
_WEB: Final = re.compile(r"\s*https?://", re.IGNORECASE)
#: The MathJax commands that add links, styles, ids or extensions to a page.
_ACTIVE_MATH: Final = re.compile(r"\\(href|class|cssId|style|require)(?![a-z])", re.IGNORECASE)
#: Limits on the length of a Markdown text, on the CPU time to render it, and on that of all texts.
#: A text beyond a limit is shown as it was typed.
MAX_TEXT: Final = 50_000
_RENDER_S: Final = 0.3
_RENDER_ALL_S: Final = 3.0
#: Maximum number of characters of each kind on a page. Highlighted code and coloured output take
#: long to render.
_SHOWN: Final = {"code": 20_000, "markdown": 1_000_000, "raw": 20_000, "output": 200_000}


def _keep_attribute(tag: str, name: str, value: str) -> str | None:
    if name not in ("href", "src"):
        return value
    if tag == "img" and value.startswith(_PICTURES):
        return value
    return value if _ADDRESS.match(value.strip()) else None


def _clean(page: str) -> str:
    return nh3.clean(
        _ACTIVE_MATH.sub(r"\\mathrm{\1}", page),
        tags=_TAGS,
        attributes=_ATTRIBUTES,
        allowed_classes=_CLASSES,
        attribute_filter=_keep_attribute,
        url_schemes={"data"},
        filter_style_properties={"text-align"},
    )


class _Renderer(IPythonRenderer):
    """Render web addresses as text, and a missing picture as a note."""

    def link(self, text: str, url: str, title: str | None = None) -> str:
        address = html.escape(url)
        if not _WEB.match(url):
            return super().link(text, url, title)
        return text if text == address else f"{text} ({address})"

    def image(self, text: str, url: str, title: str | None = None) -> str:
        if _WEB.match(url):
            return self.link(text, url)
        if url.startswith("attachment:"):
            name = url.removeprefix("attachment:")
            name = name if name in self.attachments else unquote(name)
            if not self.attachments.get(name):
                return f"[{html.escape(name)}: this picture was not handed in]"
            url = f"attachment:{name}"
        return super().image(text, url, title)


def _render(source: str, attachments: Any) -> str:
    renderer = _Renderer(escape=False, attachments=attachments, exclude_anchor_links=True)
    return str(MarkdownWithMath(renderer=renderer).render(source))


@pass_context
def safe_markdown(context: Any, source: str) -> str:
    """Render the Markdown of a cell to harmless HTML, as a filter for nbconvert."""
    return _clean(_render(source, context.get("cell", {}).get("attachments", {})))


def as_typed(source: str) -> str:
    """Return a text with all markup escaped, both for Markdown and for HTML."""
    signs = re.sub(r"[^\w ]", lambda match: f"&#{ord(match[0])};", source)
    return f"<pre>{signs}</pre>"


def is_active(cell: Any) -> bool:
    """Return whether cleaning would remove tags or non-layout attributes from a text cell."""
    if cell.cell_type != "markdown":
        return False
    page = _render(cell.source, cell.get("attachments", {}))
    return _elements(page) != _elements(_clean(page))


def settle_texts(cells: Any) -> tuple[list[str], list[str]]:
    """Escape texts that would slow down or break a page, so that it shows them as typed.

    `cells` are pairs of number and cell. Return repairs, and flags for active HTML. Signals are
    used, so this must be called in the main thread of a process.
    """
    repairs, flags, left_s = [], [], _RENDER_ALL_S
    for number, cell in cells:
        if cell.cell_type != "markdown":
            continue
        began_s = time.process_time()
        try:
            if len(cell.source) > MAX_TEXT or left_s <= 0:
                raise _TooLongError
            with _at_most(_RENDER_S):
                if is_active(cell):
                    flags.append(f"active-html: cell {number} of the notebook")
        except (_TooLongError, Exception) as error:
            why = "takes long" if isinstance(error, _TooLongError) else type(error).__name__
            repairs.append(f"shown-as-typed: cell {number} of the notebook ({why})")
            cell.source = as_typed(cell.source)
        left_s -= time.process_time() - began_s
    return repairs, flags


def cut_cells(cells: Any, folder: Path) -> list[str]:
    """Cut texts longer than half of the page's remaining space, and link to the whole cells.

    The whole cells are saved as files in the notebook's folder `folder`. Return repairs.
    """
    repairs, left = [], dict(_SHOWN)
    for number, cell in enumerate(cells, 1):
        whole, is_cut = json.dumps(cell, indent=1), False
        outputs = cell.get("outputs", [])
        texts: list[tuple[Any, Any, str]] = [(cell, "source", cell.cell_type)]
        texts += [(output, "text", "output") for output in outputs if "text" in output]
        data = [output.data for output in outputs if "text/plain" in output.get("data", {})]
        texts += [(mime, "text/plain", "output") for mime in data]
        lines = [output.traceback for output in outputs if "traceback" in output]
        texts += [(line, at, "output") for line in lines for at in range(len(line))]
        for owner, name, kind in texts:
            most = left[kind] // 2
            is_cut = is_cut or len(owner[name]) > most
            owner[name] = owner[name][:most]
            left[kind] -= len(owner[name])
        if not is_cut:
            continue
        (folder / f"cell-{number}.json").write_text(whole)
        repairs.append(f"cut: cell {number} of the notebook")
        link = f"Cell {number} is cut here: [all of it](cell-{number}.json)"
        if cell.cell_type == "code":
            cell.outputs.insert(0, v4.new_output("display_data", {"text/markdown": link}))
        else:
            cell.source = f"{link}\n\n{cell.source}"
    return repairs


class _TooLongError(BaseException):
    """The text is too long, or takes too long to render."""


@contextmanager
def _at_most(cpu_s: float) -> Iterator[None]:
    """Interrupt code that uses more processor time than `cpu_s`, even in a regular expression."""

    def ring(*_: object) -> NoReturn:
        raise _TooLongError

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, cpu_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _elements(page: str) -> list[tuple[str, dict[str, str | None]]]:
    """Return the tags in order, with their attributes except those for layout."""
    parser = _Elements()
    parser.feed(page)
    return parser.elements


class _Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        layout = ("class", "id", "rel")
        self.elements.append((tag, {name: value for name, value in attrs if name not in layout}))
