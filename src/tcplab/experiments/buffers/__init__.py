"""Socket buffers: what is asked for, what is granted, what comes of it, and what it costs.

J. Snader's advice (Effective TCP/IP Programming, tip 32) is to choose the buffers' sizes, and to
set them before listen() and connect(). Each part of that is an experiment of its own.

Sources: socket(7), tcp(7), RFC 7323, RFC 9293; each module names its own.
"""

from tcplab.experiments.buffers.common import Sample
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
from tcplab.experiments.sockets import MSS_BYTES

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
