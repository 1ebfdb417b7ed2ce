"""Test the shares and messages of the checks, on plain data."""

import math
from collections import deque
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcplab.grading.assignment import Numbers
from tcplab.grading.checks import (
    Hint,
    Verdict,
    choice,
    combine,
    count,
    counts,
    counts_in,
    equal_parts,
    list_in,
    number,
    numbers_in,
    one_of,
    score,
    sizes_in,
)
from tcplab.grading.flags import suspicious_answers, suspicious_source
from tcplab.grading.sandbox_runner import plain
from tcplab.segments import SegmentArray

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(JSON)
def test_judging_checks_take_any_data(value: Any) -> None:
    for verdict in (
        number(value, 43.5, name="x", unit="ms", hints=[Hint(1, "hint", 0.5)]),
        count(value, 7, name="x"),
        counts(value, [1, 2, 3], name="x"),
        choice(value, "a", ["a", "b"], name="x"),
    ):
        assert verdict.share is not None
        assert 0 <= verdict.share <= 1
        assert "\n" not in verdict.message
        assert "43.5" not in verdict.message or str(value) in verdict.message


def test_number_gives_the_share_and_says_what_is_wrong() -> None:
    assert number(100, 100, name="x").passed
    assert number(101.9, 100, name="x").passed
    assert number(102.1, 100, name="x").message == "x is too large."
    assert number(97, 100, name="x", wrong="Think.").message == "x is too small. Think."
    hint = [Hint(50, "this is half.", 0.25)]
    assert number(50, 100, name="x", hints=hint) == Verdict(0.25, "x: this is half.")
    assert number(None, 100, name="x").message == "x has no answer yet."
    assert (
        number("100", 100, name="x", unit="ms").message == "x is '100'; give a plain number of ms."
    )
    assert number(True, 1, name="x").share == 0
    assert number(math.nan, 1, name="x").share == 0
    assert number(10**400, 1, name="x").share == 0
    assert "object of type Yes" in number({"unsupported": "Yes"}, 1, name="x").message


def test_counts_give_half_the_share_of_right_elements() -> None:
    assert counts([1, 2, 3], [1, 2, 3], name="x").passed
    assert counts([1, 2, 4], [1, 2, 3], name="x").share == pytest.approx(1 / 3, abs=1e-4)
    assert "index 2" in counts([1, 2, 4], [1, 2, 3], name="x").message
    assert counts([1, 2], [1, 2, 3], name="x").share == 0


@given(JSON)
def test_public_checks_take_any_data(value: Any) -> None:
    for result in (
        numbers_in({"x": value, "y": 1}, ["x", "y"], unit="ms", least=0),
        list_in(value, 3, name="x"),
        counts_in(value, name="x", least=1),
        sizes_in(value, 2000, name="x", most_bytes=1448),
        one_of(value, ["a", "b"], name="x", then="Why?"),
    ):
        if isinstance(result, Verdict):
            assert result.share in {0, 1}
            assert "\n" not in result.message
        else:
            assert isinstance(result, list)


def test_numbers_in_asks_for_plain_numbers() -> None:
    answers = {"x": 2.0, "y": 3, "z": "3"}
    assert numbers_in(answers, ["x", "y"]) == [2.0, 3.0]
    assert numbers_in(answers, ["x", "y"], least=2) == [2.0, 3.0]
    verdict = numbers_in(answers, ["x", "z"], unit="ms")
    assert isinstance(verdict, Verdict)
    assert verdict.message.startswith("x = 2.0, z = '3': give plain numbers, in ms;")
    verdict = numbers_in({"x": 2.0, "y": None}, ["x", "y"], unit="ms")
    assert verdict == Verdict(0, "y has no answer yet.")
    verdict = numbers_in(answers, ["x", "y"], least=3)
    assert verdict == Verdict(0, "x is 2; it is counted in whole numbers from 3.")
    assert isinstance(numbers_in({"x": 2.5}, ["x"], least=0), Verdict)


def test_lists_are_of_their_length_and_kind() -> None:
    assert list_in(["a", None], 2, name="x") == ["a", None]
    assert list_in(["a"], 2, name="x", of="words") == Verdict(
        0, "x is ['a']; it must be a list of 2 words."
    )
    assert isinstance(list_in([], name="x"), Verdict)
    assert counts_in([1, 2.0], 2, name="x") == [1, 2]
    assert counts_in([1, 2.5], name="x") == Verdict(
        0, "x[1] is 2.5; it must be a whole number from 0."
    )
    assert isinstance(counts_in([0], name="x", least=1), Verdict)
    assert isinstance(counts_in([True], name="x"), Verdict)
    assert sizes_in([1448, 20], 1468, name="x", most_bytes=1448) == [1448, 20]
    assert isinstance(sizes_in([1468], 1468, name="x", most_bytes=1448), Verdict)
    assert sizes_in([1448], 1468, name="x", most_bytes=1448) == Verdict(
        0, "x: these are 1448 bytes, and 1468 are sent."
    )


def test_public_choice_says_the_same_of_every_option() -> None:
    options = ["Cork", "nodelay", "none"]
    verdicts = {one_of(f" {option.upper()} ", options, name="x", then="Why?") for option in options}
    assert verdicts == {Verdict(1, "Why?")}
    assert one_of("nagle", options, name="x", then="Why?").share == 0


def test_equal_parts_weigh_the_same() -> None:
    good, bad = Verdict(1, "good."), Verdict(0, "bad.")
    assert equal_parts([good, bad, good]) == Verdict(0.6667, "bad. good. good.")
    assert equal_parts([good] * 7).passed
    with pytest.raises(ValueError, match="add up to 0"):
        equal_parts([])


def test_combine_weighs_each_part() -> None:
    good, bad, open_ = Verdict(1, "good."), Verdict(0, "bad."), Verdict(None, "?")
    assert combine([(0.5, good), (0.5, bad)]) == Verdict(0.5, "bad. good.")
    assert combine([(0.5, good), (0.5, open_)]).share is None
    assert combine([(1 / 3, good), (2 / 3, good)]).passed
    with pytest.raises(ValueError, match=r"add up to 0.5; they must add up to 1"):
        combine([(0.5, good)])
    with pytest.raises(ValueError, match="share=2"):
        Verdict(2, "")


def test_scores_are_rounded_to_two_decimals() -> None:
    assert score(Verdict(1 / 3, ""), 2) == 0.67
    assert score(Verdict(None, ""), 2) is None


@given(st.text(), st.text())
def test_numbers_depend_on_the_student_alone(one: str, other: str) -> None:
    def made(student: str) -> list[int]:
        own = Numbers("ps", student)
        return [own.integer(f"value-{i}", 0, 1 << 40) for i in range(4)]

    same = one.strip().casefold() == other.strip().casefold()
    assert (made(one) == made(other)) == same


class Always(int):
    """A number that claims to equal everything."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = int.__hash__


def test_answers_become_plain_data_or_unsupported() -> None:
    import numpy as np

    assert plain([1, 2.5, "x", None, True, (3,)]) == [1, 2.5, "x", None, True, [3]]
    assert plain(np.int64(4)) == 4
    assert plain(np.arange(3)) == [0, 1, 2]
    assert plain(np.arange(3.0).view(SegmentArray).max()) == 2.0
    assert plain(deque([1, 2])) == plain(range(1, 3)) == plain({1: 3, 2: 4}.keys()) == [1, 2]
    assert plain(range(10**15)) == {"unsupported": "huge range"}
    assert plain({7}) == plain(frozenset([7])) == [7]
    assert plain(b"\x45\x00") == "4500"
    assert plain(Always(3)) == {"unsupported": "Always"}
    assert plain(math.inf) == {"unsupported": "float inf"}
    assert plain(1 << 70) == {"unsupported": "huge int"}
    assert plain({10**5000: 1}) == {"unsupported": "dict (ValueError)"}  # too long for str()
    wide = [[0] * 200] * 200
    assert plain(wide) == {"unsupported": "huge list"}
    deep: list[Any] = []
    for _ in range(50):
        deep = [deep]
    assert "unsupported" in repr(plain(deep))


def test_flags_name_the_place() -> None:
    (flag,) = suspicious_source("code cell 3", "x = 1\nimport ctypes\n")
    assert flag == "uses-native-code: code cell 3 line 2, 'ctypes'"
    assert list(suspicious_answers({"q1": {"unsupported": "Yes"}, "q2": 3})) == [
        "not-plain-data: q1 is of type Yes"
    ]
