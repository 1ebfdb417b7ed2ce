"""The model's steps of one message: segments, rules and the sender's state."""

from __future__ import annotations

import pytest

from tcplab.models import OPTIONS, NetworkPath, message_cost
from tcplab.models.steps import Step, message_steps


def steps(option: str = "default", writes: int = 5, rtt_ms: float = 0.0) -> list[Step]:
    return message_steps(option, [2] * writes, rtt_ms)


def sizes(some: list[Step]) -> list[int]:
    return [step.bytes for step in some if step.kind == "segment"]


def test_two_bytes_leave_and_the_rest_waits_for_the_delayed_ack() -> None:
    found = steps()
    assert sizes(found) == [2, 8]
    assert [step.kind for step in found][:3] == ["call", "segment", "call"]
    waiting = found[2]
    assert "2 bytes wait" in waiting.why
    assert "Nagle" in waiting.why
    ack = next(step for step in found if step.kind == "ack")
    assert "delayed-ACK timer" in ack.text
    assert found[-1].kind == "reply"
    assert found[-1].state["unacknowledged"] == "0 B"


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("rtt_ms", [0.0, 20.0])
def test_steps_agree_with_the_model_of_messages(option: str, rtt_ms: float) -> None:
    """The steps feed a sender of their own, which must do what `simulate` said."""
    found = steps(option, rtt_ms=rtt_ms)
    cost = message_cost([2] * 5, option, path=NetworkPath(rtt_ms=rtt_ms), messages=1, warm_up=3)
    assert len(sizes(found)) == cost.data_segments_per_message
    assert found[-1].time_ms <= cost.ms_per_message


def test_times_are_in_order() -> None:
    times = [step.time_ms for step in steps(rtt_ms=20.0, writes=15)]
    assert len(times) > 15
    assert times == sorted(times)
