"""docs/claims.md: every claim has a verdict, a command that exists, and a section that exists."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from tcplab import cli

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/claims.md").read_text()


def claims() -> list[list[str]]:
    """The cells of each row of the lessons' tables: text, claim, verdict, evidence, reason."""
    _start, _mark, tables = PAGE.partition("## Lesson 00")
    lines = [line for line in tables.splitlines() if line.startswith("| ")]
    rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    return [row for row in rows if row[0] != "text"]


def commands() -> list[str]:
    return sorted(set(re.findall(r"`(tcplab [^`]+)`", PAGE)))


def sections() -> list[tuple[str, str]]:
    """Lesson and heading of each that is named as evidence."""
    named = []
    for number, titles in re.findall(r'lesson (\d\d)((?:, "[^"]+")+)', PAGE):
        named += [(number, title) for title in re.findall(r'"([^"]+)"', titles)]
    return sorted(set(named))


def test_every_claim_has_a_verdict_evidence_and_a_reason() -> None:
    assert len(claims()) >= 40
    for row in claims():
        assert len(row) == 5, row
        assert all(row), row
        assert re.match(r"holds|refuted|not testable", row[2]), row
        assert "`tcplab run " in row[3], row


def test_commands_of_the_claims_are_understood(capsys: pytest.CaptureFixture[str]) -> None:
    """By the command line's parser; nothing is measured."""
    parser = cli._parser(experiments=True)
    for command in commands():
        words = shlex.split(command)[1:]
        try:
            arguments = parser.parse_args(words)
        except SystemExit:
            pytest.fail(f"{command}: {capsys.readouterr().err}")
        assert (words[0], arguments.experiment.name) == ("run", words[1])
    assert len(commands()) >= 40


def test_sections_named_by_the_claims_exist() -> None:
    headings = {}
    for path in (ROOT / "lessons").glob("0*.ipynb"):
        cells = json.loads(path.read_text())["cells"]
        prose = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
        headings[path.name[:2]] = re.findall(r"^#+ (.+)$", "\n".join(prose), re.M)
    missing = [(number, title) for number, title in sections() if title not in headings[number]]
    assert not missing
    assert len(sections()) >= 40
