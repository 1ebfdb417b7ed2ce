"""Draw data. Each function returns a :class:`Picture` with its finding and the numbers as a table.

::

    picture = figures.timeline(result["default"].timeline())
    picture          # in a notebook: the figure with its alternative text
    picture.table    # the same numbers
    picture.save("timeline.svg")

A figure is drawn for a column of at least 640 pixels and scrolls in a narrower one. The font size
of a drawing is at least 12 pixels, and no information depends on colour alone. In a page, a figure
takes the page's font and theme (see page.py). A result without data to draw raises ValueError.
"""

from tcplab.figures.bottleneck import bottleneck
from tcplab.figures.curves import in_flight
from tcplab.figures.diagnosis import cause, symptom
from tcplab.figures.generic import draw, draw_bars, draw_curves
from tcplab.figures.picture import Picture
from tcplab.figures.pipes import copy_path
from tcplab.figures.the_lab import handshake
from tcplab.figures.timeline_figure.paint import timeline
from tcplab.machine import require_modules

__all__ = [
    "Picture",
    "bottleneck",
    "cause",
    "copy_path",
    "draw",
    "draw_bars",
    "draw_curves",
    "handshake",
    "in_flight",
    "symptom",
    "timeline",
]
__dir__ = __all__.copy


require_modules("matplotlib")
