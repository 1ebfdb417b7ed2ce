"""Send transfers through a shared bottleneck, and record the queue, the windows and the rates."""

from tcplab.experiments.bottleneck.bufferbloat import Bloat, Bufferbloat, measure_bufferbloat
from tcplab.experiments.bottleneck.controls import (
    Contests,
    Race,
    RttFairness,
    measure_controls,
    measure_rtt_fairness,
)
from tcplab.experiments.bottleneck.router_buffers import measure_router_buffers
from tcplab.experiments.bottleneck.sharing import Flow

__all__ = [
    "Bloat",
    "Bufferbloat",
    "Contests",
    "Flow",
    "Race",
    "RttFairness",
    "measure_bufferbloat",
    "measure_controls",
    "measure_router_buffers",
    "measure_rtt_fairness",
]
