"""Figures: data in, a :class:`Picture` out, which holds a matplotlib Figure, words and a table.

::

    picture = figures.timeline(result["default"].timeline())
    picture          # in a notebook: the figure with its alternative text
    picture.table    # the same numbers
    picture.save("timeline.svg")

Made for a projector of 1280 x 720 and for any colour vision: nothing is told by colour alone.
"""

from tcplab.figures.curves import in_flight, time_sequence
from tcplab.figures.ladder import ladder
from tcplab.figures.lanes import choose_message, timeline
from tcplab.figures.style import Picture

__all__ = ["Picture", "choose_message", "in_flight", "ladder", "time_sequence", "timeline"]
