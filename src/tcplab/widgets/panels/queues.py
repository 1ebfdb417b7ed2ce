"""Panel on queues: a live transfer through a router with a choice of queue management."""

import math
from typing import Any, Final

from tcplab.models import bdp_bytes, serialisation_ms
from tcplab.widgets.panels.wire import LANES, MSS_BYTES, LiveTransfer
from tcplab.widgets.spec import Values

__all__ = ["LANES", "MEASUREMENT", "forecast"]

#: The target delay of each algorithm (RFC 8289, 8290, 8033). Tail drop has none.
_TARGET_MS: Final = {"codel": 5.0, "fq_codel": 5.0, "pie": 15.0}
_FIRST_WINDOW: Final = 10  # segments (RFC 6928)


def _link(values: Values) -> dict[str, Any]:
    aqm, _plus, marks = values["router"].partition("+")
    return {
        "rtt_ms": values["rtt_ms"],
        "rate_mbit": values["rate_mbit"],
        "queue_packets": values["queue_packets"],
        "aqm": aqm,
        "ecn": bool(marks),
    }


def forecast(values: Values) -> float | None:
    """Return the RTT with a full or managed queue; None if the transfer is too short to fill it."""
    packet_ms = serialisation_ms(MSS_BYTES, values["rate_mbit"])
    full_ms = values["queue_packets"] * packet_ms
    aqm = values["router"].partition("+")[0]
    queue_ms = min(_TARGET_MS.get(aqm, full_ms), full_ms)
    if values["seconds"] < _filled_s(values, queue_ms / packet_ms, packet_ms / 1e3):
        return None
    return float(values["rtt_ms"] + queue_ms)


def _filled_s(values: Values, packets: float, packet_s: float) -> float:
    """Return the time in seconds until this many packets wait in the queue (never with BBR)."""
    path = max(bdp_bytes(values["rate_mbit"], values["rtt_ms"]) / MSS_BYTES / _FIRST_WINDOW, 1)
    slow_start_s: float = values["rtt_ms"] / 1e3 * math.log2(path)
    filling_s: dict[str, float] = {
        # HyStart ends slow start early. Then the window grows by 0.4 t³ (RFC 9438) or, if that is
        # more, by a segment per 20 ACKs (Linux).
        "cubic": min((packets / 0.4) ** (1 / 3), 20 * packets * packet_s),
        "reno": packets * packet_s,
        "bbr": math.inf,
    }
    return slow_start_s + filling_s[values["congestion"]]


# The hosts request ECN, so that the router can mark packets (see the queues lesson).
MEASUREMENT: Final = LiveTransfer(_link, "rtt_ms", {"net.ipv4.tcp_ecn": "1"})
