"""A long measurement can be left at any time with what it has."""

from __future__ import annotations

import pytest

from tcplab.experiments.progress import Rounds


def leave_in_round(last: int, error: BaseException) -> Rounds:
    with Rounds(5, "test") as rounds:
        for number in rounds:
            if number == last:
                raise error
    return rounds


def test_all_rounds() -> None:
    with Rounds(3, "test") as rounds:
        assert list(rounds) == [0, 1, 2]
    assert rounds.done == 3
    assert not rounds.interrupted


def test_an_interrupted_round_does_not_count() -> None:
    rounds = leave_in_round(2, KeyboardInterrupt())
    assert rounds.done == 2
    assert rounds.interrupted


def test_interrupted_before_anything_was_measured() -> None:
    with pytest.raises(KeyboardInterrupt):
        leave_in_round(0, KeyboardInterrupt())


def test_other_errors_pass() -> None:
    with pytest.raises(OSError, match="gone"):
        leave_in_round(1, OSError("gone"))


def test_nothing_is_drawn_but_on_a_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    with Rounds(2, "test") as rounds:
        list(rounds)
    assert capfd.readouterr() == ("", "")


def test_no_rounds() -> None:
    with pytest.raises(ValueError, match="0 runs"):
        Rounds(0, "test")
