"""The cost of moving a byte besides the wire: copies by the CPU, and system calls.

Counted is each time a CPU copies (or makes) the byte on its way from one end's page cache or memory
to the other end's program. The network card's own transfers (DMA) cost no CPU time and do not
count.

Sources: sendfile(2), splice(2), vmsplice(2), tee(2), recv(2) on MSG_TRUNC; the kernel's
Documentation/networking/msg_zerocopy.rst; Chen Shuo, "Network programming in practice".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tcplab.checks import choice, whole

#: How a file or memory gets into a TCP socket, and how often the CPU copies each byte for it.
SENDERS: Final = {
    "read+send": 2,  # page cache to program, program to socket
    "mmap+send": 1,  # no copy out of the page cache, but a page fault now and then
    "sendfile": 0,  # the socket holds the page cache's own pages
    "splice": 0,  # pages pass through a pipe
    "vmsplice": 0,  # the program's pages pass through a pipe; it must not touch them
    "zerocopy": 0,  # MSG_ZEROCOPY pins the program's pages; a completion to read later
    "write": 1,  # memory that is there already, no file to read
}

#: What a receiver does with the bytes, and how often the CPU copies each for it.
RECEIVERS: Final = {
    "recv": 1,  # socket to program
    "recv+write": 2,  # socket to program, program to page cache
    "recv+/dev/null": 1,  # writing to /dev/null copies nothing
    "discard": 0,  # recv with MSG_TRUNC throws the bytes away in the kernel
    "splice": 0,  # socket to pipe to file; moves pages where it can
}

PATHS: Final = ("network", "same machine")


@dataclass(frozen=True, slots=True)
class CopyCount:
    """Copies of each byte from end to end."""

    sender: int
    #: On the way; only MSG_ZEROCOPY to the same machine has one.
    transit: int
    receiver: int

    @property
    def total(self) -> int:
        return self.sender + self.transit + self.receiver


def copies_per_byte(sender: str, receiver: str = "recv", path: str = "network") -> CopyCount:
    """The copies of each byte by the CPUs.

    With MSG_ZEROCOPY to the same machine (loopback, veth) the kernel makes a private copy after
    all, and says so in the completion (msg_zerocopy.rst, "Loopback").

    Args:
        sender: one of SENDERS.
        receiver: one of RECEIVERS.
        path: "network" or "same machine".
    """
    choice("sender", sender, tuple(SENDERS))
    choice("receiver", receiver, tuple(RECEIVERS))
    choice("path", path, PATHS)
    transit = int(sender == "zerocopy" and path == "same machine")
    return CopyCount(SENDERS[sender], transit, RECEIVERS[receiver])


#: The stages of a shell pipeline, by what they do to each byte. A pipe is written and read: the
#: copies are counted at the program that makes them.
STAGES: Final = {
    "dd /dev/zero": 2,  # the kernel writes zeros, dd writes them to a pipe
    "dd file": 2,  # page cache to dd, dd to a pipe
    "cat file": 2,  # page cache to cat, cat to a pipe
    "pv": 2,  # pipe to pv, pv to a pipe (pv 1.6 and newer may splice: then none)
    "nc from pipe": 2,  # pipe to nc, nc to the socket
    "nc < file": 2,  # page cache to nc, nc to the socket
    "nc to pipe": 2,  # socket to nc, nc to a pipe
    "nc > /dev/null": 1,  # socket to nc; /dev/null takes it without a copy
    "nc > file": 2,  # socket to nc, nc to page cache
    "pv > /dev/null": 1,  # pipe to pv; /dev/null takes it without a copy
    "pv > /dev/null, splicing": 0,  # splice() hands the pipe's pages on, and drops them
    "dd > /dev/null": 1,  # pipe to dd; /dev/null takes it without a copy
    "netcat --splice < file": 0,  # sendfile(): the socket holds the page cache's own pages
    "netcat --splice from pipe": 0,  # splice(): the pipe's pages become the socket's
    "discard": 0,  # recv with MSG_TRUNC throws the bytes away in the kernel
    "tcpsource": 1,  # memory to the socket
    "tcpsink": 1,  # socket to memory
}


@dataclass(frozen=True, slots=True)
class ChainCost:
    """The cost of a byte on its way through several programs."""

    #: By the CPU, over all stages.
    copies: int
    #: They share the CPUs.
    processes: int


def chain_cost(*stages: str) -> ChainCost:
    """The cost of a pipeline of programs on one machine.

    Chen Shuo's table: "dd | nc → nc" copies each byte 5 times (the text counts 6: it takes a write
    to /dev/null for a copy), "nc < file → nc" 3 times, so the second can be 1.7 times as fast on
    one core; the text measured 1074 against 580 MB/s, 1.85 times.

    Args:
        *stages: names from STAGES, sender's end first.
    """
    if not stages:
        raise ValueError("stages=() must name at least one; use names from STAGES")
    for stage in stages:
        choice("stage", stage, tuple(STAGES))
    return ChainCost(sum(STAGES[stage] for stage in stages), len(stages))


# ---- system calls --------------------------------------------------------------------------------

UDP_MAX_SEGMENTS: Final = 128  # include/linux/udp.h; 64 on older kernels
MAX_UDP_PAYLOAD_BYTES: Final = 65507  # 65535 - 20 - 8
SENDMMSG_MAX: Final = 1024  # UIO_MAXIOV, sendmmsg(2)


@dataclass(frozen=True, slots=True)
class Batching:
    """The data that one system call, and one trip through the network stack, carries."""

    bytes_per_call: float  #: Data that one system call hands over
    packets_per_call: float  #: Packets on the wire that come of it
    #: Times that the whole stack is walked for it; with segmentation left to the end of the stack
    #: (GSO), one trip carries many packets
    trips_per_call: float

    @property
    def bytes_per_trip(self) -> float:
        """Data on each trip: the figure that decides the throughput of small writes."""
        return self.bytes_per_call / self.trips_per_call


def udp_batching(datagram_bytes: int, method: str = "sendto", batch: int = 1) -> Batching:
    """Bytes, packets and trips through the stack for each system call of a UDP sender.

    sendmmsg saves system calls but no trips; UDP_SEGMENT saves both (udp(7); commit bec1f6f6,
    which measured 876 and 2139 MB/s on one core, with 1470 and 61 818 bytes per call).

    Args:
        datagram_bytes: data in each datagram.
        method: "sendto", "sendmmsg" or "udp_segment".
        batch: datagrams in each call of the latter two; cut to what UDP_SEGMENT allows.
    """
    choice("method", method, ("sendto", "sendmmsg", "udp_segment"))
    whole("datagram_bytes", datagram_bytes, 1, MAX_UDP_PAYLOAD_BYTES, fix="see udp(7)")
    whole("batch", batch, 1, SENDMMSG_MAX, fix="sendmmsg(2) takes at most 1024 messages")
    if method == "sendto":
        return Batching(datagram_bytes, 1, 1)
    if method == "sendmmsg":
        return Batching(datagram_bytes * batch, batch, batch)
    packets = min(batch, UDP_MAX_SEGMENTS, MAX_UDP_PAYLOAD_BYTES // datagram_bytes)
    return Batching(datagram_bytes * packets, packets, 1)
