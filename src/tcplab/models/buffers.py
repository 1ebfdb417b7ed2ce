"""Socket buffers on Linux: what is asked for, what is granted, what window comes of it.

Sources: socket(7); tcp(7); the kernel's Documentation/networking/ip-sysctl.rst; its rules in
net/core/sock.c (SO_SNDBUF, SO_RCVBUF), net/ipv4/tcp_output.c (tcp_select_initial_window) and
include/net/tcp.h (tcp_win_from_space), each compared with Linux 6.18 in tests/lab/models.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tcplab.checks import number, whole

#: The least that is granted. socket(7) says 256 and 2048; today it is what one packet buffer (two,
#: for sending) takes: 2048 bytes, and 256 for struct sk_buff.
MIN_RCVBUF_BYTES: Final = 2304
MIN_SNDBUF_BYTES: Final = 4608
MAX_INT: Final = 2**31 - 1
MAX_WINDOW_SCALE: Final = 14  # RFC 7323
MAX_UNSCALED_WINDOW: Final = 65535

#: What the kernel charges for one received packet of 1500 bytes: a 2048-byte buffer and 256 bytes
#: of struct sk_buff. A driver that receives into pages charges more (4096 + 256, for example).
TRUESIZE_1500: Final = 2304


def send_buffer_grant(requested_bytes: int, wmem_max_bytes: int) -> int:
    """SO_SNDBUF as granted: doubled, at most twice net.core.wmem_max, at least 4608 (socket(7))."""
    return _grant(requested_bytes, wmem_max_bytes, MIN_SNDBUF_BYTES)


def receive_buffer_grant(requested_bytes: int, rmem_max_bytes: int) -> int:
    """SO_RCVBUF as granted: doubled, at most twice net.core.rmem_max, at least 2304 (socket(7))."""
    return _grant(requested_bytes, rmem_max_bytes, MIN_RCVBUF_BYTES)


def _grant(requested: int, limit: int, minimum: int) -> int:
    whole("requested_bytes", requested, 0, MAX_INT, fix="setsockopt takes a positive int")
    whole("limit", limit, 0, MAX_INT, fix="read it from net.core.wmem_max or rmem_max")
    return max(min(min(requested, limit) * 2, MAX_INT), minimum)


@dataclass(frozen=True, slots=True)
class ReceiveWindow:
    """The windows that a receive buffer allows."""

    #: SO_RCVBUF as getsockopt reports it.
    buffer_bytes: int
    #: The window in the SYN or SYN-ACK, which is never scaled.
    syn_window_bytes: int
    #: The exponent in the same segment; fixed for the connection's life.
    window_scale: int
    #: The largest window once full-sized segments have been seen.
    usable_bytes: int


def window_from_buffer(
    buffer_bytes: int, kernel: tuple[int, int] = (6, 18), payload_bytes: int = 1448
) -> int:
    """The part of a receive buffer that may be offered as window.

    Since Linux 6.6 it is the measured share of payload in what packets really take, in 1/256
    (commit dfa2f0483360, "tcp: get rid of sysctl_tcp_adv_win_scale"): 160/256 for 1448 bytes in
    2304. Before that, and until the first full segment, a fixed share: half, unless somebody set
    the sysctl tcp_adv_win_scale, which newer kernels ignore.

    Args:
        buffer_bytes: SO_RCVBUF as getsockopt reports it.
        kernel: version, such as (6, 18).
        payload_bytes: data in each packet; 0 before any has been received.
    """
    whole("buffer_bytes", buffer_bytes, 0, MAX_INT, fix="give what getsockopt(SO_RCVBUF) returned")
    whole("payload_bytes", payload_bytes, 0, TRUESIZE_1500, fix="a packet takes more than it has")
    if kernel < (6, 6) or not payload_bytes:
        return buffer_bytes // 2
    ratio = max((payload_bytes << 8) // TRUESIZE_1500, 1)
    return buffer_bytes * ratio >> 8


def receive_window(
    buffer_bytes: int,
    *,
    autotuned: bool,
    tcp_rmem_max_bytes: int,
    rmem_max_bytes: int,
    mss: int = 1448,
    kernel: tuple[int, int] = (6, 18),
) -> ReceiveWindow:
    """The window in the SYN, its scale, and the largest usable window of a receive buffer.

    An autotuned socket announces a scale that suits net.ipv4.tcp_rmem's maximum; a socket whose
    buffer was set before the SYN, one that suits that buffer. Set later, the buffer changes but the
    scale does not: that is why SO_RCVBUF goes before listen() and connect().

    Args:
        buffer_bytes: SO_RCVBUF as getsockopt reports it, when the SYN leaves.
        autotuned: nobody has set SO_RCVBUF.
        tcp_rmem_max_bytes: third value of net.ipv4.tcp_rmem.
        rmem_max_bytes: net.core.rmem_max.
        mss: full segments; the window in the SYN is a multiple of it (of 1460 in the client's
            SYN, when timestamps are not agreed yet).
        kernel: version, such as (6, 18).
    """
    whole("mss", mss, 1, 65535, fix="give the full segment's size in bytes")
    first = window_from_buffer(buffer_bytes, kernel, payload_bytes=0)
    rounded = first // mss * mss if first > mss else first
    largest = max(first, tcp_rmem_max_bytes, rmem_max_bytes) if autotuned else first
    scale = min(max(largest.bit_length() - 16, 0), MAX_WINDOW_SCALE)
    usable = window_from_buffer(buffer_bytes, kernel, min(mss, TRUESIZE_1500))
    return ReceiveWindow(
        buffer_bytes,
        min(rounded, MAX_UNSCALED_WINDOW),
        scale,
        min(usable, MAX_UNSCALED_WINDOW << scale),
    )


def request_for_window(window_bytes: float, payload_bytes: int = 1448) -> int:
    """The SO_RCVBUF to ask for so that the window reaches a bandwidth-delay product.

    The kernel doubles the request, and a window is the payload's share of that (Linux 6.6 and
    newer).
    """
    number("window_bytes", window_bytes, 0, MAX_INT, fix="give the bandwidth-delay product")
    whole("payload_bytes", payload_bytes, 1, TRUESIZE_1500, fix="give the full segment's size")
    ratio = max((payload_bytes << 8) // TRUESIZE_1500, 1)
    return -(-int(window_bytes) * 256 // (2 * ratio))
