"""The stepper: the kernel's events are those of the model."""

from __future__ import annotations

import contextlib
import itertools
from typing import Any

import pytest
from tests.support.undisturbed import undisturbed

from tcplab import widgets

pytestmark = [pytest.mark.needs_lab, pytest.mark.timeout(240)]


def pause(run: dict[str, Any]) -> str:
    """Whether the writer, which never waits between its writes, was kept from its CPU."""
    for before, row in itertools.pairwise(
        row for row in run["steps"]["kernel"] if row["kind"] in ("call", "reply")
    ):
        if before["kind"] == row["kind"] == "call" and row["time_ms"] - before["time_ms"] > 10:
            return "the writer was kept from its CPU"
    return ""


def test_kernel_sends_the_same_segments() -> None:
    with contextlib.closing(widgets.stepper()) as panel:
        for variant in ("default", "cork"):
            panel.set(variant=variant)
            run = undisturbed(lambda: panel.start().wait().runs[-1], pause)
            assert "the same" in run["label"]
            steps = run["steps"]
            assert {row["kind"] for row in steps["kernel"]} >= {"call", "segment", "reply"}
            paired = [row for row in steps["model"] if row["kind"] in ("segment", "reply")]
            assert paired
            assert all(row["match"] is not None for row in paired)
