"""Ask ten questions on the course's prerequisites, with a link for each gap (`tcplab ready`)."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, TextIO

LETTERS: Final = "abcd"


@dataclass(frozen=True, slots=True)
class Question:
    """A question with four choices, the first of which is right."""

    about: str
    ask: str
    choices: Sequence[str]
    why: str
    read: str  #: URL of a text that closes the gap


@cache
def questions() -> tuple[Question, ...]:
    """Return the questions of ready.toml, in its order."""
    text = Path(__file__).with_suffix(".toml").read_text()
    return tuple(Question(**entry) for entry in tomllib.loads(text)["questions"])


def ask_all(answers: TextIO, out: TextIO) -> list[Question]:
    """Ask each question and show the right answer; return the questions that were missed.

    `answers` has one letter, or an empty line, per question. Questions without a line are missed.
    """
    missed: list[Question] = []
    for number, question in enumerate(questions(), 1):
        choices = list(question.choices)
        random.Random(question.about).shuffle(choices)
        print(f"\n{number}. {question.ask}", file=out)
        for letter, choice in zip(LETTERS, choices, strict=True):
            print(f"   {letter}) {choice}", file=out)
        right = LETTERS[choices.index(question.choices[0])]
        given = _letter(answers, out)
        if given is None:
            missed += questions()[number - 1 :]
            break
        if given != right:
            missed.append(question)
        print(f"   {'Yes' if given == right else f'No, {right}'}. {question.why}", file=out)
    _advise(missed, out)
    return missed


def _letter(answers: TextIO, out: TextIO) -> str | None:
    """Return the letter of the next answer, "" for an empty line, or None at the end."""
    while True:
        print(
            f"   {', '.join(LETTERS)}, or Enter if you do not know: ", end="", file=out, flush=True
        )
        line = answers.readline()
        if not line:
            print(file=out)
            return None
        answer = line.strip().lower()
        if answer == "" or answer in tuple(LETTERS):
            return answer
        print(f"   {answer!r} is not one of them.", file=out)


def _advise(missed: Sequence[Question], out: TextIO) -> None:
    known = len(questions()) - len(missed)
    print(f"\n{known} of {len(questions())}.", end=" ", file=out)
    if not missed:
        print(
            "You know all that the lessons build on: begin with lessons/00-primer.ipynb.", file=out
        )
        return
    print("Before the lessons, read:", file=out)
    for question in missed:
        print(f"  {question.about}: {question.read}", file=out)
    print("TCP itself is explained from the beginning in lessons/00-primer.ipynb.", file=out)
