"""Sending a file: read and send, mmap, sendfile, splice and MSG_ZEROCOPY, by clock and by CPU.

The experiment of a ChinaUnix blog entry of 2006 whose author saw no difference between read() with
send() and sendfile(), and asked whether it would show with many clients, or with little memory.
Each question is an experiment of its own:

=========================  =========================================================================
``wire.measure``           the published three methods over 100 Mbit/s, and the published times
``loopback.measure``       the same within one machine, and all other methods and block sizes
``measure_offload``        two of them between two hosts whose interfaces segment late (TSO, GSO)
``measure_cold_cache``     from the disk instead of the page cache
``measure_clients``        his first guess: many clients at once
``measure_memory``         his second: little memory (ulimit -v; a control group where possible)
``header.measure``         100 bytes before the file: its segments, with TCP_CORK and without
=========================  =========================================================================
"""

from tcplab.experiments.sendfile import header, loopback, wire
from tcplab.experiments.sendfile.conditions import (
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
    "loopback",
    "measure_clients",
    "measure_cold_cache",
    "measure_memory",
    "measure_offload",
    "wire",
]
