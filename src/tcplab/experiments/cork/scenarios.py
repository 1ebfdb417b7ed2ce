"""A cork with TCP_NODELAY, with Nagle, with an ACK; and a cork that nobody pulls."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, cast

from tcplab.errors import ParameterError
from tcplab.experiments import Between, Result, Variant, experiment, provenance
from tcplab.experiments.cork.scripts import SETTLE_MS, Played, play, script_words
from tcplab.lab import Lab
from tcplab.models import Call, NetworkPath, Reason, simulate
from tcplab.models.conversation import Kind
from tcplab.tables import Column

if TYPE_CHECKING:
    from tcplab.timeline import Segment, Timeline

#: Scripts are played again when a call was so far from its time, and so often at most.
_LATE_MS: Final = 5
_ATTEMPTS: Final = 4


# ---- a cork that nobody pulls --------------------------------------------------------------------


class Waited(Variant, key=("rtt_ms", "call")):
    """A write that nothing followed, and how long it waited."""

    rtt_ms: float  #: of the wire
    call: str  #: "cork" or "MSG_MORE"
    waited_ms: float  #: from the write until its segment left
    model_ms: float  #: what the model expects: the retransmission timeout, by the kernel's tick


class Forgotten(Result[Waited]):
    """A write of 100 bytes into a cork that is never pulled, by round-trip time."""

    columns: ClassVar[Sequence[Column]] = (
        Column("rtt_ms", "RTT (ms)", "g"),
        Column("cork_ms", "cork: waited (ms)", ".0f"),
        Column("more_ms", "MSG_MORE: waited (ms)", ".0f"),
        Column("model_ms", "model (ms)", ".0f"),
        Column("manual_ms", "tcp(7) (ms)", "d", is_setting=True),
    )

    def rows(self) -> list[dict[str, Any]]:
        """One row per round-trip time."""
        found: dict[float, dict[str, Any]] = {}
        for each in self.variants:
            row = found.setdefault(
                each.rtt_ms,
                {"variant": f"{each.rtt_ms:g} ms", "rtt_ms": each.rtt_ms, "manual_ms": 200},
            )
            row["cork_ms" if each.call == "cork" else "more_ms"] = each.waited_ms
            row["model_ms"] = each.model_ms
        return list(found.values())


@experiment("forgotten-cork")
def measure_forgotten(
    rtts_ms: Annotated[Sequence[float], Between(0, 500, "ms")] = (0, 20, 60, 150),
) -> Forgotten:
    """A cork that nobody pulls, and MSG_MORE without more: how long the kernel waits.

    Args:
        rtts_ms: round-trip times of the wire.
    """
    waits = []
    with Lab(rtt_ms=rtts_ms[0]) as lab:
        for rtt_ms in rtts_ms:
            lab.link.update(rtt_ms=rtt_ms)
            pauses = (Call("nodelay", 0, SETTLE_MS), Call("quickack", 1, 700 + 3 * rtt_ms))
            scripts = {
                "cork": (pauses[0], Call("cork", 1), Call("write", 100), pauses[1]),
                "MSG_MORE": (pauses[0], Call("more", 100), pauses[1]),
            }
            played = play(lab, [script_words(calls) for calls in scripts.values()])
            for (call, calls), each in zip(scripts.items(), played, strict=True):
                waits.append(_waited(rtt_ms, call, calls, each))
        return Forgotten(waits, provenance(lab))


def _waited(rtt_ms: float, call: str, calls: Sequence[Call], played: Played) -> Waited:
    wrote_ns = next(each.time_ns for each in played.log if each.name in ("write", "more"))
    left_ns = played.data.first_time_ns
    (expected,) = simulate(calls, NetworkPath(rtt_ms=rtt_ms)).data
    return Waited(rtt_ms, call, (left_ns - wrote_ns) / 1e6, expected.waited_ms)


# ---- questions of the texts and of the manual ----------------------------------------------------


#: Each is a question of the texts or of the manual.
DEFAULT_SCRIPTS: Final = (
    "cork on, write 1000, wait 40, write 1000, wait 40, cork off",
    "cork on, write 100, wait 40, nodelay on, wait 40, write 200, wait 40, cork off",
    "nodelay on, cork on, write 100, wait 60, write 200, wait 60, cork off",
    "write 10, cork on, write 20, cork off",
    "nodelay on, write 10, cork on, write 20, cork off",
)

_STEP: Final = re.compile(
    r"(?P<kind>write|more|wait) (?P<number>\d{1,5})|(?P<option>cork|nodelay) (?P<value>on|off)"
)
#: A script longer than this would not end before the lab's programs give up.
_MOST_MS: Final = 5000


def parse_script(script: str) -> tuple[Call, ...]:
    """The calls of a script such as "cork on, write 100, wait 40, cork off".

    Raises:
        ParameterError: it has another step, no write, or waits too long.
    """
    calls: list[Call] = []
    pause_ms = 0
    for step in script.split(","):
        found = _STEP.fullmatch(step.strip())
        if not found:
            raise ParameterError(
                f"script {script!r}: {step.strip()!r} is not a step; use write N, more N, wait MS,"
                " cork on, cork off, nodelay on, nodelay off"
            )
        if found["kind"] == "wait":
            pause_ms += int(found["number"])
            continue
        value = int(found["number"] or found["value"] == "on")
        calls.append(Call(cast(Kind, found["kind"] or found["option"]), value, pause_ms))
        pause_ms = 0
    if not any(call.kind in ("write", "more") for call in calls):
        raise ParameterError(f"script {script!r} writes nothing")
    if sum(call.delay_ms for call in calls) > _MOST_MS:
        raise ParameterError(f"script {script!r} waits longer than {_MOST_MS} ms in all")
    return tuple(calls)


class Scenario(Variant):
    """A script and what became of it."""

    script: str  #: its calls in words
    played: Played  #: calls and segments
    model: tuple[tuple[int, str], ...]  #: (bytes, reason) of the segments that the model expects

    @property
    def late_ms(self) -> float:
        """Distance of the last call from its time in the script: a busy machine shifts calls."""
        log = self.played.log
        asked_ms = sum(call.delay_ms for call in parse_script(self.script))
        return abs((log[-1].time_ns - log[0].time_ns) / 1e6 - asked_ms)

    def segments(self) -> list[Segment]:
        """The segments with their reasons, in order."""
        return [each for each in self.timeline().segments if each.reason != Reason.RETRANSMISSION]

    def timeline(self) -> Timeline:
        """See :func:`tcplab.timeline.explain`."""
        return self.played.timeline()


class Scenarios(Result[Scenario]):
    """Scripts of calls, and the segments that left."""

    columns: ClassVar[Sequence[Column]] = (
        Column("variant", "script"),
        Column("bytes", "segment (bytes)", "d"),
        Column("left_ms", "left at (ms)", ".1f"),
        Column("waited_for", "waited for"),
        Column("reason", "left because"),
    )

    def rows(self) -> list[dict[str, Any]]:
        """One row per segment."""
        found = []
        for each in self.variants:
            for index, segment in enumerate(each.segments()):
                held = segment.held_by
                found.append(
                    {
                        "variant": each.script if index == 0 else "",
                        "bytes": segment.payload_bytes,
                        "left_ms": (segment.time_ns - each.played.start_ns) / 1e6,
                        "waited_for": "nothing" if held is None else str(held.reason),
                        "reason": str(segment.reason),
                    }
                )
        return found


@experiment("cork-scenarios")
def measure_scenarios(
    scripts: Sequence[str] = DEFAULT_SCRIPTS, rtt_ms: Annotated[float, Between(5, 100, "ms")] = 20
) -> Scenarios:
    """Scripts of calls around a cork, and the segments that leave, with their reasons.

    On a busy machine a call may come late, and then it is another script: they are played again, up
    to four times, and those that were closest to their times count (provenance: calls_late_ms).

    Args:
        scripts: calls of one connection each, such as "cork on, write 100, wait 40, cork off".
        rtt_ms: round-trip time of the wire.
    """
    settle, end = Call("nodelay", 0, SETTLE_MS), Call("quickack", 1, 500 + 3 * rtt_ms)
    calls = [(settle, *parse_script(script), end) for script in scripts]
    best: list[Scenario] = []
    attempts = 0
    with Lab(rtt_ms=rtt_ms) as lab:
        while attempts < _ATTEMPTS and (not best or _lateness_ms(best) >= _LATE_MS):
            attempts += 1
            played = play(lab, [script_words(each) for each in calls])
            found = [
                Scenario(script, each, _model(made, rtt_ms))
                for script, made, each in zip(scripts, calls, played, strict=True)
            ]
            if not best or _lateness_ms(found) < _lateness_ms(best):
                best = found
        details = {"attempts": attempts, "calls_late_ms": _lateness_ms(best)}
        return Scenarios(best, provenance(lab, **details))


def _lateness_ms(scenarios: Sequence[Scenario]) -> float:
    return max(each.late_ms for each in scenarios)


def _model(calls: Sequence[Call], rtt_ms: float) -> tuple[tuple[int, str], ...]:
    data = simulate(calls, NetworkPath(rtt_ms=rtt_ms)).data
    return tuple((each.payload_bytes, str(each.reason)) for each in data)
