"""Send transfers through a shared bottleneck, and record the queue, the windows and the rates."""

from tcplab.experiments.bottleneck.comparisons import (
    Bloat,
    Contest,
    Race,
    measure_bufferbloat,
    measure_controls,
    measure_router_buffers,
    measure_rtt_fairness,
)
from tcplab.experiments.bottleneck.sharing import Flow

__all__ = [
    "Bloat",
    "Contest",
    "Flow",
    "Race",
    "measure_bufferbloat",
    "measure_controls",
    "measure_router_buffers",
    "measure_rtt_fairness",
]
