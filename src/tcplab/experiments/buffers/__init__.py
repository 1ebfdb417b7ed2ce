"""Socket buffers: what is asked for, what is granted, what comes of it, and what it costs.

J. Snader's advice (Effective TCP/IP Programming, tip 32) is to choose the buffers' sizes, and to
set them before listen() and connect(). Each part of that is an experiment of its own.

Sources: socket(7), tcp(7), RFC 7323, RFC 9293; each module names its own.
"""

# ruff: noqa: F403

from tcplab.experiments.buffers.common import *
from tcplab.experiments.buffers.limits import *
from tcplab.experiments.buffers.queues import *
from tcplab.experiments.buffers.send_buffer import *
from tcplab.experiments.buffers.throughput import *
from tcplab.experiments.buffers.windows import *
from tcplab.experiments.buffers.zero_window import *
from tcplab.experiments.sockets import MSS_BYTES as MSS_BYTES
