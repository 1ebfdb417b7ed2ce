"""Count the copies and system calls that the CPU needs to move data.

A copy is counted whenever a CPU copies or produces a byte, from the page cache or memory of one end
to the program at the other end. The network card's own transfers (DMA) take no CPU time.

Sources: sendfile(2), splice(2), vmsplice(2), tee(2), recv(2) on MSG_TRUNC; the kernel's
Documentation/networking/msg_zerocopy.rst; Chen Shuo, "Network programming in practice".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tcplab.checks import choice, whole

#: How many times the CPU copies each byte, for each way to send data over a TCP socket.
SENDERS: Final = {
    "read+send": 2,  # from page cache to program, from program to socket
    "mmap+send": 1,  # no copy out of the page cache, but an occasional page fault
    "sendfile": 0,  # the socket holds the page cache's own pages
    "splice": 0,  # pages pass through a pipe
    "vmsplice": 0,  # the program's pages, which it must not touch, pass through a pipe
    "zerocopy": 0,  # MSG_ZEROCOPY pins the program's pages, and reports when it releases them
    "write": 1,  # the data is already in memory; no file is read
}

#: How many times the CPU copies each byte, for each way to handle received data.
RECEIVERS: Final = {
    "recv": 1,  # the kernel copies to the program
    "recv+write": 2,  # the kernel copies to the program, and back to the page cache
    "recv+/dev/null": 1,  # writing to /dev/null copies nothing
    "discard": 0,  # recv with MSG_TRUNC throws the bytes away in the kernel
    "splice": 0,  # pages move from the socket through a pipe to a file where possible
}

PATHS: Final = ("network", "same machine")


@dataclass(frozen=True, slots=True)
class CopyCount:
    """The number of times that CPUs copy each byte on its way from end to end."""

    sender: int
    #: Copies between the two ends; only MSG_ZEROCOPY to the same machine needs one.
    transit: int
    receiver: int

    @property
    def total(self) -> int:
        return self.sender + self.transit + self.receiver


def copies_per_byte(sender: str, receiver: str = "recv", path: str = "network") -> CopyCount:
    """Return how many times CPUs copy each byte on its way from a sender to a receiver.

    The arguments are names from SENDERS, RECEIVERS and PATHS. With MSG_ZEROCOPY to the same machine
    (loopback, veth), the kernel makes a private copy after all and reports it in the completion
    (msg_zerocopy.rst, "Loopback").
    """
    choice("sender", sender, tuple(SENDERS))
    choice("receiver", receiver, tuple(RECEIVERS))
    choice("path", path, PATHS)
    transit = int(sender == "zerocopy" and path == "same machine")
    return CopyCount(SENDERS[sender], transit, RECEIVERS[receiver])


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

    #: Copies of each byte by the CPU, summed over all stages.
    copies: int
    #: Number of processes that share the CPUs.
    processes: int


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


# ---- system calls --------------------------------------------------------------------------------

UDP_MAX_SEGMENTS: Final = 128  # include/linux/udp.h; 64 until Linux 6.8
MAX_UDP_PAYLOAD_BYTES: Final = 65507  # 65535 - 20 - 8
SENDMMSG_MAX: Final = 1024  # UIO_MAXIOV, sendmmsg(2)


@dataclass(frozen=True, slots=True)
class Batching:
    """The data and packets of one system call, and its trips through the network stack."""

    bytes_per_call: float  #: data handed over by one system call
    packets_per_call: float  #: packets on the wire per call
    #: Trips through the whole stack per call. If segmentation is left to the end of the stack
    #: (GSO), one trip carries many packets.
    trips_per_call: float


def udp_batching(datagram_bytes: int, method: str = "sendto", batch: int = 1) -> Batching:
    """Return the bytes, packets and trips through the stack of one system call of a UDP sender.

    The methods are "sendto", "sendmmsg" and "udp_segment". sendmmsg saves system calls but no
    trips, and UDP_SEGMENT saves both (udp(7); commit bec1f6f6 measured 876 and 2139 MB/s on one
    core, with 1470 and 61,818 bytes per call). `batch` is the number of datagrams per call, which
    "sendto" ignores and "udp_segment" limits.
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
