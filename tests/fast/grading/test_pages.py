"""Learners' texts on the pages that a teacher opens are shown and have no effect."""

import json
import re
import tomllib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from jinja2 import Environment
from nbformat import v4
from tests.support.paths import DATA

from tcplab.grading import pages
from tcplab.grading.pages import (
    SHOWN,
    as_typed,
    look_at_texts,
    safe_markdown,
    settle_page,
)

TEXTS = tomllib.loads((DATA / "pages.toml").read_text())
ATTACKS = TEXTS["attacks"]
#: Elements of a learner's text that a page may contain.
HARMLESS_TAGS = re.compile(
    r"a|abbr|b|blockquote|br|code|del|details|div|em|h[1-6]|hr|i|img|kbd|li|ol|p|pre|s|span|strong"
    r"|sub|summary|sup|table|tbody|td|th|thead|tr|u|ul"
)
HARMLESS_LINK = re.compile(r"#|[\w./-]*$")


def rendered(source: str, **cell: Any) -> str:
    """Return the text as a template's filter renders it."""
    environment = Environment(autoescape=False)  # nbconvert does not escape either
    environment.filters["markdown2html"] = safe_markdown
    made = v4.new_markdown_cell(source, **cell)
    return environment.from_string("{{ cell.source | markdown2html }}").render(cell=made)


def is_active(source: str, **cell: Any) -> bool:
    _, flags = look_at_texts([v4.new_markdown_cell(source, **cell)])
    assert flags in ([], ["active-html: cell 1 of the notebook"])
    return flags != []


class Tags(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


@pytest.mark.parametrize("source", ATTACKS)
def test_attack_does_nothing_and_is_flagged(source: str) -> None:
    around = f"before\n\n{source}\n\nafter"
    html = rendered(around)
    assert "before" in html
    tags = Tags(html).tags
    assert [tag for tag, _ in tags if not HARMLESS_TAGS.fullmatch(tag)] == []
    attributes = [(name, value or "") for _, own in tags for name, value in own.items()]
    assert {name for name, _ in attributes} <= {
        "href",
        "src",
        "alt",
        "title",
        "rel",
        "width",
        "style",
    }
    links = [value for name, value in attributes if name in ("href", "src")]
    assert [link for link in links if not HARMLESS_LINK.match(link)] == []
    assert [value for name, value in attributes if name == "style" and "url" in value] == []
    assert is_active(around)


@pytest.mark.parametrize(("source", "shown"), TEXTS["honest"])
def test_honest_text_looks_as_it_should(source: str, shown: str) -> None:
    assert shown in rendered(source)
    assert not is_active(source)


def test_pasted_picture_is_shown_if_it_is_one() -> None:
    source = "![image.png](attachment:image.png)"
    png = {"image.png": {"image/png": "iVBORw0KGgo="}}
    assert 'src="data:image/png;base64,iVBORw0KGgo="' in rendered(source, attachments=png)
    assert not is_active(source, attachments=png)
    svg = {"image.png": {"image/svg+xml": "PHN2Zy8+"}}
    assert "svg" not in rendered(source, attachments=svg)
    assert is_active(source, attachments=svg)


@pytest.mark.parametrize("address", TEXTS["removed"])
def test_address_that_is_no_web_page_and_no_own_file_is_removed(address: str) -> None:
    """An absolute path would lead to the server that the teacher is logged in to."""
    for source in (f"[a](<{address}>)", f"![a](<{address}>)", f'<img src="{address}">'):
        attributes = {name for _, own in Tags(rendered(source)).tags for name in own}
        assert not attributes & {"href", "src"}, source
        is_citation = source[0] != "<" and address.startswith(("http://", "https://"))
        assert is_active(source) != is_citation


@pytest.mark.parametrize("address", ["plot.png", "pictures/my%20plot.png", "./a.c", "#why"])
def test_address_of_own_files_stays(address: str) -> None:
    [(_, own)] = [tag for tag in Tags(rendered(f"[a]({address})")).tags if tag[0] == "a"]
    assert own["href"] == address


@pytest.mark.parametrize("name", ["href", "cssId", "mmlToken", "require", "def", "unheard"])
def test_macro_that_is_not_allowed_is_shown_as_typed(name: str) -> None:
    math = f"$$\\frac{{1}}{{\\{name}{{b}}}}$$"
    html = rendered(math)
    assert f"\\{name}" not in html
    assert Tags(html).text.strip() == math
    _, flags = look_at_texts([v4.new_markdown_cell(math)])
    assert flags == ["active-math: cell 1 of the notebook"]
    assert not is_active(f"C:\\{name}")


def test_signs_that_change_the_direction_of_writing_are_shown(tmp_path: Path) -> None:
    cells = [v4.new_code_cell("a = 1 \u202e# b"), v4.new_markdown_cell("honest")]
    cells[0].outputs = [v4.new_output("stream", text="\u2066x")]
    _repairs, flags = settle_page(cells, tmp_path)
    assert cells[0].source == "a = 1 [U+202E]# b"
    assert cells[0].outputs[0].text == "[U+2066]x"
    assert flags == ["direction-marks: cell 1 of the notebook"]


def test_text_as_it_was_typed_is_text_in_every_place() -> None:
    source = "<b>$x$</b> *a* [b](http://c) \\begin{d} `e`\n\n# f & g"
    for page in (as_typed(source), rendered(as_typed(source))):
        parsed = Tags(page)
        assert {tag for tag, _ in parsed.tags} == {"pre"}
        assert parsed.text.strip() == source


def test_long_cells_and_outputs_are_cut_and_linked(tmp_path: Path) -> None:
    def outputs() -> list[Any]:
        return [
            v4.new_output("stream", text="\x1b[31m<" * 100_000),
            v4.new_output("error", ename="E", evalue="", traceback=["\x1b[31m<" * 50_000] * 9),
            v4.new_output("display_data", {"text/plain": "<" * 300_000, "image/png": "iVBORw0K"}),
        ]

    cells = [v4.new_markdown_cell(as_typed("<" * 500_000)), v4.new_code_cell("short = 1")]
    cells += [v4.new_code_cell("a=1;" * 240_000, outputs=outputs()) for _ in range(8)]
    written = json.loads(json.dumps(cells))
    repairs, flags = settle_page(cells, tmp_path)
    assert flags == []
    numbers = [1, *range(3, 11)]
    assert repairs == [f"cut: cell {number} of the notebook" for number in numbers]
    shown = json.dumps([cell for cell in cells if cell.cell_type == "code"])
    # The cells had tens of millions of characters, and escaping may turn one into six.
    assert len(shown) < 3_000_000
    assert cells[1].source == "short = 1"
    for number in numbers:
        cell = cells[number - 1]
        link = cell.source if number == 1 else cell.outputs[0].data["text/markdown"]
        assert f'href="cell-{number}.json"' in rendered(link)
        assert json.loads((tmp_path / f"cell-{number}.json").read_text()) == written[number - 1]
    assert [output.output_type for output in cells[5].outputs[1:]] == [
        output.output_type for output in outputs()
    ]
    assert sum(len(cell.source) for cell in cells if cell.cell_type == "code") <= 20_000


def test_many_texts_are_cut_where_the_page_is_full(tmp_path: Path) -> None:
    """Each text is short enough for a page, but all of them would take seconds to render."""
    own = {"grade": False, "grade_id": "own", "locked": True, "solution": False, "task": False}
    texts = [v4.new_markdown_cell("<b>so</b> " * 4000) for _ in range(100)]
    locked = v4.new_markdown_cell("Why? " * 1000, metadata={"nbgrader": own})
    repairs, _ = settle_page([*texts, locked], tmp_path)
    assert repairs == [f"cut: cell {number} of the notebook" for number in range(2, 101)]
    assert len(list(tmp_path.glob("cell-*.json"))) == 99
    assert locked.source == "Why? " * 1000
    parsed = [Tags(rendered(text.source)) for text in texts]
    links = {own["href"] for page in parsed for tag, own in page.tags if tag == "a"}
    assert links == {path.name for path in tmp_path.iterdir()}
    assert sum(len(page.text) for page in parsed) < SHOWN["text"] + 100 * len(texts)


def test_picture_shown_many_times_is_limited_like_other_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "MAX_RENDERED", 960_000)
    picture = {"a.png": {"image/png": "iVBORw0KGgo=" * 5000}}
    source = "![a](attachment:a.png)\n\n" * 3
    cells = [v4.new_markdown_cell(source, attachments=picture) for _ in range(7)]
    slow, flags = look_at_texts(cells)
    repairs, _ = settle_page(cells, tmp_path, slow)
    why = "of the notebook (too long or too slow)"
    assert repairs == [f"shown-as-typed: cell {number} {why}" for number in (6, 7)]
    assert flags == []
    assert cells[4].source == source
