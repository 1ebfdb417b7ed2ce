"""Measure the sizes of socket buffers, and their effect on windows, rates and round-trip times.

J. Snader's advice (Effective TCP/IP Programming, tip 32) is to choose the sizes of the buffers, and
to set them before listen() and connect(). The experiments test this advice.
"""

# ruff: noqa: F403

from tcplab.experiments.buffers.common import *
from tcplab.experiments.buffers.limits import *
from tcplab.experiments.buffers.send_buffer import *
from tcplab.experiments.buffers.throughput import *
from tcplab.experiments.buffers.windows import *
from tcplab.experiments.buffers.zero_window import *
from tcplab.experiments.sockets import MSS_BYTES as MSS_BYTES
