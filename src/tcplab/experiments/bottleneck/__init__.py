"""Transfers that share a bottleneck: its queue, their windows, and who gets how much.

What the laboratories of several universities measure in Mininet: bufferbloat (Toronto's CSC458
PA2, Washington's CSE461 project 3), the fairness of n flows (Georgia Tech's CS6250, "parking lot"),
and round-trip times that differ. Each module says in what it differs from their handouts. Beside
them what papers claim of routers' buffers and of congestion controls against each other.
"""

# ruff: noqa: F403

from tcplab.experiments.bottleneck.bufferbloat import *
from tcplab.experiments.bottleneck.controls import *
from tcplab.experiments.bottleneck.fairness import *
from tcplab.experiments.bottleneck.router_buffers import *
from tcplab.experiments.bottleneck.sharing import *
