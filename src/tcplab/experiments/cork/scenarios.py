"""Play scripts of calls around a cork, and measure forgotten corks and autocorking.

Sources: tcp_should_autocork() in net/ipv4/tcp.c of Linux 6.18; commit f54b311142a9.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Final, cast

from tcplab.errors import ParameterError
from tcplab.experiments import Between, Result, Variant, column, experiment, provenance
from tcplab.experiments.cork.scripts import SETTLE_MS, Played, play, script_words
from tcplab.experiments.interface_settings import put_token_bucket
from tcplab.experiments.parameters import RttMs
from tcplab.experiments.quantities import computed, derived, on_off
from tcplab.experiments.sockets import MSS_BYTES
from tcplab.lab import Lab
from tcplab.models import Call, NetworkPath, Reason, simulate
from tcplab.models.conversation import Kind
from tcplab.programs import PatternResult
from tcplab.programs.counters import tcp_counters
from tcplab.tables import Column, run_lengths
from tcplab.timeline import Exchange, Segment

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


@experiment("forgotten-cork")
def measure_forgotten(
    rtts_ms: Annotated[Sequence[float], Between(0, 500, "ms"), "round-trip times of the link"] = (
        0,
        20,
        60,
        150,
    ),
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


@experiment("cork-scenarios")
def measure_scenarios(
    scripts: Sequence[str] = DEFAULT_SCRIPTS, rtt_ms: Annotated[RttMs, Between(5, 100, "ms")] = 20
) -> Scenarios:
    """Play scripts of calls around a cork, and show when and why each segment leaves.

    Args:
        scripts: calls of one connection, such as "cork on, write 100, wait 40, cork off"
    """
    end = Call("quickack", 1, 500 + 3 * rtt_ms)
    words = [_script(*parse_script(script), end) for script in scripts]
    with Lab(rtt_ms=rtt_ms) as lab:
        played = list(map(Scenario, scripts, play(lab, words)))
        return Scenarios(played, provenance(lab))


# ---- autocorking ---------------------------------------------------------------------------------


_WRITES, _WRITE_BYTES = 40, 100


class Autocorks(Variant, heading="tcp_autocorking"):
    """Small writes with TCP_NODELAY to a slow interface, with autocorking on or off."""

    autocorking: bool  #: value of net.ipv4.tcp_autocorking
    writes: int = column("writes", "d", is_setting=True)
    segments = computed(lambda case: len(case.sizes), "data segments", "d")
    counted: int = column("TCPAutoCorking (increase)", "d")  #: growth of the host's counter
    sizes: tuple[int, ...] = column("sizes (bytes)", show=run_lengths)

    @property
    def label(self) -> str:
        return on_off(self.autocorking)


@experiment("autocorking")
def measure_autocorking() -> Result[Autocorks]:
    """Make small writes with TCP_NODELAY to a slow interface, with autocorking on and off.

    Autocorking only happens while a packet of the connection is in the sender's own queue. The
    laboratory's link queues packets outside the host, so the interface gets a 1 Mbit/s token bucket
    (tbf). Two full segments are sent first.
    """
    body = f" 0:write={_WRITE_BYTES}" * _WRITES
    script = f"{1000 * SETTLE_MS}:nodelay=1 0:write={2 * MSS_BYTES}{body} 1000000:quickack=1"
    variants = []
    with Lab() as lab:
        put_token_bucket(lab.client, rate="1mbit", burst=1600, latency="500ms")
        for on in (True, False):
            lab.client.sysctl("net.ipv4.tcp_autocorking", str(int(on)))
            before = tcp_counters(lab.client)
            sizes = Scenario("", *play(lab, [script])).sizes
            counted = (tcp_counters(lab.client) - before)["TCPAutoCorking"]
            variants.append(Autocorks(on, _WRITES, counted, tuple(sizes[2:])))
        return Result(variants, provenance(lab, interface_mbit=1))
