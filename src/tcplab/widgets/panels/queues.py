"""Panel on queues: a live transfer through a router with a choice of queue management."""

from __future__ import annotations

from typing import Any, Final

from tcplab.models import bdp_bytes, serialisation_ms
from tcplab.widgets.controls import Choice, Number
from tcplab.widgets.panels.wire import LANES, MSS_BYTES, LiveTransfer
from tcplab.widgets.spec import PanelSpec, Values

_ROUTERS: Final = {
    "tail_drop": "drops when full",
    "codel": "CoDel",
    "codel+ecn": "CoDel, marks",
    "fq_codel": "FQ-CoDel",
    "pie": "PIE",
}
_CONTROLS: Final = {"cubic": "cubic", "reno": "reno", "bbr": "bbr, where the kernel has it"}
#: The target delay of each algorithm (RFC 8289, 8290, 8033). Tail drop has none.
_TARGET_MS: Final = {"codel": 5.0, "fq_codel": 5.0, "pie": 15.0}


def _link(values: Values) -> dict[str, Any]:
    aqm, _plus, marks = values["router"].partition("+")
    return {
        "rtt_ms": values["rtt_ms"],
        "rate_mbit": values["rate_mbit"],
        "queue_packets": values["queue_packets"],
        "aqm": aqm,
        "ecn": bool(marks),
    }


def _words(values: Values) -> str:
    return (
        f"{_ROUTERS[values['router']]}, {values['queue_packets']} packets,"
        f" {values['rate_mbit']:g} Mbit/s, {values['rtt_ms']:g} ms"
    )


def _rtt_ms(values: Values) -> float:
    """Return the RTT to expect with a full queue, or with a managed queue at its target delay."""
    full_ms = values["queue_packets"] * serialisation_ms(MSS_BYTES, values["rate_mbit"])
    aqm = values["router"].partition("+")[0]
    return float(values["rtt_ms"] + min(_TARGET_MS.get(aqm, full_ms), full_ms))


def _levels(values: Values) -> dict[str, float | None]:
    """Return the line's rate, the segments that fill the idle path, and the expected RTT."""
    return {
        "throughput_mbit": values["rate_mbit"],
        "cwnd_segments": bdp_bytes(values["rate_mbit"], values["rtt_ms"]) / MSS_BYTES,
        "rtt_ms": _rtt_ms(values),
    }


PANEL = PanelSpec(
    title="Queues",
    summary="One transfer fills a router's queue. Choose another router while it does.",
    controls=(
        Choice("router", "The router", _ROUTERS, "tail_drop"),
        Number("queue_packets", "Room for", 1000, 1, 5000, unit="packets", scale="log"),
        Number("rate_mbit", "Rate", 10.0, 1, 100, step=0.5, unit="Mbit/s", scale="log"),
        Number("rtt_ms", "RTT of the idle path", 20.0, 0, 400, step=0.5, unit="ms"),
        Number("seconds", "Lasts for", 20.0, 2, 120, step=0.5, unit="s"),
        Choice("congestion", "Congestion control", _CONTROLS, "cubic"),
    ),
    predicts="RTT at the end",
    unit="ms",
    # The hosts request ECN, so that the router can mark packets (see the queues lesson).
    measurement=LiveTransfer(_link, _words, "rtt_ms", {"net.ipv4.tcp_ecn": "1"}),
    levels=_levels,
    forecast=_rtt_ms,
    lanes=LANES,
    headless={"seconds": 2.0},
)
