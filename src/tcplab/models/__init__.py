"""Pure functions and executable models of TCP theory, with their sources.

A value out of range or an unknown name raises ValueError, and so does an event that is earlier than
the previous event of the same model. The message names the value and what is allowed, in one line.
"""

from tcplab.models.acks import ClassicReceiver, DelayedAckReceiver, Receiver
from tcplab.models.buffers import (
    receive_buffer_grant,
    receive_window,
    send_buffer_grant,
    window_from_buffer,
)
from tcplab.models.conversation import Call, NetworkPath, Peer, Simulation, simulate
from tcplab.models.copies import (
    RECEIVERS,
    SENDERS,
    STAGES,
    ChainCost,
    chain_cost,
    copies_per_byte,
    udp_batching,
)
from tcplab.models.kernel import Clock, RttEstimator
from tcplab.models.links import (
    ETHERNET_FRAMING_BYTES,
    MATHIS_CONSTANTS,
    TCP_ON_ETHERNET,
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
    transfer_flights,
    transfer_ms,
    window_limit_mbit,
)
from tcplab.models.messages import OPTIONS, message_calls, message_cost, segment_sizes
from tcplab.models.nagle import NagleSender, SimulatedSegment
from tcplab.models.reasons import Reason

__all__ = [
    "ETHERNET_FRAMING_BYTES",
    "MATHIS_CONSTANTS",
    "OPTIONS",
    "RECEIVERS",
    "SENDERS",
    "STAGES",
    "TCP_ON_ETHERNET",
    "Call",
    "ChainCost",
    "ClassicReceiver",
    "Clock",
    "DelayedAckReceiver",
    "Encapsulation",
    "NagleSender",
    "NetworkPath",
    "Peer",
    "Reason",
    "Receiver",
    "RttEstimator",
    "SimulatedSegment",
    "Simulation",
    "announced_mss_bytes",
    "bdp_bytes",
    "chain_cost",
    "copies_per_byte",
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
    "transfer_flights",
    "transfer_ms",
    "udp_batching",
    "window_from_buffer",
    "window_limit_mbit",
]
