"""List why a segment left when it did. The model uses some of the reasons, the timeline all."""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """Why a segment left when it did, or why bytes are waiting."""

    SENT_AT_ONCE = "sent-at-once"
    FULL_SIZED = "full-sized"
    HELD_BY_NAGLE = "held-by-nagle"
    RELEASED_BY_ACK = "released-by-ack"
    ACK_DELAYED_BY_PEER = "ack-delayed-by-peer"
    CORKED = "corked"
    UNCORKED = "uncorked"
    CORK_TIMEOUT = "cork-timeout-200ms"
    MSG_MORE = "msg-more"
    AUTOCORKED = "autocorked"
    NODELAY_SET = "nodelay-set"
    TAIL_LOSS_PROBE = "tail-loss-probe"
    SHUTDOWN = "shutdown"
    WINDOW_LIMITED = "window-limited"
    CWND_LIMITED = "cwnd-limited"
    SNDBUF_LIMITED = "sndbuf-limited"
    DEFERRED = "deferred"
    APPLICATION_IDLE = "application-idle"
    RETRANSMISSION = "retransmission"
    RATE_LIMITED = "rate-limited-by-wire"
    UNKNOWN = "unknown"
