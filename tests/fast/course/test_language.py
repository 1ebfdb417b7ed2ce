"""The vocabulary of CONTRIBUTING.md, as far as a test can see it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.nonempty import each
from tests.support.paths import ROOT

PYTHON = sorted(
    path
    for folder in ("src/tcplab", "bench", "tests", "tools", "solutions")
    for path in (ROOT / folder).rglob("*.py")
)
SOURCES = [
    *PYTHON,
    *sorted((ROOT / "src").rglob("*.[ch]")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "lessons").rglob("*.ipynb")),
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
]

#: Pattern -> what to write instead.
UNWANTED = {
    r"\b(bytes|segments?|rows?|calls?|writes?|ms|µs|us|s|warnings?|copies|packets?|quotes?|records?|"
    r"lines?|points?|one|times|sentences?|CPU) an? (segment|message|row|packet|datagram|block|"
    r"student|byte|call|second|write|line|file|processor|variant|run|connection|request|record|"
    r"quote|round trip)\b": "per",
    r"\bun-ACKed\b": "unacknowledged",
    r"\bon the ladder\b|\brungs?\b": "mode",
    r"\bbefore (a|the|every|each) (Linux |delaying )?receivers?\b": "with a receiver",
}


def _docstrings(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (
            text := ast.get_docstring(node)
        ):
            yield getattr(node, "lineno", 1), text


def test_docstring_says_the_thing_or_the_deed() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {text.splitlines()[0]}"
        for path in each(PYTHON)
        for line, text in _docstrings(path)
        if re.match(r"(What|Who|How|Which)\b", text)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("pattern", UNWANTED)
def test_vocabulary_is_kept(pattern: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in each(SOURCES)
        if path != Path(__file__).resolve()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if re.search(pattern, line)
    ]
    assert not wrong, f"write {UNWANTED[pattern]!r}:\n" + "\n".join(wrong)
