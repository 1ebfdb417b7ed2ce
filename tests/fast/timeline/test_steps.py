"""The model's steps and the recorded ones side by side."""

from __future__ import annotations

from tests.support.nonempty import each

from tcplab.models.steps import Step, message_steps
from tcplab.timeline.steps import agreement, matches


def steps(option: str = "default") -> list[Step]:
    return message_steps(option, [2] * 5, rtt_ms=0.0)


def test_each_segment_matches_the_recorded_one_at_the_same_position() -> None:
    model = steps()
    for index, (match, step) in each(enumerate(zip(matches(model, model), model, strict=True))):
        assert match in (index, None)
        if step.kind in ("segment", "ack", "reply"):
            assert match == index


def test_agreement_names_the_difference() -> None:
    assert agreement(steps(), steps()).startswith("the same: 2 + 8 bytes")
    assert "kernel 10 bytes" in agreement(steps(), steps("cork"))
