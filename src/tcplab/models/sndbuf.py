"""Model the memory of a send queue, which SO_SNDBUF limits.

Sources: net/ipv4/tcp.c (tcp_sendmsg_locked), tcp_output.c (tso_fragment, tcp_grow_skb), tcp_input.c
(tcp_sndbuf_expand) and net/core/stream.c (sk_stream_write_space) of Linux 6.18.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final

from tcplab.models.buffers import send_buffer_grant
from tcplab.models.links import INITIAL_CWND_SEGMENTS
from tcplab.models.window import ANNOUNCED_MSS_BYTES

#: Room for the headers in each buffer (MAX_TCP_HEADER). It depends on the kernel's configuration.
#: It is 320 in the kernels of distributions, and 256 without support for wireless mesh networks.
DEFAULT_HEADER_BYTES: Final = 320
_SHARED_INFO_BYTES: Final = 320  # struct skb_shared_info
_SK_BUFF_BYTES: Final = 256
NO_LIMIT_BYTES: Final = 1 << 60


class SendBuffer:
    """The buffers (struct sk_buff) of a send queue and the memory that the kernel charges for them.

    The kernel charges for a buffer's bytes and for the buffer itself. A write first fills the last
    unsent buffer. Only a new buffer needs free memory, so the last buffer may exceed the limit.
    The kernel divides a buffer to send a part of it, and fills a short buffer from the next one.

    Args:
        limit_bytes: SO_SNDBUF as getsockopt reports it, or None if the kernel may enlarge it
        header_bytes: room for headers in each buffer
    """

    def __init__(
        self, limit_bytes: int | None = None, header_bytes: int = DEFAULT_HEADER_BYTES
    ) -> None:
        self._itself = header_bytes + _SHARED_INFO_BYTES + _SK_BUFF_BYTES
        segment = ANNOUNCED_MSS_BYTES + header_bytes + _SHARED_INFO_BYTES
        self._segment = (1 << (segment - 1).bit_length()) + _SK_BUFF_BYTES
        self._is_fixed = limit_bytes is not None
        self.limit_bytes = limit_bytes or 2 * INITIAL_CWND_SEGMENTS * self._segment
        self._una = 0
        self._ends: list[int] = []  # sequence number after each buffer

    @property
    def memory_bytes(self) -> int:
        data = self._ends[-1] - self._una if self._ends else 0
        return data + self._itself * len(self._ends)

    @property
    def has_room(self) -> bool:
        """Return whether a write may begin another buffer (sk_stream_memory_free)."""
        return self.memory_bytes < self.limit_bytes

    @property
    def wakes_writer(self) -> bool:
        """Return whether an ACK wakes a blocked write, which needs a third of the limit free."""
        return self.memory_bytes * 3 // 2 <= self.limit_bytes and self.has_room

    def fix(self, requested_bytes: int) -> None:
        """Set SO_SNDBUF, ignoring wmem_max. The kernel does not enlarge the buffer afterwards."""
        self.limit_bytes = send_buffer_grant(requested_bytes, requested_bytes)
        self._is_fixed = True

    def enlarge(self, cwnd_segments: int) -> None:
        """Make room for twice the congestion window, unless SO_SNDBUF was set."""
        if not self._is_fixed:
            self.limit_bytes = max(self.limit_bytes, 2 * cwnd_segments * self._segment)

    def unsent_tail_bytes(self, next_seq: int) -> int:
        """Return the number of bytes in the last buffer, or 0 if it has been sent."""
        if not self._ends or self._ends[-1] <= next_seq:
            return 0
        return self._ends[-1] - (self._ends[-2] if len(self._ends) > 1 else self._una)

    def append(self, end_seq: int, *, is_new: bool) -> None:
        """Record the end of the last buffer, or of a new one, after bytes were copied to it."""
        if is_new:
            self._ends.append(end_seq)
        else:
            self._ends[-1] = end_seq

    def send(self, seq: int, end_seq: int) -> None:
        """Join or divide buffers so that one of them holds exactly the bytes that are sent now."""
        first, last = bisect_right(self._ends, seq), bisect_left(self._ends, end_seq)
        divided = last == len(self._ends) or self._ends[last] != end_seq
        self._ends[first:last] = [end_seq] * divided

    def acknowledge(self, upto: int) -> None:
        """Free the acknowledged bytes."""
        del self._ends[: bisect_right(self._ends, upto)]
        self._una = upto
