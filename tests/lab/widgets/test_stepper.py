"""The stepper: the kernel's events are those of the model."""

from __future__ import annotations

import pytest

from tcplab import widgets


@pytest.mark.timeout(240)
def test_kernel_sends_the_same_segments() -> None:
    panel = widgets.stepper()
    try:
        for variant in ("default", "cork"):
            labels = []
            for _ in range(3):  # a writer that was kept from its CPU for 40 ms sends others
                panel.set(variant=variant).start().wait()
                assert panel.phase == "done", panel.message
                labels.append(panel.runs[-1]["label"])
                if "the same" in labels[-1]:
                    break
            assert "the same" in labels[-1], labels
            steps = panel.runs[-1]["steps"]
            assert {row["kind"] for row in steps["kernel"]} >= {"call", "segment", "reply"}
            paired = [row for row in steps["model"] if row["kind"] in ("segment", "reply")]
            assert paired
            assert all(row["match"] is not None for row in paired)
    finally:
        panel.close()
