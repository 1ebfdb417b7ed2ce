"""Test the vocabulary of CONTRIBUTING.md and the habits of style that a test can count."""

import ast
import functools
import io
import json
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.nonempty import each
from tests.support.paths import ROOT

FOLDERS = ("bench", "lessons", "solutions", "src", "tests", "tools")
CODE = [
    path
    for folder in FOLDERS
    for path in sorted((ROOT / folder).rglob("*.*"))
    if path.suffix in (".py", ".c", ".h") and path != Path(__file__).resolve()
]
PROSE = sorted(
    [
        *(ROOT / f"{name}.md" for name in ("README", ".github/CONTRIBUTING", "CHANGELOG")),
        *(path for folder in ("docs", "deploy") for path in (ROOT / folder).glob("*.md")),
        *(path for folder in ("lessons", "solutions/*") for path in ROOT.glob(f"{folder}/*.ipynb")),
        ROOT / "start.ipynb",
    ]
)
#: Texts without code cells or docstrings, of which people read all or most.
PLAIN = [
    ROOT / "Makefile",
    *(path for folder in ("src", "solutions") for path in sorted((ROOT / folder).rglob("*.toml"))),
    *(
        path
        for folder in ("deploy", "tools", "web")
        for path in sorted((ROOT / folder).rglob("*"))
        if path.is_file() and path not in {*CODE, *PROSE} and "__pycache__" not in path.parts
    ),
]
#: Folders whose strings are headings, help texts and messages. Elsewhere, most strings are data.
SHOWN = [ROOT / "src", ROOT / "solutions"]

#: Maps each unwanted pattern to what to write instead, in code and text alike.
UNWANTED = {
    r"\b(bytes|segments?|rows?|calls?|writes?|ms|µs|us|s|warnings?|copies|packets?|quotes?|records?|"
    r"lines?|points?|one|times|sentences?|CPU) an? (segment|message|row|packet|datagram|block|"
    r"student|byte|call|second|write|line|file|processor|variant|run|connection|request|record|"
    r"quote|round trip)\b": "per",
    r'^ *"""(What|Who|How|Which)\b': "the thing, or a verb, in a docstring",
}

#: Maps each rule to its pattern, for the prose of pages and for docstrings and comments. The
#: exceptions are correct uses, such as the user `nobody`, a letter that stands for a number, cases
#: told apart, and a packet of your own.
RULES = {
    "nobody": r"\bnobody\b(?!\))",
    "somebody": r"\bsomebody\b",
    "whoever": r"\bwhoever\b",
    "anew": r"\banew\b",
    "stands": r"\bstands?\b(?! (in )?for\b|:)",
    "so many": r"\bso many\b(?! can\b| \w+ that\b)",
    "of its own": r"\bof (its|their|one's|our) own\b",
    "beside": r"\bbeside\b",
    "told": r"\btold\b(?! apart)",
    "some NN": r"\bsome \d",
    "from … on": r"\bfrom\b(?! (now|then) )[^.;:,\n]{1,40}\bon\b(?=[.,;:)]|$)",
}
#: A short comment that begins with one of these words is a fragment, not a sentence.
FRAGMENT = (
    r"(?!.*\(\)$)(of|from|to|by|for|with|in|at|on|after|before|under|into|as)\b"
    r"(\W+[\w'-]+){0,5}\W*$"
)
#: Maximum number of each mark per 1,000 words. A mark counts only before white space, *, _ or ).
DENSITY = {":": 7.0, ";": 2.0}


def prose(path: Path) -> str:
    """Return the sentences of a page or a notebook, without headings, tables, code and HTML."""
    text = path.read_text()
    if path.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        text = "\n\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
    text = re.sub(r"^\s*```.*?^\s*```\s*$", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^(    (?![-*0-9])|\||#).*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"\$\$.*?\$\$|<!--.*?-->", "", text, flags=re.DOTALL)
    return re.sub(r"<[^>]*>|https?://\S+|&\w+;", " ", re.sub(r"\]\([^)]*\)", "]", _no_code(text)))


def _no_code(text: str) -> str:
    return re.sub(r"`[^`]*`", "code", text)


@functools.cache
def sentences(path: Path) -> list[tuple[str, bool]]:
    """Return the docstrings, comments and strings of a file, and whether each is a comment.

    Only the strings of the folders SHOWN are returned.
    """
    text = path.read_text()
    if path in PLAIN:
        return [(text, False)]
    if path.suffix != ".py":
        matches = re.findall(r"/\*(.*?)\*/|//([^\n]*)", text, re.DOTALL)
        return [(re.sub(r"\s+\*?\s*", " ", one or other).strip(), True) for one, other in matches]
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    every = list(ast.walk(ast.parse(text)))
    nodes = [node for node in every if isinstance(node, kinds)]
    documented = [(_no_code(ast.get_docstring(node) or ""), False) for node in nodes]
    if any(map(path.is_relative_to, SHOWN)):
        documented += [(string, False) for string in _strings(every)]
    comments: list[tuple[str, bool]] = []
    last = -1
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            comment, alone = token.string.lstrip("#: "), token.line.lstrip().startswith("#")
            if alone and last == token.start[0] - 1:  # the next line of the same comment
                comment = f"{comments.pop()[0]} {comment}"
            comments.append((comment, True))
            last = token.start[0] if alone else -1
    return documented + comments


def _strings(nodes: list[ast.AST]) -> Iterator[str]:
    """Yield the strings of a program except docstrings. In an f-string, each value is "code"."""
    joined = [node.values for node in nodes if isinstance(node, ast.JoinedStr)]
    inner = {id(part) for parts in joined for part in parts}
    inner |= {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    joined += [[node] for node in nodes if isinstance(node, ast.expr) and id(node) not in inner]
    for parts in joined:
        values = [getattr(part, "value", None) for part in parts]
        if any(isinstance(value, str) for value in values):
            yield "".join(value if isinstance(value, str) else "code" for value in values)


def findings(path: Path) -> Counter[str]:
    """Count how often a file breaks each rule. Marks over the limit are counted per 1,000 words."""
    texts = [(prose(path), False)] if path in PROSE else sentences(path)
    counts = Counter(
        rule
        for text, _ in texts
        for rule, pattern in RULES.items()
        for _ in re.findall(pattern, text, re.IGNORECASE | re.MULTILINE)
    )
    counts["fragment"] = sum(
        is_comment and bool(re.match(FRAGMENT, text, re.IGNORECASE)) for text, is_comment in texts
    )
    if path in PROSE:
        count = len(re.findall(r"[A-Za-z][\w'-]*", texts[0][0]))
        for mark, most in DENSITY.items():
            marks = len(re.findall(rf"{mark}(?=[\s*_)]|$)", texts[0][0]))
            if marks > most * count / 1000:
                counts[mark] = -(-1000 * marks // count)
    return +counts


@functools.cache
def texts() -> dict[Path, str]:
    sets = ROOT / "solutions"
    pages = [path for path in PROSE if not path.is_relative_to(sets)]
    return {path: path.read_text() for path in [*CODE, *PLAIN, *pages]}


@pytest.mark.parametrize("pattern", UNWANTED)
def test_no_text_uses_an_unwanted_term(pattern: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, match.start()) + 1}: {match[0]}"
        for path, text in each(texts().items())
        for match in re.finditer(pattern, text, re.MULTILINE)
    ]
    assert not wrong, f"write {UNWANTED[pattern]!r}:\n" + "\n".join(wrong)


def test_no_file_breaks_a_rule_of_style() -> None:
    every = {path: dict(findings(path)) for path in each([*CODE, *PLAIN, *PROSE])}
    assert {path.name: counts for path, counts in every.items() if counts} == {}


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("# what nobody reads", "nobody"),
        ("# its answer stands below", "stands"),
        ("# sends so many bytes", "so many"),
        ("# takes some 40 ms", "some NN"),
        ("# late from packet 7 on.", "from … on"),
        ("# a window\n# of its own", "of its own"),
        ("# a packet of your own", None),
        ("x = 1  # of the last event", "fragment"),
        ("# Of all\n# packets the last one leaves first.", None),
        ('"""Told by the kernel."""', "told"),
        ('x = "nobody"', None),
    ],
)
def test_each_rule_matches_its_examples_only(text: str, rule: str | None, tmp_path: Path) -> None:
    (path := tmp_path / "a.py").write_text(text + "\n")
    assert list(findings(path)) == ([rule] if rule else [])


def test_strings_and_marks_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.SHOWN", [tmp_path])
    (path := tmp_path / "a.py").write_text('x = "nobody", f"{y} told {z}"\n')
    assert findings(path) == {"nobody": 1, "told": 1}
    monkeypatch.setattr(f"{__name__}.PROSE", [path := tmp_path / "a.md"])
    path.write_text("word " * 96 + "`a: b` http://a; so: it; is\n")
    assert findings(path) == {":": 10, ";": 10}
