"""Figures: data in, a :class:`Picture` out, which holds a matplotlib Figure, words and a table.

::

    picture = figures.timeline(result["default"].timeline())
    picture          # in a notebook: the figure with its alternative text
    picture.table    # the same numbers
    picture.save("timeline.svg")

Made for a projector of 1280 x 720 and for any colour vision: nothing is told by colour alone. A
result without anything to draw raises ValueError. Each module names its figures in its ``__all__``,
and they are all here.
"""

# ruff: noqa: F403

from tcplab.figures.buffers import *
from tcplab.figures.cork import *
from tcplab.figures.curves import *
from tcplab.figures.diagnosis import *
from tcplab.figures.mtu import *
from tcplab.figures.pipes import *
from tcplab.figures.sendfile import *
from tcplab.figures.sequence_diagram import *
from tcplab.figures.small_writes import *
from tcplab.figures.style import Picture as Picture
from tcplab.figures.tcp_vs_udp import *
from tcplab.figures.the_lab import *
from tcplab.figures.timeline_figure import *
