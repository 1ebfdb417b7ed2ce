"""The vocabulary of CONTRIBUTING.md, as far as a test can see it."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest
from tests.support.nonempty import each
from tests.support.paths import ROOT

SOURCES = [
    *(
        path
        for folder in ("bench", "tests", "tools", "solutions")
        for path in (ROOT / folder).rglob("*.py")
    ),
    *sorted((ROOT / "src").rglob("*.py")),
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
    r'^ *"""(What|Who|How|Which)\b': "the thing, or a verb, in a docstring",
}


@functools.cache
def texts() -> dict[Path, str]:
    return {path: path.read_text() for path in SOURCES if path != Path(__file__).resolve()}


@pytest.mark.parametrize("pattern", UNWANTED)
def test_vocabulary_is_kept(pattern: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, match.start()) + 1}: {match[0]}"
        for path, text in each(texts().items())
        for match in re.finditer(pattern, text, re.MULTILINE)
    ]
    assert not wrong, f"write {UNWANTED[pattern]!r}:\n" + "\n".join(wrong)
