"""Sending a file: read and send, mmap, sendfile, splice and MSG_ZEROCOPY, by clock and by CPU.

The experiment of a ChinaUnix blog entry of 2006 whose author saw no difference between read() with
send() and sendfile(), and asked whether it would show with many clients, or with little memory.
His measurement is ``wire``; the others answer his questions, each an experiment of its own.
"""

from tcplab.experiments.sendfile import header, wire
from tcplab.experiments.sendfile.measurement import (
    measure,
    measure_clients,
    measure_cold_cache,
    measure_memory,
    measure_offload,
)
from tcplab.experiments.sendfile.transfers import Cost, Plan, SendFiles, Transfer

__all__ = [
    "Cost",
    "Plan",
    "SendFiles",
    "Transfer",
    "header",
    "measure",
    "measure_clients",
    "measure_cold_cache",
    "measure_memory",
    "measure_offload",
    "wire",
]
