"""List the reasons why segments leave or wait. The simulated sender uses only some of them."""

from enum import StrEnum
from typing import Self


class Reason(StrEnum):
    """The reason why a segment left, or why bytes are waiting."""

    words: str  #: the reason as readers see it; the member's value is stored in data

    def __new__(cls, code: str, words: str) -> Self:
        """Make a member from its value and its words."""
        member = str.__new__(cls, code)
        member._value_, member.words = code, words
        return member

    SENT_AT_ONCE = "sent-at-once", "sent at once"
    FULL_SIZED = "full-sized", "full-sized"
    HELD_BY_NAGLE = "held-by-nagle", "held by Nagle"
    RELEASED_BY_ACK = "released-by-ack", "released by an ACK"
    ACK_DELAYED_BY_PEER = "ack-delayed-by-peer", "delayed by the peer"
    CORKED = "corked", "held by the cork"
    UNCORKED = "uncorked", "uncorked"
    CORK_TIMEOUT = "cork-timeout", "released by the cork's timer"
    MSG_MORE = "msg-more", "held by MSG_MORE"
    NODELAY_SET = "nodelay-set", "TCP_NODELAY set"
    TAIL_LOSS_PROBE = "tail-loss-probe", "tail loss probe"
    SHUTDOWN = "shutdown", "end of the connection"
    WINDOW_LIMITED = "window-limited", "held, peer's window full"
    CWND_LIMITED = "cwnd-limited", "held, congestion window full"
    SNDBUF_LIMITED = "sndbuf-limited", "not taken, send buffer full"
    DEFERRED = "deferred", "deferred for a longer burst"
    APPLICATION_IDLE = "application-idle", "nothing to send"
    RETRANSMISSION = "retransmission", "sent again"
    RATE_LIMITED = "rate-limited-by-wire", "queued on the link"
    UNKNOWN = "unknown", "reason unknown"
