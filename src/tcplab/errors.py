"""The errors that the package raises. Each message is one line and says how to mend it."""

from __future__ import annotations


class TcplabError(Exception):
    """Base of all errors of the package; a notebook shows the message without a traceback."""

    def _render_traceback_(self) -> list[str]:  # IPython asks for it
        return [str(self)]


class ParameterError(TcplabError, ValueError):
    """A value that is out of range or unknown; the message names it, its limits and the fix."""


class LabError(TcplabError):
    """A failure of a laboratory, or of a program that ran in it."""


class MissingError(LabError):
    """Something that this machine lacks, such as a program; the message says how to get it."""


class CaptureError(TcplabError):
    """A capture that could not be made or read."""


class SandboxError(TcplabError):
    """A sandbox that could not be made, or that failed its command."""


class StepError(TcplabError):
    """A step of the grading that gave no result; the message is the reason."""
