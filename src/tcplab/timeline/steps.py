"""Compare a recorded message event by event with the model's steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tcplab.models.steps import Step
from tcplab.timeline.timeline import Timeline


def recorded_steps(timeline: Timeline, message: int | None = None) -> list[Step]:
    """Return the writes, segments and ACKs of a message (by default the last) at the sender."""
    message = timeline.messages if message is None else message
    writes = [write for write in timeline.writes if write.message == message]
    begin_ns = writes[0].time_ns
    first_byte = writes[0].offset
    end_byte = first_byte + sum(write.bytes for write in writes)

    def ms(time_ns: int) -> float:
        return (time_ns - begin_ns) / 1e6

    steps = [
        Step(ms(write.time_ns), "call", f"write of {write.bytes} bytes", write.bytes)
        for write in writes
    ]
    for segment in timeline.segments:
        if first_byte <= segment.offset < end_byte and (size := segment.payload_bytes):
            text = f"{size} bytes, {segment.reason}: {segment.evidence}"
            steps.append(Step(ms(segment.time_ns), "segment", text, size))
    for ack in timeline.acks:
        if ack.time_ns < begin_ns or not first_byte < ack.ack <= end_byte:
            continue
        if size := ack.payload_bytes:
            text = f"{size} bytes, and the ACK of byte {ack.ack}"
            steps.append(Step(ms(ack.time_ns), "reply", text, size))
        else:
            steps.append(Step(ms(ack.time_ns), "ack", f"all before byte {ack.ack} has arrived"))
    return sorted(steps, key=lambda step: step.time_ms)


def matches(model: Sequence[Step], recorded: Sequence[Step]) -> Iterator[int | None]:
    """Yield for each of the model's steps the index of the same recorded step, or None.

    The model's n-th segment, ACK, reply or write matches the n-th recorded one.
    """
    taken = {
        kind: iter([index for index, step in enumerate(recorded) if step.kind == kind])
        for kind in ("segment", "ack", "reply", "call")
    }
    for step in model:
        is_paired = step.kind in taken and (step.kind != "call" or step.text.startswith("write"))
        yield next(taken[step.kind], None) if is_paired else None


def agreement(model: Sequence[Step], recorded: Sequence[Step]) -> str:
    """State whether both have the same segments in the same order."""
    sizes, acks = zip(*map(_counted, (model, recorded)), strict=True)
    if sizes[0] == sizes[1] and acks[0] == acks[1]:
        return f"the same: {_listed(sizes[0])}, {acks[0]} pure ACKs"
    return f"model {_listed(sizes[0])}, {acks[0]} ACKs; kernel {_listed(sizes[1])}, {acks[1]} ACKs"


def _counted(steps: Sequence[Step]) -> tuple[list[int], int]:
    sizes = [step.bytes for step in steps if step.kind == "segment"]
    return sizes, sum(step.kind == "ack" for step in steps)


def _listed(sizes: Sequence[int]) -> str:
    shown = " + ".join(map(str, sizes[:6]))
    return f"{shown} + … ({len(sizes)} segments)" if len(sizes) > 6 else f"{shown} bytes"
