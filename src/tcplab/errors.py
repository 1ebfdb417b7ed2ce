"""Define the package's errors. Each message is one line with the way to fix the problem."""

from __future__ import annotations


class TcplabError(Exception):
    """Base of all errors of the package. A notebook shows the message without a traceback."""

    def _render_traceback_(self) -> list[str]:  # IPython calls this
        return [str(self)]


class ParameterError(TcplabError, ValueError):
    """A value that is out of range or unknown. The message names it, its limits and the fix."""


class LabError(TcplabError):
    """A failure of a laboratory, or of a program that ran in it."""


class MissingError(LabError):
    """A program or another requirement missing on this machine; the message explains the fix."""


class CaptureError(TcplabError):
    """A capture that could not be made or read."""


class SandboxError(TcplabError):
    """A sandbox that could not be made, or that failed its command."""


class StepError(TcplabError):
    """A grading step that gave no result. The message is the reason."""
