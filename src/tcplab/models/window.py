"""Model the window that a Linux receiver offers, segment by segment.

Sources: net/ipv4/tcp_input.c (tcp_grow_window, tcp_measure_rcv_mss, tcp_rcvbuf_grow) and
tcp_output.c (__tcp_select_window) of Linux 6.18. Until 6.5 the window's share of the buffer was a
setting (dfa2f0483360). Linux 6.16 changed how autotuning grows, and raised the default limit of the
buffer to 32 MB (572be9bf9d0d).
"""

from __future__ import annotations

from typing import Final

from tcplab.checks import whole

DEFAULT_RCVBUF_BYTES: Final = 131072  # second value of net.ipv4.tcp_rmem
DEFAULT_RMEM_MAX_BYTES: Final = 6291456  # third value of tcp_rmem until Linux 6.15, and in the lab
FIRST_RATIO: Final = 128  # half of the buffer, in units of 1/256
ANNOUNCED_MSS_BYTES: Final = 1460
_HEADERS_BYTES: Final = 66  # Ethernet, IPv4, TCP with timestamps
_OVERHEAD_BYTES: Final = 320 + 32  # struct skb_shared_info, headroom
_SK_BUFF_BYTES: Final = 256
_UNIT_BYTES: Final = 1 << 7  # unit of the window field, at a default buffer's scale


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


class OfferedWindow:
    """The window that a receiver derives from its buffer.

    The window starts at half the buffer. The first full segment shows what share of a buffer is
    payload. Segments of 128 bytes or more raise the window's limit while there is room. If
    SO_RCVBUF was not set, autotuning enlarges the buffer, up to the third value of
    net.ipv4.tcp_rmem, whenever the application reads more in one RTT than in any RTT before.

    The model is exact enough to decide when ACKs leave. If the application does not read, the model
    predicts when the window closes to within about two segments, because the kernel merges small
    packets in its queue and this model does not. It assumes that tcp_shrink_window (since Linux
    6.5) is 0, so an offered window is never withdrawn. It never drops data that exceeds the buffer;
    Linux does, and 6.17 has become stricter.
    """

    def __init__(
        self,
        window_bytes: int,
        buffer_bytes: int = DEFAULT_RCVBUF_BYTES,
        *,
        autotuned: bool = True,
    ) -> None:
        whole("window_bytes", window_bytes, 1, 1 << 30, fix="give the window in the SYN")
        whole("buffer_bytes", buffer_bytes, 1, 1 << 30, fix="give what getsockopt returned")
        self._buffer = buffer_bytes
        self._buffer_max = DEFAULT_RMEM_MAX_BYTES if autotuned else 0
        self._ratio = FIRST_RATIO
        self._clamp = self._from_space(buffer_bytes)
        self._limit = min(window_bytes, self._clamp)  # rcv_ssthresh
        self._offered = window_bytes
        self._offered_at = 0  # the sequence number at which the offered window starts
        self._charged: list[int] = []  # truesize of each unread packet
        self._read_in_rtt, self._most_read = 0, 10 * ANNOUNCED_MSS_BYTES
        self._rtt_began_ms = 0.0

    @property
    def offered_bytes(self) -> int:
        return self._offered

    def measure(self, payload: int) -> None:
        """Measure the payload's share of the buffer again, after a segment of a new size."""
        ratio = max((payload << 8) // truesize_bytes(payload), 1)
        if ratio == self._ratio:
            return
        self._ratio = ratio
        clamp = self._from_space(self._buffer)
        if clamp < self._clamp:
            self._limit = min(self._limit, clamp)
        else:
            self._limit = max(min(self._offered, clamp), self._limit)
        self._clamp = clamp

    def charge(self, payload: int) -> None:
        """Charge the buffer for a segment that has arrived."""
        self._charged.append(truesize_bytes(payload))

    def grow(self, payload: int, full_segment: int) -> bool:
        """Raise the window's limit after a segment if possible; return whether it was raised."""
        room = min(self._clamp, self._free()) - self._limit
        if payload < 128 or room <= 0:
            return False
        step = self._step(payload, full_segment)
        self._limit += min(room, max(step, 2 * payload)) if step else 0
        return step > 0

    def _step(self, payload: int, full_segment: int) -> int:
        size = self._from_space(truesize_bytes(payload))
        if size <= payload:
            return 2 * ANNOUNCED_MSS_BYTES
        size >>= 1
        window = self._from_space(max(self._buffer_max, self._buffer)) >> 1
        while self._limit <= window:
            if size <= payload:
                return 2 * full_segment
            size >>= 1
            window >>= 1
        return 0

    def would_offer(self) -> int:
        """Return the window that an ACK sent now would carry."""
        free = self._free()
        full = min(self._clamp, self._from_space(self._buffer))
        if free < full >> 1:
            free = free // _UNIT_BYTES * _UNIT_BYTES
            if free < self._from_space(self._buffer) >> 4 or free < ANNOUNCED_MSS_BYTES:
                return 0
        free = min(free, self._limit)
        return -(-free // _UNIT_BYTES) * _UNIT_BYTES

    def is_short_of_space(self) -> bool:
        """Return whether less than half the buffer is free, which ends quick ACKs."""
        return self._free() < min(self._clamp, self._from_space(self._buffer)) >> 1

    def offer(self, next_seq: int) -> int:
        """Record and return the window of an ACK that leaves now. No ACK withdraws an offer."""
        current = max(self._offered_at + self._offered - next_seq, 0)
        window = self.would_offer()
        if window < current:
            window = -(-current // _UNIT_BYTES) * _UNIT_BYTES
        self._offered, self._offered_at = window, next_seq
        return window

    def is_worth_an_update(self, next_seq: int) -> bool:
        """Return whether a read at least doubles a window that was at most half its maximum."""
        current = max(self._offered_at + self._offered - next_seq, 0)
        if 2 * current > self._clamp:
            return False
        now = self.would_offer()
        return now > 0 and now >= 2 * current

    def read(self, size: int, rtt_ms: float, now_ms: float) -> None:
        """Free the buffer after a read of everything, and let autotuning enlarge it."""
        self._charged.clear()
        self._read_in_rtt += size
        if now_ms - self._rtt_began_ms < rtt_ms:
            return
        if self._read_in_rtt > self._most_read:
            self._enlarge()
        self._read_in_rtt, self._rtt_began_ms = 0, now_ms

    def _enlarge(self) -> None:
        most, self._most_read = self._most_read, self._read_in_rtt
        window = 2 * self._read_in_rtt
        window += 2 * window * (self._read_in_rtt - most) // most
        buffer = min((window << 8) // self._ratio, self._buffer_max)
        if buffer > self._buffer:
            self._buffer = buffer
            self._clamp = self._from_space(buffer)

    def _from_space(self, space: int) -> int:
        return space * self._ratio >> 8

    def _free(self) -> int:
        return self._from_space(self._buffer - sum(self._charged))
