"""Figures: data in, a :class:`Picture` out, a matplotlib Figure, its finding and a table.

::

    picture = figures.timeline(result["default"].timeline())
    picture          # in a notebook: the figure with its alternative text
    picture.table    # the same numbers
    picture.save("timeline.svg")

Each is drawn once, for a column of 640 pixels or more (in a narrower one it scrolls), with type of
at least 12 pixels and for any colour vision: nothing is told by colour alone. In a page a figure
takes the page's type and theme (see page.py). A result without anything to draw raises ValueError.
Each module names its figures in its ``__all__``, and they are all here.
"""

# ruff: noqa: F403

from tcplab.figures.bottleneck import *
from tcplab.figures.buffers import *
from tcplab.figures.congestion_window import *
from tcplab.figures.cork import *
from tcplab.figures.curves import *
from tcplab.figures.diagnosis import *
from tcplab.figures.generic import *
from tcplab.figures.mtu import *
from tcplab.figures.picture import Picture as Picture
from tcplab.figures.pipes import *
from tcplab.figures.queues import *
from tcplab.figures.real_programs import *
from tcplab.figures.sendfile import *
from tcplab.figures.sequence_diagram import *
from tcplab.figures.small_writes import *
from tcplab.figures.tcp_vs_udp import *
from tcplab.figures.the_lab import *
from tcplab.figures.timeline_figure import *
