"""Transfers that share a bottleneck: its queue, their windows, and who gets how much.

What the laboratories of several universities measure in Mininet: bufferbloat (Toronto's CSC458
PA2, Washington's CSE461 project 3), the fairness of n flows (Georgia Tech's CS6250, "parking lot"),
and round-trip times that differ. Each module says in what it differs from their handouts. Beside
them what papers claim of routers' buffers and of congestion controls against each other.
"""

from tcplab.experiments.bottleneck.bufferbloat import Bloat, Bufferbloat, measure_bufferbloat
from tcplab.experiments.bottleneck.controls import Contest, Contests, measure_controls
from tcplab.experiments.bottleneck.fairness import (
    Crowd,
    Fairness,
    Race,
    RttFairness,
    measure_fairness,
    measure_rtt_fairness,
)
from tcplab.experiments.bottleneck.router_buffers import (
    RouterBuffer,
    RouterBuffers,
    measure_router_buffers,
)
from tcplab.experiments.bottleneck.sharing import Flow, Moment, Shared, share

__all__ = [
    "Bloat",
    "Bufferbloat",
    "Contest",
    "Contests",
    "Crowd",
    "Fairness",
    "Flow",
    "Moment",
    "Race",
    "RouterBuffer",
    "RouterBuffers",
    "RttFairness",
    "Shared",
    "measure_bufferbloat",
    "measure_controls",
    "measure_fairness",
    "measure_router_buffers",
    "measure_rtt_fairness",
    "share",
]
