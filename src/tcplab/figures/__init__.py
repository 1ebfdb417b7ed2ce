"""Figures: data in, a :class:`Picture` out, which holds a matplotlib Figure, words and a table.

::

    picture = figures.timeline(result["default"].timeline())
    picture          # in a notebook: the figure with its alternative text
    picture.table    # the same numbers
    picture.save("timeline.svg")

Made for a projector of 1280 x 720 and for any colour vision: nothing is told by colour alone.
"""

from tcplab.figures.buffers import (
    autotuning,
    buffer_limits,
    buffer_sweep,
    bufferbloat,
    zero_window,
)
from tcplab.figures.copies import copy_path
from tcplab.figures.cork import cork_messages, cork_scenarios, forgotten_cork
from tcplab.figures.curves import in_flight, time_sequence
from tcplab.figures.diagnosis import data_per_segment
from tcplab.figures.lab_tour import handshake, sniffing_loss
from tcplab.figures.ladder import ladder
from tcplab.figures.lanes import choose_message, timeline
from tcplab.figures.mtu import headers, mtu_sweep, path_mtu, segment_sizes
from tcplab.figures.pipes import pipe_cpus, pipe_rates
from tcplab.figures.records import quotes, records, write_matrix
from tcplab.figures.send_file import file_methods, file_seconds, header_segments
from tcplab.figures.style import Picture
from tcplab.figures.symptoms import cause, symptom
from tcplab.figures.tcp_vs_udp import batching, receive_buffers, tcp_vs_udp

__all__ = [
    "Picture",
    "autotuning",
    "batching",
    "buffer_limits",
    "buffer_sweep",
    "bufferbloat",
    "cause",
    "choose_message",
    "copy_path",
    "cork_messages",
    "cork_scenarios",
    "data_per_segment",
    "file_methods",
    "file_seconds",
    "forgotten_cork",
    "handshake",
    "header_segments",
    "headers",
    "in_flight",
    "ladder",
    "mtu_sweep",
    "path_mtu",
    "pipe_cpus",
    "pipe_rates",
    "quotes",
    "receive_buffers",
    "records",
    "segment_sizes",
    "sniffing_loss",
    "symptom",
    "tcp_vs_udp",
    "time_sequence",
    "timeline",
    "write_matrix",
    "zero_window",
]
