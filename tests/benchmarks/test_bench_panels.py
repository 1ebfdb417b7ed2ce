"""The benchmark of the panels: what is ours of the time to the picture, and how it is told."""

from __future__ import annotations

from typing import Any

import pytest
from tests.benchmarks import bench_panels, report


def row(which: str, ours_ms: float, **more: Any) -> dict[str, Any]:
    return {"which": which, "ours": ours_ms, **more}


FOUND: dict[str, Any] = {
    "rows": [
        row("panel cork", 150.0, range="140–190", drawing=90.0, experiment=600.0, first=1900.0),
        row("panel stepper", 40.0, range="30–50", drawing=5.0, experiment=500.0, first=1800.0),
        row("panel buffers", 210.0, range="9–300", drawing=1.0, experiment=700.0, first=2000.0),
        row("import tcplab", 301.0),
        row("lesson 05, start to first figure", 4000.0),
    ],
    "absent": None,
}


def test_the_goals_are_of_the_median_panel_and_of_the_import() -> None:
    screen, imported = bench_panels.goals(FOUND)
    assert (screen["was"], screen["reached"]) == (150.0, True)
    assert "on the screen" in screen["entrant"]
    assert (imported["was"], imported["reached"]) == (301.0, False)


def test_without_a_browser_the_document_says_where_the_way_ends() -> None:
    found = FOUND | {"absent": "chromium is not installed: apt install chromium"}
    assert "in the kernel" in bench_panels.goals(found)[0]["entrant"]
    assert "NOT MEASURED, the way ends in the kernel: chromium" in report._panels(found)
    text = report._panels(FOUND)
    assert "NOT MEASURED" not in text
    (line,) = [line for line in text.splitlines() if "panel cork" in line]
    assert [cell.strip() for cell in line.strip("|").split("|")] == [
        "panel cork",
        "150",
        "140–190",
        "90",
        "600",
        "1900",
    ]


def test_our_part_is_what_the_experiment_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_panels, "PANELS", {"stepper": {"writes": 2}})
    with bench_panels._in_kernel() as press:
        seconds = press("stepper")
        assert 0 < seconds["drawing"] < seconds["wait"] - seconds["experiment"]
        found = bench_panels._panel("stepper", press, rounds=1)
    assert found["which"] == "panel stepper"
    assert 0 < found["drawing"] < found["ours"]
    assert found["experiment"] > 0
