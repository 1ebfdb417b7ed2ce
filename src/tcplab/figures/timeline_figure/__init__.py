"""Draw the timeline figure. The module `view` decides what it shows, and `paint` draws it."""

from tcplab.figures.timeline_figure.paint import timeline
from tcplab.figures.timeline_figure.view import choose_message

__all__ = ["choose_message", "timeline"]
