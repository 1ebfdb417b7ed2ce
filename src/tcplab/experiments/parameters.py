"""Declare the parameters that many experiments share, with their help.

An experiment can add its own limits, such as ``Annotated[RttMs, Between(10, 1000, "ms")]``.
"""

from collections.abc import Sequence
from typing import Annotated, TypeAlias

from tcplab.checks.parameters import Between

RttsMs: TypeAlias = Annotated[Sequence[float], "round-trip times of the link"]
Queues: TypeAlias = Annotated[Sequence[int], Between(1, 100_000, "packets"), "lengths of the queue"]
RttMs: TypeAlias = Annotated[float, "round-trip time of the link"]
RateMbit: TypeAlias = Annotated[float, "rate of the link"]
DurationS: TypeAlias = Annotated[float, "duration of the transfers, which run at the same time"]
QueuePackets: TypeAlias = Annotated[int, Between(1, 100_000, "packets"), "length of the queue"]
Runs: TypeAlias = Annotated[int, Between(1, 1000), "rounds, each of which measures every case once"]
SizeMb: TypeAlias = Annotated[int, Between(1, 20_000, "MB"), "size of the file"]
