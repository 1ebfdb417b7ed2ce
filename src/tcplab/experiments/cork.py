"""Compare ways to send one message in several writes and few segments.

The ways are TCP_CORK, MSG_MORE, writev(), TCP_NODELAY and none of them. The comparison extends the
one in "TCP_NODELAY and TCP_CORK" of Red Hat Enterprise Linux for Real Time. Another source is a
ChinaUnix author's report on sendfile() with a cork. Further experiments measure forgotten corks.
"""

import os
import re
import statistics
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Annotated, Any, ClassVar, Final, Literal, cast, get_args

from tcplab.errors import ParameterError
from tcplab.experiments import Between, Result, experiment, provenance
from tcplab.experiments.exchange import (
    Exchanged,
    segments_of,
    sizes_by_message,
    times_of_messages_ms,
)
from tcplab.experiments.parameters import RttMs
from tcplab.experiments.quantities import Variant, column, computed, derived
from tcplab.lab import Lab
from tcplab.models import Call, NetworkPath, Reason, message_calls, simulate
from tcplab.models.conversation import Kind
from tcplab.programs import RunOptions, SocketOptions, writepattern_peer
from tcplab.programs.patterns import PatternResult, write_patterns
from tcplab.segments import SegmentArray
from tcplab.tables import Column, run_lengths
from tcplab.timeline import Exchange, Segment

__all__ = [
    "DEFAULT_SCRIPTS",
    "MODES",
    "Scenario",
    "Scenarios",
    "measure",
    "measure_forgotten",
    "measure_scenarios",
    "parse_script",
]
__dir__ = __all__.copy


_RTTS_MS: Final = (0, 20, 60, 150)
#: Pause between the handshake and the first call, in which both ends become idle.
SETTLE_MS: Final = 60


class Played(Exchanged):
    """Base class of variants that consist of one script of calls."""

    @property
    def start_ns(self) -> int:
        return next(event.time_ns for event in self.exchange.log or () if event.name != "read")

    @property
    def left_ms(self) -> list[float]:
        times_ns = self.segments.data("client", retransmissions=False)["time_ns"]
        return [(time_ns - self.start_ns) / 1e6 for time_ns in times_ns.tolist()]


def script_words(calls: Sequence[Call]) -> str:
    """Return the calls as a script for writepattern."""
    return " ".join(f"{round(call.delay_ms * 1e3)}:{call.kind}={call.value}" for call in calls)


def play(
    lab: Lab, scripts: Sequence[str], reply: tuple[int, int] | None = None
) -> list[Exchange[PatternResult]]:
    """Play scripts at once, one per connection. `reply` is (bytes read, bytes sent in answer)."""
    run = RunOptions.on_one_cpu()
    with (
        lab.client.capture() as client,
        lab.server.capture() as server,
        writepattern_peer(lab, reply=reply, run=run) as port,
    ):
        results = write_patterns(lab, port, scripts, stagger_us=20_000, run=run)
    rows, peer_rows = segments_of(client), segments_of(server)
    return [_played(lab, result, rows, peer_rows) for result in results]


def _played(
    lab: Lab, result: PatternResult, rows: SegmentArray, peer_rows: SegmentArray
) -> Exchange[PatternResult]:
    port = result.port
    near, far = rows.at_port(port), peer_rows.at_port(port)
    server_port = int(near["dst_port"][0])
    options = SocketOptions(
        sndbuf_bytes=46_080,
        rcvbuf_bytes=131_072,
        local=f"{lab.client.address} port {port}",
        peer=f"{lab.server.address} port {server_port}",
        cpu=min(os.sched_getaffinity(0)),
        deadline_s=30.0,
        congestion=lab.congestion,
        mss_bytes=result.mss_bytes,
        nodelay=False,
    )
    return Exchange(result, result.log, near, peer_segments=far, options=options, nodelay=False)


# ---- messages -----------------------------------------------------------------------------------

SendMode = Literal[
    "default", "no_delay", "cork", "msg_more", "writev", "cork+no_delay", "forgotten"
]
#: All modes except "forgotten", which takes a fifth of a second per message.
MODES: Final[tuple[SendMode, ...]] = get_args(SendMode)[:-1]

PUBLISHED_WRITES_BYTES: Final = (2,) * 15
#: Calls and events that do not belong to a message. "delay" clears TCP_NODELAY.
_SET_UP: Final = ("nodelay", "delay", "shutdown")


class Message(Played, Variant, heading="method"):
    """Messages that were sent in one mode."""

    mode: SendMode
    writes_bytes: tuple[int, ...]  #: sizes of the writes of each message
    messages: int
    exchange: Exchange[PatternResult]

    @derived("ms/message", ".3f")
    def ms_per_message(self) -> float:
        log = [event for event in self.exchange.log or () if event.name not in _SET_UP]
        return statistics.median(times_of_messages_ms(log, "read"))

    @derived("segments/message", "g")
    def data_segments_per_message(self) -> float:
        return statistics.median(map(len, self.message_sizes()))

    @derived("segment sizes (bytes)", show=run_lengths)
    def usual_sizes(self) -> tuple[int, ...]:
        return statistics.mode(self.message_sizes())

    calls_per_message = computed(
        lambda case: (
            sum(call["call"] not in _SET_UP for call in case.exchange.result.calls) // case.messages
        ),
        "calls/message",
        "d",
    )

    def message_sizes(self) -> list[tuple[int, ...]]:
        """Return the payload sizes of each message's segments."""
        return sizes_by_message(self.sizes, sum(self.writes_bytes), self.messages)


@experiment(
    "cork",
    figure=("ms_per_message",),
    finding="Per message, {most} takes {ratio} times as long as {least}",
)
def measure(
    writes_bytes: Annotated[Sequence[int], Between(1, 65_536, "bytes")] = PUBLISHED_WRITES_BYTES,
    messages: Annotated[int, Between(1, 60), "messages per variant"] = 20,
    rtt_ms: Annotated[RttMs, Between(0, 500, "ms")] = 0,
    variants: Annotated[Sequence[SendMode], "ways of sending to compare"] = MODES,
    network: Lab | None = None,
) -> Result[Message]:
    """Send a message in several writes, with TCP_CORK, MSG_MORE, writev, TCP_NODELAY or none.

    A reply of two bytes follows each complete message.

    Args:
        writes_bytes: sizes of the 2 to 64 writes of one message, at most 65536 bytes in all
    """
    sizes = tuple(writes_bytes)
    if not 2 <= len(sizes) <= 64 or sum(sizes) > 65_536:
        raise ParameterError(
            f"writes_bytes={sizes} must be 2 to 64 writes, at most 65536 bytes in all"
        )
    with nullcontext(network) if network else Lab(rtt_ms=rtt_ms) as lab:
        measured = [_send(lab, mode, sizes, messages) for mode in variants]
        cpu = min(os.sched_getaffinity(0))
        details = {"writes_bytes": sizes, "messages": messages, "pinned_to_cpu": cpu}
        return Result(measured, provenance(lab, **details))


def _send(lab: Lab, mode: SendMode, writes_bytes: tuple[int, ...], messages: int) -> Message:
    first = f"{1000 * SETTLE_MS}:nodelay={int('no_delay' in mode)}"
    body = "0:writev=" + ",".join(map(str, writes_bytes))
    if mode != "writev":
        body = script_words(message_calls(writes_bytes, mode.removesuffix("+no_delay")))
    script = " ".join([first, *[f"{body} 0:read=2"] * messages])
    (exchange,) = play(lab, [script], reply=(sum(writes_bytes), 2))
    return Message(mode, writes_bytes, messages, exchange)


# ---- scripts of calls around a cork -------------------------------------------------------------

_SETTLED: Final = Call("nodelay", 0, SETTLE_MS)


class Waited(Variant, label="{0.rtt_ms:g} ms"):
    """A write of 100 bytes that a cork or MSG_MORE holds until its segment leaves."""

    rtt_ms: float = column("RTT (ms)", "g")
    cork_ms: float = column("held by cork (ms)", ".0f")
    more_ms: float = column("held by MSG_MORE (ms)", ".0f")

    #: retransmission timeout, rounded to the kernel's tick
    @derived("model (ms)", ".0f")
    def model_ms(self) -> float:
        path = NetworkPath(rtt_ms=self.rtt_ms)
        return simulate((_SETTLED, Call("more", 100)), path).data[0].waited_ms

    manual_ms = computed(lambda _: 200, "tcp(7) (ms)", "d", is_setting=True)


@experiment(
    "forgotten-cork",
    figure=lambda figures, result: figures.draw_curves(
        result, "rtt_ms", "cork_ms", "more_ms", "model_ms", "manual_ms"
    ),
    finding="A forgotten cork holds data for {cork_ms.low} ms, and at an RTT of "
    "{cork_ms.most} for {cork_ms.high} ms",
)
def measure_forgotten(
    rtts_ms: Annotated[
        Sequence[float], Between(0, 500, "ms"), "round-trip times of the link"
    ] = _RTTS_MS,
) -> Result[Waited]:
    """Measure how long a cork that is never removed holds data, and how long MSG_MORE does."""
    end = Call("quickack", 1, 700 + 3 * max(rtts_ms))
    scripts = [_script(Call("cork", 1), Call("write", 100), end), _script(Call("more", 100), end)]
    waits = []
    with Lab(rtt_ms=rtts_ms[0]) as lab:
        for rtt_ms in rtts_ms:
            lab.link.update(rtt_ms=rtt_ms)
            corked, more = (Scenario("", exchange) for exchange in play(lab, scripts))
            waits.append(Waited(rtt_ms, corked.left_ms[0], more.left_ms[0]))
        return Result(waits, provenance(lab))


def _script(*calls: Call) -> str:
    return script_words([_SETTLED, *calls])


#: Each script answers a question that tcp(7) or an article on TCP_CORK raises.
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
#: The longest total wait of a script, well below the deadline of the programs (30 s).
_MOST_MS: Final = 5000


def parse_script(script: str) -> tuple[Call, ...]:
    """Parse a script such as "cork on, write 100, wait 40, cork off"; ParameterError if invalid."""
    calls: list[Call] = []
    pause_ms = 0
    for step in script.split(","):
        match = _STEP.fullmatch(step.strip())
        if not match:
            raise ParameterError(
                f"script {script!r}: {step.strip()!r} is not a step; use write N, more N, wait MS,"
                " cork on, cork off, nodelay on, nodelay off"
            )
        if match["kind"] == "wait":
            pause_ms += int(match["number"])
            continue
        value = int(match["number"] or match["value"] == "on")
        calls.append(Call(cast(Kind, match["kind"] or match["option"]), value, pause_ms))
        pause_ms = 0
    if not any(call.kind in ("write", "more") for call in calls):
        raise ParameterError(f"script {script!r} writes nothing")
    if sum(call.delay_ms for call in calls) > _MOST_MS:
        raise ParameterError(f"script {script!r} waits longer than {_MOST_MS} ms in all")
    return tuple(calls)


class Scenario(Played, Variant):
    """A script of calls, and the segments that left when it was played."""

    script: str
    exchange: Exchange[PatternResult]

    def sent(self) -> list[Segment]:
        """Return the segments with their reasons in order, without retransmissions."""
        segments = self.timeline().segments
        return [segment for segment in segments if segment.reason != Reason.RETRANSMISSION]


class Scenarios(Result[Scenario]):
    """Several scripts of calls, with the segments that left."""

    columns: ClassVar[Sequence[Column]] = (
        Column("variant", "script"),
        Column("bytes", "segment (bytes)", "d"),
        Column("left_ms", "left at (ms)", ".1f"),
        Column("waited_for", "held because"),
        Column("reason", "left because"),
    )

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per segment."""
        return [
            {
                "variant": case.script if index == 0 else "",
                "bytes": segment.payload_bytes,
                "left_ms": (segment.time_ns - case.start_ns) / 1e6,
                "waited_for": segment.held_by.reason.words if segment.held_by else None,
                "reason": segment.reason.words,
            }
            for case in self.variants
            for index, segment in enumerate(case.sent())
        ]


@experiment(
    "cork-scenarios", figure=lambda figures, result: figures.timeline(result.variants[0].timeline())
)
def measure_scenarios(
    scripts: Annotated[Sequence[str], "scripts, such as `cork on, write 100`"] = DEFAULT_SCRIPTS,
    rtt_ms: Annotated[RttMs, Between(5, 100, "ms")] = 20,
) -> Scenarios:
    """Play scripts of calls around a cork, and show when and why each segment leaves."""
    end = Call("quickack", 1, 500 + 3 * rtt_ms)
    words = [_script(*parse_script(script), end) for script in scripts]
    with Lab(rtt_ms=rtt_ms) as lab:
        played = list(map(Scenario, scripts, play(lab, words)))
        return Scenarios(played, provenance(lab))
