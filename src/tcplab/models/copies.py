"""Count the copies that the CPU makes to move data through a pipeline.

A copy is counted whenever a CPU copies or produces a byte, from the page cache or memory of one end
to the program at the other end. The network card's own transfers (DMA) take no CPU time.

Sources: sendfile(2), splice(2), tee(2), recv(2) on MSG_TRUNC; Chen Shuo, "Network programming in
practice".
"""

from dataclasses import dataclass
from typing import Final

from tcplab.checks import choice

#: How many times the CPU copies each byte, for each stage of a shell pipeline. A pipe is written by
#: one stage and read by the next, and each copy counts for the stage that makes it.
STAGES: Final = {
    "dd /dev/zero": 2,  # the kernel writes zeros, dd writes them to a pipe
    "dd file": 2,  # page cache to dd, dd to a pipe
    "cat file": 2,  # page cache to cat, cat to a pipe
    "pv": 2,  # pipe to pv, pv to a pipe (pv 1.6 and newer may splice without a copy)
    "nc from pipe": 2,  # pipe to nc, nc to the socket
    "nc < file": 2,  # page cache to nc, nc to the socket
    "nc to pipe": 2,  # socket to nc, nc to a pipe
    "nc > /dev/null": 1,  # socket to nc; /dev/null takes it without a copy
    "nc > file": 2,  # socket to nc, nc to page cache
    "pv > /dev/null": 1,  # pipe to pv; /dev/null takes it without a copy
    "pv > /dev/null, splicing": 0,  # splice() to /dev/null drops the pipe's pages
    "dd > /dev/null": 1,  # pipe to dd; /dev/null takes it without a copy
    "netcat --splice < file": 0,  # sendfile(): the socket holds the page cache's own pages
    "netcat --splice from pipe": 0,  # splice(): the pipe's pages become the socket's
    "discard": 0,  # recv with MSG_TRUNC throws the bytes away in the kernel
    "tcpsource": 1,  # memory to the socket
    "tcpsink": 1,  # socket to memory
}


@dataclass(frozen=True, slots=True)
class ChainCost:
    """The cost of a chain of programs."""

    copies: int  #: Copies of each byte by the CPU, summed over all stages
    processes: int  #: Number of processes that share the CPUs


def chain_cost(*stages: str) -> ChainCost:
    """Return the cost of a pipeline of STAGES on one machine, listed from the sender's end.

    In an example of Chen Shuo's, `dd | nc` and a receiving nc copy each byte 5 times (he counts 6,
    because he takes a write to /dev/null for a copy). `nc < file` and a receiving nc copy it 3
    times, and can therefore be 1.7 times as fast on one core. He measured 580 and 1074 MB/s, a
    factor of 1.85.
    """
    if not stages:
        raise ValueError("stages=() must name at least one; use names from STAGES")
    for stage in stages:
        choice("stage", stage, tuple(STAGES))
    return ChainCost(sum(STAGES[stage] for stage in stages), len(stages))
