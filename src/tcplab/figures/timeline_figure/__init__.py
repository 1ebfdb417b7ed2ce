"""The timeline figure: what is in view, and how it is painted."""

from tcplab.figures.timeline_figure.paint import timeline
from tcplab.figures.timeline_figure.view import choose_message

__all__ = ["choose_message", "timeline"]
