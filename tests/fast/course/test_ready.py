import io
import re
from contextlib import redirect_stdout

import pytest
from tests.support.nonempty import each

from tcplab.course.ready import LETTERS, ask_all, questions


def shown(answers: str) -> tuple[int, str]:
    out = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out):
        patch.setattr("sys.stdin", io.StringIO(answers))
        missed = ask_all()
    return len(missed), out.getvalue()


def right_answers() -> str:
    _missed, text = shown("\n" * 10)
    return "\n".join(re.findall(r"No, ([abcd])\.", text)) + "\n"


def test_ten_questions_with_four_choices_and_a_link() -> None:
    assert len(questions()) == 10
    for question in each(questions()):
        assert len(set(question.choices)) == len(LETTERS)
        assert question.read.startswith("https://")
    assert len(set(right_answers().split())) == len(LETTERS)  # each letter is right at least once


def test_only_gaps_have_a_link() -> None:
    missed, text = shown(right_answers())
    assert (missed, "10 of 10." in text, "http" in text) == (0, True, False)
    missed, text = shown("\n" + right_answers().split("\n", 1)[1])
    assert missed == 1
    assert "9 of 10. Before the lessons, read:" in text
    assert re.findall(r"https://\S+", text) == [questions()[0].read]


def test_invalid_letters_are_asked_again_and_eof_counts_as_missed() -> None:
    missed, text = shown("x\n" + right_answers()[:4])
    assert "'x' is not one of them." in text
    assert missed == 8
