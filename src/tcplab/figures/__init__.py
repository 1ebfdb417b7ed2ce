"""Draw data. Each function returns a :class:`Picture` with its finding and the numbers as a table.

::

    picture = figures.timeline(result["default"].timeline())
    picture          # in a notebook: the figure with its alternative text
    picture.table    # the same numbers
    picture.save("timeline.svg")

A figure is drawn for a column of at least 640 pixels and scrolls in a narrower one. The font size
of a drawing is at least 12 pixels, and no information depends on colour alone. In a page, a figure
takes the page's font and theme (see page.py). A result without data to draw raises ValueError.
This package exports the functions in each module's ``__all__``.
"""

# ruff: noqa: F403

from tcplab.figures.bottleneck import *
from tcplab.figures.cork import *
from tcplab.figures.curves import *
from tcplab.figures.diagnosis import *
from tcplab.figures.generic import *
from tcplab.figures.picture import Picture as Picture
from tcplab.figures.pipes import *
from tcplab.figures.the_lab import *
from tcplab.figures.timeline_figure import *
from tcplab.machine import require_modules

require_modules("matplotlib")
