"""Measure the speed of `dd | nc`, `nc < file` and similar pipelines, and count their copies.

The experiment comes from Chen Shuo ("Network programming in practice"). One nc sends to another,
either over a 1 Gbit/s link or within one machine. The data comes from dd, from a file on disk, or
from a file in memory. The author explains the rates by counting copies (tcplab.models.chain_cost).
"""

from tcplab.experiments.pipes.measurement import Chain, Pipes, measure
from tcplab.experiments.pipes.pipelines import (
    COMPOSED,
    PIPELINES,
    RECEIVERS,
    SENDERS,
    SOURCES,
    Pipeline,
    compose,
)

__all__ = [
    "COMPOSED",
    "PIPELINES",
    "RECEIVERS",
    "SENDERS",
    "SOURCES",
    "Chain",
    "Pipeline",
    "Pipes",
    "compose",
    "measure",
]
