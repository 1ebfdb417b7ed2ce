"""Transfers that share a bottleneck: its queue, their windows, and who gets how much.

What the laboratories of several universities measure in Mininet: bufferbloat (Toronto's CSC458
PA2, Washington's CSE461 project 3), the fairness of n flows (Georgia Tech's CS6250, "parking lot"),
and round-trip times that differ. Each module says in what it differs from their handouts.
"""

from tcplab.experiments.bottleneck.bufferbloat import Bloat, Bufferbloat, measure_bufferbloat
from tcplab.experiments.bottleneck.fairness import (
    Crowd,
    Fairness,
    Race,
    RttFairness,
    measure_fairness,
    measure_rtt_fairness,
)
from tcplab.experiments.bottleneck.sharing import Flow, Moment, Shared, share

__all__ = [
    "Bloat",
    "Bufferbloat",
    "Crowd",
    "Fairness",
    "Flow",
    "Moment",
    "Race",
    "RttFairness",
    "Shared",
    "measure_bufferbloat",
    "measure_fairness",
    "measure_rtt_fairness",
    "share",
]
