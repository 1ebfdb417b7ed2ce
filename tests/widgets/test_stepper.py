"""The stepper: the model's events, and that they are those of the kernel."""

from __future__ import annotations

from typing import Any

import pytest
from tests.nonempty import each

from tcplab import widgets
from tcplab.models import message_cost
from tcplab.widgets.controls import checked
from tcplab.widgets.instrument import load
from tcplab.widgets.panels.stepper import Event, agreement, matched, model_events


def events(**values: Any) -> list[Event]:
    return model_events(checked(load("stepper").controls, values))


def sizes(some: list[Event]) -> list[int]:
    return [event.bytes for event in some if event.kind == "segment"]


def test_two_bytes_leave_and_the_rest_waits_for_the_delayed_ack() -> None:
    found = events()
    assert sizes(found) == [2, 8]
    assert [event.kind for event in found][:3] == ["call", "segment", "call"]
    waiting = found[2]
    assert "2 bytes wait" in waiting.why
    assert "Nagle" in waiting.why
    ack = next(event for event in found if event.kind == "ack")
    assert "delayed-ACK timer" in ack.words
    assert found[-1].kind == "reply"
    assert found[-1].state is not None
    assert found[-1].state["un-ACKed"] == "0 B"


@pytest.mark.parametrize(
    ("mode", "expected"),
    [("no_delay", [2] * 5), ("cork", [10]), ("msg_more", [10]), ("writev", [10])],
)
def test_the_segments_of_the_cures(mode: str, expected: list[int]) -> None:
    assert sizes(events(mode=mode)) == expected


@pytest.mark.parametrize("mode", ["default", "no_delay", "cork", "msg_more", "writev"])
@pytest.mark.parametrize("rtt_ms", [0.0, 20.0])
def test_the_replay_agrees_with_the_model_of_messages(mode: str, rtt_ms: float) -> None:
    """The stepper feeds a sender of its own; it must do what `predict` said that it does."""
    from tcplab.models import Path

    found = events(mode=mode, rtt_ms=rtt_ms)
    cost = message_cost([2] * 5, mode, path=Path(rtt_ms=rtt_ms), messages=1, warm_up=3)
    assert len(sizes(found)) == cost.data_segments_per_message
    assert found[-1].time_ms <= cost.ms_per_message


def test_times_do_not_go_back() -> None:
    times = [event.time_ms for event in events(mode="default", rtt_ms=20, writes=15)]
    assert times == sorted(times)


def test_each_segment_is_paired_with_the_kernels_segment_of_the_same_place() -> None:
    model = events()
    rows = matched(model, model)
    for index, (row, event) in each(enumerate(zip(rows, model, strict=True))):
        assert row["match"] in (index, None)
        if event.kind in ("segment", "ack", "reply"):
            assert row["match"] == index


def test_agreement_names_the_difference() -> None:
    assert agreement(events(), events()).startswith("the same: 2 + 8 bytes")
    assert "kernel 10 bytes" in agreement(events(), events(mode="cork"))


@pytest.mark.timeout(240)
def test_the_kernel_sends_the_same_segments() -> None:
    panel = widgets.stepper()
    try:
        for mode in ("default", "cork"):
            labels = []
            for _ in range(3):  # a writer that was kept from its CPU for 40 ms sends others
                panel.set(mode=mode).start().wait()
                assert panel.phase == "done", panel.message
                labels.append(panel.runs[-1]["label"])
                if "the same" in labels[-1]:
                    break
            assert "the same" in labels[-1], labels
            steps = panel.runs[-1]["steps"]
            assert {row["kind"] for row in steps["kernel"]} >= {"call", "segment", "reply"}
            paired = [row for row in steps["model"] if row["kind"] in ("segment", "reply")]
            assert all(row["match"] is not None for row in paired)
    finally:
        panel.close()
