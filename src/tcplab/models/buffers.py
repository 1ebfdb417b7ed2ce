"""Compute the socket buffer that Linux grants for a request, and the window that results.

Sources: socket(7); tcp(7); the kernel's Documentation/networking/ip-sysctl.rst; net/core/sock.c
(SO_SNDBUF, SO_RCVBUF), net/ipv4/tcp_output.c (tcp_select_initial_window), include/net/tcp.h
(tcp_win_from_space). tests/lab/models compares each rule with Linux 6.18.
"""

from typing import Final

from tcplab.checks import whole
from tcplab.models.sending import mss_in_window

#: The smallest buffers that Linux grants. socket(7) gives 256 and 2048 bytes, which is out of date.
#: Today the minimum is the size of one packet buffer (two for sending), which is 2048 bytes plus
#: 256 for struct sk_buff.
MIN_RCVBUF_BYTES: Final = 2304
MIN_SNDBUF_BYTES: Final = 4608
MAX_INT: Final = 2**31 - 1
MAX_WINDOW_SCALE: Final = 14  # RFC 7323
MAX_UNSCALED_WINDOW: Final = 65535
MAX_PAYLOAD_BYTES: Final = 1460  #: The largest payload of a 1500-byte packet.
FULL_SEGMENT_BYTES: Final = 1448  # the same with the timestamps option
_HEADERS_BYTES: Final = 66  # Ethernet, IPv4, TCP with timestamps
_OVERHEAD_BYTES: Final = 320 + 32  # struct skb_shared_info, headroom
_SK_BUFF_BYTES: Final = 256


def send_buffer_grant(requested_bytes: int, wmem_max_bytes: int) -> int:
    """Return the SO_SNDBUF granted: twice the request, from 4608 to 2 × wmem_max (socket(7))."""
    return _grant(requested_bytes, wmem_max_bytes, MIN_SNDBUF_BYTES)


def receive_buffer_grant(requested_bytes: int, rmem_max_bytes: int) -> int:
    """Return the SO_RCVBUF granted: twice the request, from 2304 to 2 × rmem_max (socket(7))."""
    return _grant(requested_bytes, rmem_max_bytes, MIN_RCVBUF_BYTES)


def _grant(requested: int, limit: int, minimum: int) -> int:
    whole("requested_bytes", requested, 0, MAX_INT, fix="setsockopt takes a positive int")
    whole("limit", limit, 0, MAX_INT, fix="read it from net.core.wmem_max or rmem_max")
    return max(min(min(requested, limit) * 2, MAX_INT), minimum)


def truesize_bytes(payload_bytes: int) -> int:
    """Return the memory that the kernel charges for a packet delivered by a veth without offloads.

    The buffer comes from a slab of 640, 1024, 2048, … bytes, and struct sk_buff takes 256 more.
    Drivers that receive into pages charge other amounts, and so does GRO. Neither is modelled.
    """
    needed = payload_bytes + _HEADERS_BYTES + _OVERHEAD_BYTES
    slab = 640
    while slab < needed:
        slab = 1024 if slab == 640 else slab * 2
    return slab + _SK_BUFF_BYTES


def window_from_buffer(
    buffer_bytes: int, kernel: tuple[int, int] = (6, 18), payload_bytes: int = 1448
) -> int:
    """Return how many bytes of a receive buffer may be offered as window.

    Since Linux 6.6 the window's share of the buffer equals the payload's share of the memory that a
    packet takes (commit dfa2f0483360, "tcp: get rid of sysctl_tcp_adv_win_scale"). A packet with
    1448 bytes takes 2304 (see `truesize_bytes`), which gives 160/256. Older kernels use a fixed
    share, as do newer ones until the first full segment. The fixed share is one half unless the
    sysctl tcp_adv_win_scale was changed, which newer kernels ignore.

    Args:
        buffer_bytes: SO_RCVBUF as reported by getsockopt
        kernel: version of Linux, as (major, minor)
        payload_bytes: data per packet, or 0 before any has been received
    """
    whole("buffer_bytes", buffer_bytes, 0, MAX_INT, fix="give what getsockopt(SO_RCVBUF) returned")
    whole("payload_bytes", payload_bytes, 0, MAX_PAYLOAD_BYTES, fix="an MTU of 1500 is modelled")
    if kernel < (6, 6) or not payload_bytes:
        return buffer_bytes // 2
    ratio = max((payload_bytes << 8) // truesize_bytes(payload_bytes), 1)
    return buffer_bytes * ratio >> 8


def receive_window(buffer_bytes: int, kernel: tuple[int, int] = (6, 18)) -> int:
    """Return the largest window of a receive buffer once segments of 1448 bytes have arrived.

    The buffer was set before the SYN, which announced a window scale that suits it. Setting the
    buffer later does not change the scale, which is why SO_RCVBUF must be set before listen() or
    connect(). See :func:`window_from_buffer` for the arguments.
    """
    first = window_from_buffer(buffer_bytes, kernel, payload_bytes=0)
    rounded = first // FULL_SEGMENT_BYTES * FULL_SEGMENT_BYTES or first
    scale = min(max(first.bit_length() - 16, 0), MAX_WINDOW_SCALE)
    full = mss_in_window(FULL_SEGMENT_BYTES, rounded)
    # The window grows while a segment is in the buffer (tcp_grow_window), and an unscaled
    # window is offered in whole segments (__tcp_select_window).
    grown = window_from_buffer(max(buffer_bytes - truesize_bytes(full), 0), kernel, full)
    usable = max(min(rounded, window_from_buffer(buffer_bytes, kernel, full)), grown)
    if not scale:
        usable = usable // full * full
    return min(usable, MAX_UNSCALED_WINDOW << scale)
