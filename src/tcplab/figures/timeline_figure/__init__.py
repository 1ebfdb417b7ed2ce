"""The timeline figure, with a module for the view and one for painting."""

from tcplab.figures.timeline_figure.paint import timeline
from tcplab.figures.timeline_figure.view import choose_message

__all__ = ["choose_message", "timeline"]
