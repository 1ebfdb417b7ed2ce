"""Test item statistics of classes whose figures are known."""

from __future__ import annotations

import pytest

from tcplab.grading.report import Item, Marked, items

FULL = {"q1": 2.0, "q2": 4.0}


def only(question: str, class_: list[Marked], full: dict[str, float] | None = None) -> Item:
    (item,) = (
        candidate for candidate in items(full or FULL, class_) if candidate.question == question
    )
    return item


def test_difficulty_is_the_mean_share_of_the_points() -> None:
    class_ = [Marked({"q1": points, "q2": 4.0}) for points in (2, 2, 1, 0, 0)]
    assert only("q1", class_).difficulty == pytest.approx(0.5)
    assert only("q2", class_).difficulty == 1


def test_from_too_few_learners_nothing_is_computed() -> None:
    four = [Marked({"q1": 2.0, "q2": 4.0})] * 4
    item = only("q1", four)
    assert (item.count, item.difficulty, item.discrimination) == (4, None, None)
    assert item.why_no_difficulty == item.why_no_discrimination == "too few (4)"
    nineteen = [Marked({"q1": n % 3, "q2": n % 3 + 1}) for n in range(19)]
    item = only("q1", nineteen)
    assert item.difficulty is not None
    assert item.why_no_discrimination == "too few (19)"
    assert only("q1", [*nineteen, nineteen[0]]).discrimination is not None


def test_discrimination_ranges_from_minus_one_to_one() -> None:
    points = [n % 5 / 2 for n in range(25)]
    same = [Marked({"q1": own, "q2": 1 + own}) for own in points]
    opposite = [Marked({"q1": own, "q2": 4 - own}) for own in points]
    assert only("q1", same).discrimination == pytest.approx(1)
    assert only("q1", opposite).discrimination == pytest.approx(-1)
    halves = [Marked({"q1": n % 2, "q2": 1 + n // 2 % 2}) for n in range(24)]
    assert only("q1", halves).discrimination == pytest.approx(0)


def test_question_that_all_answer_alike_has_no_discrimination() -> None:
    class_ = [Marked({"q1": 2.0, "q2": n % 4}) for n in range(30)]
    assert only("q1", class_).why_no_discrimination == "all alike"
    assert only("q2", class_).why_no_discrimination == "all alike"  # the rest is q1, equal for all


def test_rest_leaves_out_the_question_itself_and_what_is_not_marked() -> None:
    full = {"q1": 2.0, "q2": 4.0, "w1": 2.0}
    class_ = [Marked({"q1": n % 3, "q2": 1.0 + n % 3}) for n in range(30)]
    class_[0] = Marked({"q1": 0.0, "q2": 1.0, "w1": 2.0})
    assert only("q1", class_, full).discrimination == pytest.approx(1)
    assert only("w1", class_, full).count == 1


def test_untouched_submissions_are_not_counted() -> None:
    class_ = [Marked({"q1": 2.0, "q2": 2.0})] * 6
    item = only("q2", [*class_, *[Marked({"q1": 0.0, "q2": 0.0})] * 6])
    assert (item.count, item.difficulty) == (6, 0.5)


def test_commonest_mistake_ignores_the_learners_own_numbers() -> None:
    one_way = "q1_default_ms: this is one way only: {} ms; the ACK has to come back."
    messages = [
        one_way.format(20),
        one_way.format(31.5),
        "q1_default_ms is too large.",
        "right",
        "x",
    ]
    points = (0.0, 0.5, 0.0, 2.0, 2.0)
    class_ = [
        Marked({"q1": own, "q2": 1.0}, {"q1": message})
        for own, message in zip(points, messages, strict=True)
    ]
    item = only("q1", class_)
    assert (item.mistake, item.mistaken) == (one_way.format("…"), 2)
    assert only("q2", class_).mistake == ""


def test_question_without_points_is_no_item() -> None:
    class_ = [Marked({"q1": 2.0, "extra": 0.0})] * 5
    assert [item.question for item in items({"q1": 2.0, "extra": 0.0}, class_)] == ["q1"]
