"""Read options and TCP_INFO of a Python socket, in the format of the C programs' reports."""

import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from tcplab.programs import SocketOptions

_SO_MEMINFO: Final = 55  # from asm-generic/socket.h, since Linux 4.12

# struct tcp_info of linux/tcp.h has groups of integers, each group with one width.
_GROUPS: Final = (
    ("B", "state ca_state retransmits probes backoff options _ _"),
    (
        "I",
        """
        rto_us ato_us snd_mss_bytes rcv_mss_bytes unacked sacked lost retrans fackets
        last_data_sent_ms last_ack_sent_ms last_data_recv_ms last_ack_recv_ms pmtu_bytes
        rcv_ssthresh_bytes rtt_us rttvar_us snd_ssthresh snd_cwnd advmss_bytes reordering
        rcv_rtt_us rcv_space_bytes total_retrans
        """,
    ),
    ("Q", "pacing_rate_bytes_per_s max_pacing_rate_bytes_per_s bytes_acked bytes_received"),
    ("I", "segs_out segs_in notsent_bytes min_rtt_us data_segs_in data_segs_out"),
    ("Q", "delivery_rate_bytes_per_s busy_time_us rwnd_limited_us sndbuf_limited_us"),
    ("I", "delivered delivered_ce"),
    ("Q", "bytes_sent bytes_retrans"),
    ("I", "dsack_dups reord_seen rcv_ooopack snd_wnd_bytes"),
)


def read_tcp_info(sock: socket.socket) -> dict[str, int]:
    """Return TCP_INFO, as far as the kernel has its fields, plus time_ns (CLOCK_REALTIME)."""
    data = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    info, offset = {}, 0
    for width, names in _GROUPS:
        size = struct.calcsize(width)
        for name in names.split():
            if name != "_" and offset + size <= len(data):
                (info[name],) = struct.unpack_from("=" + width, data, offset)
            offset += size
    return {"time_ns": time.time_ns(), **info}


def read_send_buffer(sock: socket.socket) -> dict[str, int]:
    """Return the size and use of the send buffer, which `ss -m` shows as tb and w (SO_MEMINFO)."""
    memory = struct.unpack("9I", sock.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, 36))
    return {"sndbuf_bytes": memory[3], "sndbuf_used_bytes": memory[5]}


def read_options(sock: socket.socket) -> SocketOptions:
    """Return the options of a connected TCP socket."""
    congestion = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
    ends = sock.getsockname(), sock.getpeername()
    local, peer = (" port ".join(map(str, end[:2])) for end in ends)
    return SocketOptions(
        sndbuf_bytes=sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF),
        rcvbuf_bytes=sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF),
        local=local,
        peer=peer,
        cpu=None if len(os.sched_getaffinity(0)) > 1 else min(os.sched_getaffinity(0)),
        deadline_s=sock.gettimeout() or 0.0,
        congestion=congestion.rstrip(b"\0").decode(),
        mss_bytes=sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG),
        nodelay=bool(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)),
    )


@contextmanager
def sampling(
    sock: socket.socket,
    interval_ms: float = 1.0,
    read: Callable[[socket.socket], dict[str, int]] = read_tcp_info,
) -> Iterator[list[dict[str, int]]]:
    """Call `read` every `interval_ms` until the with statement ends; yield the list of results."""
    samples = [read(sock)]
    stop = threading.Event()

    def work() -> None:
        while not stop.wait(interval_ms / 1000):
            samples.append(read(sock))

    thread = threading.Thread(target=work, name="tcp_info", daemon=True)
    thread.start()
    try:
        yield samples
    finally:
        stop.set()
        thread.join()
        samples.append(read(sock))
