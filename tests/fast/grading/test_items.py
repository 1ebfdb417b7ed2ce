"""Test item statistics of classes whose figures are known."""

import pytest

from tcplab.grading.report import Item, ReportLine, items

FULL = {"q1": 2.0, "q2": 4.0}


def marked(points: dict[str, float], messages: dict[str, str] | None = None) -> ReportLine:
    return ReportLine("ada", by_question=points, messages=messages or {})


def only(question: str, class_: list[ReportLine], full: dict[str, float] | None = None) -> Item:
    (item,) = (
        candidate for candidate in items(full or FULL, class_) if candidate.question == question
    )
    return item


def test_difficulty_is_the_mean_share_of_the_points() -> None:
    class_ = [marked({"q1": points, "q2": 4.0}) for points in (2, 2, 1, 0, 0)]
    assert only("q1", class_).difficulty == pytest.approx(0.5)
    assert only("q2", class_).difficulty == 1


def test_from_too_few_learners_nothing_is_computed() -> None:
    item = only("q1", [marked({"q1": 2.0, "q2": 4.0})] * 4)
    assert (item.count, item.difficulty) == (4, None)


def test_question_that_is_not_marked_is_not_counted() -> None:
    class_ = [marked({"q1": n % 3, "q2": 1.0 + n % 3}) for n in range(30)]
    class_[0] = marked({"q1": 0.0, "q2": 1.0, "w1": 2.0})
    assert only("w1", class_, FULL | {"w1": 2.0}).count == 1


def test_untouched_submissions_are_not_counted() -> None:
    class_ = [marked({"q1": 2.0, "q2": 2.0})] * 6
    item = only("q2", [*class_, *[marked({"q1": 0.0, "q2": 0.0})] * 6])
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
        marked({"q1": own, "q2": 1.0}, {"q1": message})
        for own, message in zip(points, messages, strict=True)
    ]
    item = only("q1", class_)
    assert (item.mistake, item.mistaken) == (one_way.format("…"), 2)
    assert only("q2", class_).mistake == ""


def test_question_without_points_is_no_item() -> None:
    class_ = [marked({"q1": 2.0, "extra": 0.0})] * 5
    assert [item.question for item in items({"q1": 2.0, "extra": 0.0}, class_)] == ["q1"]
