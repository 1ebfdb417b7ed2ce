"""The benchmark of grading: what it wants, and how it is told."""

from __future__ import annotations

from tests.benchmarks import bench_grading, report


def rows(stock: float, one: float, two: float) -> list[dict[str, object]]:
    values = {"nbgrader autograde": stock, bench_grading.ALONE: one, "tcplab grade, 2 jobs": two}
    return [
        {
            "entrant": name,
            "submissions_per_min": value,
            "lowest": value - 1,
            "highest": value + 1,
            "rounds": 5,
        }
        for name, value in values.items()
    ]


def test_two_jobs_shall_be_twice_as_fast_as_stock_nbgrader_and_use_two_processors() -> None:
    beside, alone = bench_grading.goals(rows(20.0, 25.0, 40.0))
    assert (beside["of"], beside["was"], beside["reached"]) == ("nbgrader autograde", 2.0, True)
    assert (alone["of"], alone["was"], alone["reached"]) == (bench_grading.ALONE, 1.6, True)
    assert not any(each["reached"] for each in bench_grading.goals(rows(22.0, 35.0, 40.0)))


def test_the_document_has_the_rows() -> None:
    text = report._grading(rows(20.0, 25.0, 40.0))
    assert "| nbgrader autograde" in text
    assert "39.0–41.0" in text
    (goal, _) = bench_grading.goals(rows(20.0, 25.0, 40.0))
    assert report._in_words(goal)["goal"] == "2 × nbgrader autograde"
