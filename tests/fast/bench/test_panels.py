"""Benchmarks of panels, grading and feedback: our part of the time, the goals, the waits."""

from __future__ import annotations

from typing import Any

import pytest
from bench import grading, panels, report
from bench.feedback import PAUSE_S, simulated


def row(which: str, ours_ms: float, **more: Any) -> dict[str, Any]:
    return {"which": which, "ours": ours_ms, **more}


ROWS: list[dict[str, Any]] = [
    row("panel cork", 150.0, range="140–190", drawing=90.0, experiment=600.0, first=1900.0),
    row("panel stepper", 40.0, range="30–50", drawing=5.0, experiment=500.0, first=1800.0),
    row("panel buffers", 260.0, range="9–300", drawing=1.0, experiment=700.0, first=2000.0),
    row("import tcplab", 101.0),
    row("lesson 05, start to first figure", 4000.0),
]


def test_goals_of_panels_are_the_median_and_the_import() -> None:
    screen, imported = panels.part(ROWS, None).goals
    assert (screen.was, screen.wanted, screen.reached) == (150.0, "at most 250", True)
    assert "on the screen" in screen.entrant
    assert (imported.was, imported.reached) == (101.0, False)


def test_missing_browser_is_named_in_the_document() -> None:
    absent = panels.part(ROWS, "chromium is not installed: apt install chromium")
    assert "in the kernel" in absent.goals[0].entrant
    assert "NOT MEASURED, the way ends in the kernel: chromium" in absent.text
    found = panels.part(ROWS, None)
    assert "NOT MEASURED" not in found.text
    (line,) = [line for line in found.tables[0].text("github").splitlines() if "panel cork" in line]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells == ["panel cork", "150", "140–190", "90", "600", "1900"]


def graded(stock: float, one: float, two: float) -> report.Part:
    values = {"nbgrader autograde": stock, grading.ALONE: one, "tcplab grade, 2 jobs": two}
    return grading.part(
        [
            {"entrant": name, "median": value, "lowest": value - 1, "highest": value + 1}
            for name, value in values.items()
        ]
    )


def test_two_jobs_scale() -> None:
    beside, alone = graded(20.0, 25.0, 40.0).goals
    assert (beside.wanted, beside.was) == ("1.5 × nbgrader autograde", 2.0)
    assert (alone.wanted, alone.was) == (f"1.3 × {grading.ALONE}", 1.6)
    assert beside.reached
    assert alone.reached
    assert not any(goal.reached for goal in graded(27.0, 35.0, 40.0).goals)


def test_the_rates_of_grading_are_shown_with_their_range() -> None:
    text = graded(20.0, 25.0, 40.0).tables[0].text("github")
    assert "| nbgrader autograde" in text
    assert "39.0–41.0" in text


def test_mean_wait_at_half_of_the_load_is_that_of_theory() -> None:
    # Two places, constant times: half of the wait of M/M/2, which is S rho^2 / (1 - rho^2).
    times = simulated([PAUSE_S], hours=100)
    wait_s = sum(times) / len(times) - PAUSE_S
    assert wait_s == pytest.approx(PAUSE_S * 0.25 / 0.75 / 2, rel=0.25)
