"""Play schedules of calls on the real stack, and report the results in the models' terms."""

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, cast

import numpy as np

from tcplab.lab import Lab
from tcplab.models import Call, Peer
from tcplab.models.conversation import Kind
from tcplab.models.kernel import Clock
from tcplab.programs import writepattern_peer
from tcplab.programs.messages import QuickAck
from tcplab.programs.patterns import PatternResult, write_patterns
from tcplab.segments import PSH, SegmentArray

#: CLOCK_MONOTONIC_COARSE moves once a tick; Python has no name for it.
CLOCK_MONOTONIC_COARSE: Final = 6
#: Settings that tests pin in addition to Lab's. The models have no autocorking, so it must not
#: interfere.
SYSCTLS: Final = {"net.ipv4.tcp_autocorking": "0"}

#: Reason to play a schedule again.
LINK_LATE: Final = "the link was late with a packet"


def kernel_clock() -> Clock:
    """Return the tick of the running kernel."""
    return Clock(hz=round(1 / time.clock_getres(CLOCK_MONOTONIC_COARSE)))


def to_text(calls: Sequence[Call]) -> str:
    """Format a schedule as input for writepattern."""
    return " ".join(f"{round(call.delay_ms * 1000)}:{call.kind}={call.value}" for call in calls)


@dataclass(frozen=True)
class Sent:
    """A data segment on the real wire; times in ms after the first call."""

    time_ms: float
    seq: int
    payload_bytes: int
    push: bool


@dataclass(frozen=True)
class Played:
    """The outcome of one schedule.

    Attributes:
        calls: the schedule with the actual delays.
        starts_ms: when each call began, in ms after the first call, and at last the shutdown.
        data: new data segments; retransmissions are in `resent`.
        acks: (time_ms, sequence number, window) of the packets that came back.
        handshake_ms: time from the SYN to the SYN-ACK.
        established_ms: when connect() returned.
        link_late_ms: the greatest lateness on the link of the connection's packets, up to the last
            new data.
        calls_late_ms: the greatest distance of a call from its time in the schedule.
    """

    calls: tuple[Call, ...]
    starts_ms: tuple[float, ...]
    data: tuple[Sent, ...]
    resent: tuple[Sent, ...]
    acks: tuple[tuple[float, int, int], ...]
    handshake_ms: float
    established_ms: float
    link_late_ms: float
    calls_late_ms: float

    def acked_ms(self, upto: int) -> float:
        """Return when the first ACK of at least `upto` bytes came."""
        return min(when for when, acked, _window in self.acks if acked >= upto)

    @property
    def boundaries(self) -> tuple[int, ...]:
        return tuple(segment.payload_bytes for segment in self.data)

    @property
    def since_connect(self) -> tuple[Call, ...]:
        """Return the calls for simulate(), whose time 0 is the end of connect()."""
        first, *rest = self.calls
        return (Call(first.kind, first.value, -self.established_ms), *rest)


def play(
    lab: Lab, schedules: Sequence[Sequence[Call]], peer: Peer, stagger_ms: float = 10
) -> list[Played]:
    """Play all schedules in parallel, each on its own connection, while both hosts record."""
    reply = (peer.reply_every_bytes, peer.reply_bytes) if peer.reply_every_bytes else None
    with (
        writepattern_peer(
            lab, quickack=cast(QuickAck, peer.quickack), reply=reply, read_at_end=not peer.reads
        ) as port,
        lab.client.capture(snaplen=128) as capture,
        lab.server.capture(snaplen=128) as far_capture,
    ):
        texts = [to_text(calls) for calls in schedules]
        results = write_patterns(lab, port, texts, stagger_us=round(stagger_ms * 1000))
        time.sleep(0.1)  # until the last packets have been recorded
    assert capture.drops == far_capture.drops == 0
    near, far = capture.segments, far_capture.segments
    return [
        _played(calls, result, near.at_port(result.port), far.at_port(result.port), lab.rtt_ms)
        for calls, result in zip(schedules, results, strict=True)
    ]


def _link_late_ms(near: SegmentArray, far: SegmentArray, rtt_ms: float) -> float:
    """Return the link's greatest lateness; the IP ID identifies a packet within its direction."""
    syn_ns, syn_ack_ns = near[near.is_syn]["time_ns"][:2]
    last_ns = near.data("client", retransmissions=False)["time_ns"].max(initial=syn_ack_ns)
    near = near[near["time_ns"] <= last_ns]
    late_ns = [syn_ack_ns - syn_ns - rtt_ms * 1e6]
    for sent, arrived in (
        (near.sent_by("client"), far.sent_by("client")),
        (far.sent_by("server"), near.sent_by("server")),
    ):
        _ids, first, second = np.intersect1d(sent["ip_id"], arrived["ip_id"], return_indices=True)
        took_ns = arrived["time_ns"][second] - sent["time_ns"][first]
        late_ns.append(took_ns.max(initial=0) - rtt_ms * 1e6 / 2)
    return float(max(late_ns) / 1e6)


def _played(
    calls: Sequence[Call],
    result: PatternResult,
    mine: SegmentArray,
    far: SegmentArray,
    rtt_ms: float,
) -> Played:
    zero = result.calls[0]["start_ns"]
    starts = [(call["start_ns"] - zero) / 1e6 for call in result.calls]
    times = (mine["time_ns"] - zero) / 1e6
    is_data = mine.from_client & mine.carries_data
    sent: dict[bool, list[Sent]] = {False: [], True: []}
    for row, when in zip(mine[is_data], times[is_data], strict=True):
        push = bool(row["flags"] & PSH)
        segment = Sent(float(when), int(row["seq"]) - 1, int(row["payload_bytes"]), push)
        sent[bool(row["is_retransmission"])].append(segment)
    back = mine.from_server & mine.has_ack & ~mine.is_syn  # a RST may have no ACK
    syn, syn_ack = times[mine.is_syn][:2]
    # A read keeps its planned delay. The other calls get their real delay since the last start.
    kinds = [call["call"] for call in result.calls]
    delays = [0.0, *(later - earlier for earlier, later in itertools.pairwise(starts))]
    real = tuple(
        Call(cast(Kind, kind), asked.value, max(asked.delay_ms if kind == "read" else delay, 0))
        for kind, asked, delay in zip(kinds, calls, delays, strict=False)
    )
    return Played(
        calls=real,
        starts_ms=tuple(starts),
        data=tuple(sent[False]),
        resent=tuple(sent[True]),
        acks=tuple(
            (float(when), int(row["ack"]) - 1, int(row["window"]))
            for when, row in zip(times[back], mine[back], strict=True)
        ),
        handshake_ms=float(syn_ack - syn),
        established_ms=float(syn_ack),
        link_late_ms=_link_late_ms(mine, far, rtt_ms),
        calls_late_ms=_calls_late_ms(calls, starts),
    )


def _calls_late_ms(calls: Sequence[Call], starts_ms: Sequence[float]) -> float:
    """Return the greatest distance of a call from its due time; each read restarts the clock."""
    late_ms, due_ms = 0.0, 0.0
    for before, call, start_ms in zip(calls, calls[1:], starts_ms[1:], strict=False):
        due_ms = start_ms if before.kind == "read" else due_ms + call.delay_ms
        late_ms = max(late_ms, abs(start_ms - due_ms))
    return late_ms
