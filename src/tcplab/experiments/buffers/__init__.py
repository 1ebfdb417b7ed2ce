"""Measure the sizes of socket buffers, and their effect on windows, rates and round-trip times.

J. Snader's advice (Effective TCP/IP Programming, tip 32) is to choose the sizes of the buffers, and
to set them before listen() and connect(). The experiments test this advice.
"""

from tcplab.experiments.buffers.send_buffer import measure_held, measure_one_segment
from tcplab.experiments.buffers.throughput import Sweep, measure, measure_autotuning, measure_limits
from tcplab.experiments.buffers.windows import measure_grants, measure_order, measure_zero_window

__all__ = [
    "Sweep",
    "measure",
    "measure_autotuning",
    "measure_grants",
    "measure_held",
    "measure_limits",
    "measure_one_segment",
    "measure_order",
    "measure_zero_window",
]
