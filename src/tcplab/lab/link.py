"""Control the parameters, counters, rules and recording of the link between the hosts."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, ClassVar, Final

from tcplab.checks import choice, number, whole
from tcplab.errors import LabError, ParameterError

if TYPE_CHECKING:
    from tcplab.capture import Capture

MAX_DELAY_MS: Final = 2000.0
#: Policies by which the queue drops packets; see queue.h.
AQMS: Final = ("tail_drop", "codel", "fq_codel", "pie")
#: If the 99th percentile of lateness exceeds this many ms, the run gets a warning.
_LATE_MS: Final = 2.0
#: MTU in bytes that every link must have for IPv6 (RFC 8200, 5).
_IPV6_MTU: Final = 1280


class Link:
    """The link between the hosts, emulated by wire.c.

    A direction is "client->server", "server->client" or "both".
    """

    DIRECTIONS: Final = {"both": "both", "client->server": "ab", "server->client": "ba"}
    #: The lateness of each link of this process that has ended, in the order of the ends.
    ended: ClassVar[list[dict[str, Any]]] = []

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._lock = threading.Lock()
        self._carries_ipv6 = False
        self.parameters: dict[str, dict[str, Any]] = {"client->server": {}, "server->client": {}}

    def command(self, words: str) -> dict[str, Any]:
        """Send one command to the program that emulates the link, and return its answer."""
        with self._lock:
            try:
                assert self._process.stdin is not None
                assert self._process.stdout is not None
                self._process.stdin.write(words + "\n")
                self._process.stdin.flush()
                line = self._process.stdout.readline()
            except (OSError, ValueError):
                line = ""
        if not line:
            raise LabError("the wire has ended; make a new Lab()")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise LabError(f"the wire: {answer['error']}")
        return answer

    def update(
        self,
        direction: str = "both",
        *,
        rtt_ms: float | None = None,
        delay_ms: float | None = None,
        rate_mbit: float | None = None,
        queue_packets: int | None = None,
        loss: float | None = None,
        aqm: str | None = None,
        ecn: bool | None = None,
        **wire_options: str | float | int,
    ) -> None:
        """Change some parameters and keep the others, even while packets are in flight.

        Args:
            direction: direction to change
            rtt_ms: sets the one-way delay of both directions to half of this value
            delay_ms: one-way delay, 0 to 2000 ms
            rate_mbit: rate in 10^6 bit/s, or 0 for no limit
            queue_packets: length of the queue in front of the rate limiter, in packets
            loss: probability that a packet is dropped, 0 to 1
            aqm: policy by which the queue drops packets, one of "tail_drop", "codel" (RFC 8289),
                "fq_codel" (RFC 8290) and "pie" (RFC 8033)
            ecn: let a policy other than "tail_drop" mark packets that allow it, instead of dropping
                them (RFC 3168)
            **wire_options: other keys of wire.c's `set` command, such as target_ns of the AQM

        All of these apply to IPv4 and IPv6 alike. ARP and IPv6 neighbour discovery are exempt from
        random loss, because no experiment sets when hosts send them.
        """
        key = self._direction_key(direction)
        if rtt_ms is not None:
            if delay_ms is not None or direction != "both":
                raise ParameterError("rtt_ms sets both directions; give delay_ms for one of them")
            delay_ms = number("rtt_ms", rtt_ms, 0, 2 * MAX_DELAY_MS, unit=" ms") / 2
        named = {
            "delay_ms": delay_ms,
            "rate_mbit": rate_mbit,
            "queue_packets": queue_packets,
            "loss": loss,
            "aqm": aqm,
            "ecn": ecn,
            **wire_options,
        }
        values = wire_values(named)
        if self._carries_ipv6:
            _check_ipv6_mtu(wire_options.get("mtu", 0))
        if values:
            settings = " ".join(f"{key}={value}" for key, value in values.items())
            self.command(f"set {key} {settings}")
        for name, known in self.parameters.items():
            if direction in ("both", name):
                known.update({key: value for key, value in named.items() if value is not None})

    def carry_ipv6(self, interface_mtu: int) -> None:
        """Refuse an MTU that IPv6 does not allow, now and from now on."""
        for mtu in (interface_mtu, *(known.get("mtu", 0) for known in self.parameters.values())):
            _check_ipv6_mtu(mtu)
        self._carries_ipv6 = True

    def counters(self) -> dict[str, dict[str, Any]]:
        """Return packets_in, packets_out, dropped (by reason), marked (ECN), … by direction.

        The counters start with the laboratory. late_ns has percentiles of the time by which packets
        left too late. See commands.c for all counters.
        """
        counted = self.command("counters")
        return {name: counted[key] for name, key in self.DIRECTIONS.items() if key in counted}

    def lateness(self) -> dict[str, Any]:
        """Return how late the link has sent packets, and any warning about it.

        wire_late_max_ms is the greatest lateness. wire_missed counts packets that arrived while the
        link's receive ring was full. wire_late is the warning, if there is one.
        """
        counted = self.counters().values()
        p99_ms = max((direction["late_ns"]["p99"] for direction in counted), default=0) / 1e6
        latest_ns = max((direction["late_ns"]["max"] for direction in counted), default=0)
        missed = sum(direction["dropped"]["ring"] for direction in counted)
        lateness: dict[str, Any] = {
            "wire_packets": sum(direction["packets_out"] for direction in counted),
            "wire_late_p99_ms": p99_ms,
            "wire_late_max_ms": latest_ns / 1e6,
            "wire_missed": missed,
        }
        if missed:
            lateness["wire_late"] = (
                f"the wire missed {missed} packets, which TCP took for losses: the machine was"
                " busy, so do not conclude from this run"
            )
        elif p99_ms > _LATE_MS:
            lateness["wire_late"] = (
                f"1 of 100 packets left the wire more than {p99_ms:.1f} ms late: the machine was"
                " busy, so do not rely on times"
            )
        return lateness

    def script(self, direction: str, rule: str) -> None:
        """Apply a rule that drops, duplicates or holds packets, such as "drop data nth=3".

        The rule "clear" removes all rules.
        """
        self.command(f"script {self._direction_key(direction)} {rule}")

    def capture(self, **options: Any) -> AbstractContextManager[Capture]:
        """Record packets at the link as they enter, leave or are dropped; see record_wire."""
        from tcplab.capture import record_wire

        return record_wire(self, **options)

    def _direction_key(self, direction: str) -> str:
        return self.DIRECTIONS[choice("direction", direction, self.DIRECTIONS)]


def _check_ipv6_mtu(mtu: str | float) -> None:
    if str(mtu).isdecimal() and 0 < int(mtu) < _IPV6_MTU:
        raise ParameterError(
            f"mtu={mtu} must be at least {_IPV6_MTU} bytes on a link that carries IPv6 (RFC 8200)"
        )


def _rate_bps(rate_mbit: float) -> int:
    if 0 < number("rate_mbit", rate_mbit, 0, 100_000, unit=" Mbit/s") < 0.001:
        raise ParameterError(f"rate_mbit={rate_mbit!r} must be 0 (no limit) or at least 0.001")
    return round(rate_mbit * 1e6)


#: For each parameter, the key of the wire program, and a function that checks and converts a value.
_WIRE: Final[Mapping[str, tuple[str, Callable[[Any], object]]]] = {
    "delay_ms": (
        "delay_ns",
        lambda value: round(number("delay_ms", value, 0, MAX_DELAY_MS, unit=" ms") * 1e6),
    ),
    "rate_mbit": ("rate_bps", _rate_bps),
    "queue_packets": ("queue_packets", lambda value: whole("queue_packets", value, 1, 1_000_000)),
    "loss": ("loss", lambda value: float(number("loss", value, 0, 1))),
    "aqm": ("aqm", lambda value: choice("aqm", value, AQMS)),
    "ecn": ("ecn", lambda value: "on" if value else "off"),
}


def wire_values(parameters: Mapping[str, Any]) -> dict[str, str]:
    """Check the parameters that are not None, and return them as the wire program takes them."""
    given = {name: value for name, value in parameters.items() if value is not None}
    known = [(*_WIRE.get(name, (name, str)), value) for name, value in given.items()]
    return {key: str(convert(value)) for key, convert, value in known}
