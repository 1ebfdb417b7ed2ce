"""Pure functions and executable models of TCP theory, with their sources.

A value out of range or an unknown name raises ValueError, and so does an event that is earlier than
the previous event of the same model. The message names the value and what is allowed, in one line.
"""

from tcplab.models.buffers import (
    receive_buffer_grant,
    receive_window,
    send_buffer_grant,
    window_from_buffer,
)
from tcplab.models.conversation import Call, NetworkPath, Peer, simulate
from tcplab.models.copies import chain_cost
from tcplab.models.links import (
    Encapsulation,
    announced_mss_bytes,
    bdp_bytes,
    goodput_mbyte_s,
    header_share,
    jain_index,
    mathis_mbit,
    mss_bytes,
    packet_count,
    sawtooth_share,
    serialisation_ms,
    slow_start_flights,
    throughput_mbit,
    transfer_ms,
    window_limit_mbit,
)
from tcplab.models.messages import message_calls, message_cost, segment_sizes
from tcplab.models.reasons import Reason

__all__ = [
    "Call",
    "Encapsulation",
    "NetworkPath",
    "Peer",
    "Reason",
    "announced_mss_bytes",
    "bdp_bytes",
    "chain_cost",
    "goodput_mbyte_s",
    "header_share",
    "jain_index",
    "mathis_mbit",
    "message_calls",
    "message_cost",
    "mss_bytes",
    "packet_count",
    "receive_buffer_grant",
    "receive_window",
    "sawtooth_share",
    "segment_sizes",
    "send_buffer_grant",
    "serialisation_ms",
    "simulate",
    "slow_start_flights",
    "throughput_mbit",
    "transfer_ms",
    "window_from_buffer",
    "window_limit_mbit",
]
