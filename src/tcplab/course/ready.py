"""Ask ten questions on the course's prerequisites, with a link for each gap (`tcplab ready`)."""

import random
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

LETTERS: Final = "abcd"


@dataclass(frozen=True, slots=True)
class ReadyQuestion:
    """A question with four choices, the first of which is right."""

    about: str
    ask: str
    choices: Sequence[str]
    why: str
    read: str  #: URL of a text that closes the gap


@cache
def questions() -> tuple[ReadyQuestion, ...]:
    """Return the questions of ready.toml, in its order."""
    text = Path(__file__).with_suffix(".toml").read_text()
    return tuple(ReadyQuestion(**entry) for entry in tomllib.loads(text)["questions"])


def ask_all() -> list[ReadyQuestion]:
    """Ask each question and show the right answer; return those missed or not reached."""
    missed = list(questions())
    try:
        for number, question in enumerate(questions(), 1):
            print(f"\n{number}. {question.ask}")
            if _is_known(question):
                missed.remove(question)
    except EOFError:
        print()
    _advise(missed)
    return missed


def _is_known(question: ReadyQuestion) -> bool:
    choices = list(question.choices)
    random.Random(question.about).shuffle(choices)
    for letter, choice in zip(LETTERS, choices, strict=True):
        print(f"   {letter}) {choice}")
    right = LETTERS[choices.index(question.choices[0])]
    prompt = f"   {', '.join(LETTERS)}, or Enter if you do not know: "
    while (answer := input(prompt).strip().lower()) not in ("", *LETTERS):
        print(f"   {answer!r} is not one of them.")
    print(f"   {'Yes' if answer == right else f'No, {right}'}. {question.why}")
    return answer == right


def _advise(missed: Sequence[ReadyQuestion]) -> None:
    print(f"\n{len(questions()) - len(missed)} of {len(questions())}.", end=" ")
    if not missed:
        print("You know all that the lessons build on: begin with lessons/00-primer.ipynb.")
        return
    print("Before the lessons, read:")
    for question in missed:
        print(f"  {question.about}: {question.read}")
    print("TCP itself is explained from the beginning in lessons/00-primer.ipynb.")
