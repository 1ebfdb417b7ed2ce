"""Socket buffers: what is asked for, what is granted, what comes of it, and what it costs.

J. Snader's advice (Effective TCP/IP Programming, tip 32) is to choose the buffers' sizes, and to
set them before listen() and connect(). Each part of that is an experiment of its own:

==================  ============================================================================
``throughput``      :func:`measure`: throughput against the size of a buffer, for several
                    round-trip times; and fixed sizes against one that is left to the kernel
``windows``         what the kernel grants, and what window comes of it; SO_RCVBUF set before
                    listen() and after accept(): the window scale tells
``limits``          four slow transfers, and which number of TCP_INFO names the cause of each
``zero_window``     a receiver that does not read: the window closes, probes, and opens
``send_buffer``     how much a send buffer really holds; one that is too small for the
                    receiver's delayed ACK (the rule of 3 × MSS)
``queues``          a queue that is too long: the round-trip time under load ("bufferbloat")
``common``          what they share
==================  ============================================================================

Sources: socket(7), tcp(7), RFC 7323, RFC 9293; each module names its own.
"""

from tcplab.experiments.buffers.common import MSS_BYTES, Sample
from tcplab.experiments.buffers.limits import Limit, Limits, measure_limits
from tcplab.experiments.buffers.queues import Queue, Queues, measure_queues
from tcplab.experiments.buffers.send_buffer import (
    Held,
    SmallBuffers,
    measure_held,
    measure_one_segment,
)
from tcplab.experiments.buffers.throughput import (
    REQUESTS,
    Autotuning,
    Sweep,
    Transfer,
    Tuned,
    measure,
    measure_autotuning,
)
from tcplab.experiments.buffers.windows import Grants, Order, measure_grants, measure_order
from tcplab.experiments.buffers.zero_window import ZeroWindow, measure_zero_window

__all__ = [
    "MSS_BYTES",
    "REQUESTS",
    "Autotuning",
    "Grants",
    "Held",
    "Limit",
    "Limits",
    "Order",
    "Queue",
    "Queues",
    "Sample",
    "SmallBuffers",
    "Sweep",
    "Transfer",
    "Tuned",
    "ZeroWindow",
    "measure",
    "measure_autotuning",
    "measure_grants",
    "measure_held",
    "measure_limits",
    "measure_one_segment",
    "measure_order",
    "measure_queues",
    "measure_zero_window",
]
