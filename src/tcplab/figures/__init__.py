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

from tcplab.figures.bottleneck import bottleneck as bottleneck
from tcplab.figures.curves import in_flight as in_flight
from tcplab.figures.diagnosis import cause as cause
from tcplab.figures.diagnosis import symptom as symptom
from tcplab.figures.generic import draw as draw
from tcplab.figures.generic import draw_bars as draw_bars
from tcplab.figures.generic import draw_curves as draw_curves
from tcplab.figures.picture import Picture as Picture
from tcplab.figures.pipes import copy_path as copy_path
from tcplab.figures.the_lab import handshake as handshake
from tcplab.figures.timeline_figure.paint import timeline as timeline
from tcplab.machine import require_modules as _require_modules

_require_modules("matplotlib")
