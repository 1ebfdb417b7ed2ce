"""Make learners' texts harmless for the pages of feedback and formgrader.

Markdown may contain HTML, and the reader of the page may be logged in as the teacher, so the
rendered HTML is cleaned with an allow-list (nh3). Some texts take quadratic time to render, and
some pages grow without limit, which :func:`settle_page` prevents.
"""

import html
import json
import re
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final, NoReturn
from urllib.parse import unquote

import nbformat
import nh3
from jinja2 import pass_context
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbformat import v4
from nbgrader import utils
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
#: The TeX macros that MathJax may see. Others can add links, styles, ids, macros or extensions.
_MACROS: Final = frozenset(Path(__file__).with_name("mathjax_macros.txt").read_text().split())
#: What begins a formula, or a reference to one.
_HAS_MATH: Final = re.compile(r"\$|\\[(\[]|\\(?:begin|ref|eqref)\b")
#: A tag of cleaned HTML, in which all values of attributes have quotes, or a macro between tags.
_TAG_OR_MACRO: Final = re.compile(r"""<[^">]*(?:"[^"]*"[^">]*)*>|\\([A-Za-z]+)""")
#: Signs that change the direction of writing, so that a reader sees another order than a compiler.
_DIRECTIONS: Final = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
#: Limits on the CPU time to render a text, and on the characters of all rendered texts. A pasted
#: picture counts each time it is shown. A text beyond a limit is shown as it was typed.
_RENDER_S: Final = 0.3
MAX_RENDERED: Final = 48 << 20
#: Maximum number of characters of each kind on a page, since each takes time to render.
SHOWN: Final = {"code": 20_000, "text": 100_000, "output": 200_000}


def _keep_attribute(tag: str, name: str, value: str) -> str | None:
    is_own = name not in ("href", "src") or (tag == "img" and value.startswith(_PICTURES))
    return value if is_own or _ADDRESS.match(value.strip()) else None


def _clean(page: str) -> str:
    return nh3.clean(
        page,
        tags=_TAGS,
        attributes=_ATTRIBUTES,
        allowed_classes=_CLASSES,
        attribute_filter=_keep_attribute,
        url_schemes={"data"},
        filter_style_properties={"text-align"},
    )


def _without_active_math(page: str) -> str:
    """Put an empty element into each macro that is not allowed, because MathJax reads across none.

    The text looks the same, and a formula with such a macro is shown as it was typed.
    """

    def split(part: re.Match[str]) -> str:
        is_active = part[1] and part[1] not in _MACROS
        return f"\\<span></span>{part[1]}" if is_active else part[0]

    return _TAG_OR_MACRO.sub(split, page)


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
    attachments = context.get("cell", {}).get("attachments", {})
    return _without_active_math(_clean(_render(source, attachments)))


def as_typed(source: str) -> str:
    """Return a text with all markup escaped, both for Markdown and for HTML."""
    signs = re.sub(r"[^\w ]", lambda match: f"&#{ord(match[0])};", source)
    return f"<pre>{signs}</pre>"


def settle_page(
    cells: Any, folder: Path, slow: Sequence[tuple[int, str]] = ()
) -> tuple[list[str], list[str]]:
    """Make a notebook's page small and quick to render; return repairs, and flags.

    `folder` is the notebook's folder, which gets a file for each cell that is cut. `slow` are
    the texts to show as typed, as look_at_texts() returns them.
    """
    repairs = _cut(cells, folder)
    flags = _show_directions(cells)
    for number, why in slow:
        if f"cut: cell {number} of the notebook" not in repairs:
            repairs.append(f"shown-as-typed: cell {number} of the notebook ({why})")
            cells[number - 1].source = as_typed(cells[number - 1].source)
    return repairs, flags


def texts_of(cells: Any) -> list[tuple[int, Any]]:
    """Return the texts that a learner may have written, each with its number in the notebook."""
    return [
        (number, cell)
        for number, cell in enumerate(cells, 1)
        if cell.cell_type == "markdown" and not utils.is_locked(cell)
    ]


def look_at_texts(cells: Any) -> tuple[list[tuple[int, str]], list[str]]:
    """Return the texts to show as typed, each with the reason, and a flag for each active text.

    Cleaning an active text removes tags, or attributes that are not for layout. A text that _cut()
    will cut is not looked at. Signals are used, so run this with apart().
    """
    slow, flags, left = [], [], MAX_RENDERED
    shown = SHOWN["text"]
    for number, cell in texts_of(cells):
        most = shown // 2
        shown -= min(len(cell.source), most)
        if len(cell.source) > most:
            continue
        try:
            with at_most(_RENDER_S):
                page = _render(cell.source, cell.get("attachments", {}))
                if len(page) > left:
                    raise TooLongError
                clean = _clean(page)
                if _Elements(page).found != _Elements(clean).found:
                    flags.append(f"active-html: cell {number} of the notebook")
                if _HAS_MATH.search(clean) and _without_active_math(clean) != clean:
                    flags.append(f"active-math: cell {number} of the notebook")
        except (TooLongError, Exception) as error:
            is_long = isinstance(error, TooLongError)
            slow.append((number, "too long or too slow" if is_long else type(error).__name__))
        else:
            left -= len(page)
    return slow, flags


def _show_directions(cells: Any) -> list[str]:
    """Replace each sign that changes the direction of writing; return a flag for each cell."""
    flags = []
    for number, cell in enumerate(cells, 1):
        whole = json.dumps(cell, ensure_ascii=False)
        shown = _DIRECTIONS.sub(lambda sign: f"[U+{ord(sign[0]):04X}]", whole)
        if shown != whole and not utils.is_locked(cell):
            flags.append(f"direction-marks: cell {number} of the notebook")
            cell.update(nbformat.from_dict(json.loads(shown)))
    return flags


def _cut(cells: Any, folder: Path) -> list[str]:
    """Cut texts that exceed half of the page's remaining space; link to files of whole cells."""
    repairs, left = [], dict(SHOWN)
    for number, cell in enumerate(cells, 1):
        whole, is_cut = json.dumps(cell, indent=1), False
        outputs = cell.get("outputs", [])
        kind = "code" if cell.cell_type == "code" else "text"
        texts: list[tuple[Any, Any, str]] = []
        texts += [] if utils.is_locked(cell) else [(cell, "source", kind)]
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
            cell.source = f"{link}\n\n{as_typed(cell.source)}"
    return repairs


class TooLongError(BaseException):
    """The text is too long, or takes too long to render."""


@contextmanager
def at_most(cpu_s: float) -> Iterator[None]:
    """Interrupt code that uses more processor time than `cpu_s`, even in a regular expression."""

    def ring(*_: object) -> NoReturn:
        raise TooLongError

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, cpu_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


class _Elements(HTMLParser):
    """The elements of a page, each with its attributes that are not for layout."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        layout = ("class", "id", "rel")
        self.found.append((tag, {name: value for name, value in attrs if name not in layout}))
