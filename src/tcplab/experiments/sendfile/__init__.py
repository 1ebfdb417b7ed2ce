"""Sending a file: read and send, mmap, sendfile, splice and MSG_ZEROCOPY, by clock and by CPU.

The experiment of a ChinaUnix blog entry of 2006 whose author saw no difference between read() with
send() and sendfile(), and asked whether it would show with many clients, or with little memory.
Each question is an experiment of its own:

==============  ====================================================================================
``wire``        the published three methods over 100 Mbit/s, with the published times beside ours
``loopback``    the same within one machine, and all other methods and block sizes
``offload``     two of them between two hosts whose interfaces segment late (TSO, GSO)
``cold_cache``  from the disk instead of the page cache
``clients``     his first guess: many clients at once
``memory``      his second: little memory (ulimit -v; a control group where the system allows one)
``header``      100 bytes before the file: which segments leave, with TCP_CORK and without
==============  ====================================================================================
"""

from tcplab.experiments.sendfile import (
    clients,
    cold_cache,
    header,
    loopback,
    memory,
    offload,
    wire,
)
from tcplab.experiments.sendfile.plans import Plan
from tcplab.experiments.sendfile.transfers import Cost, SendFiles, Transfer

__all__ = [
    "Cost",
    "Plan",
    "SendFiles",
    "Transfer",
    "clients",
    "cold_cache",
    "header",
    "loopback",
    "memory",
    "offload",
    "wire",
]
