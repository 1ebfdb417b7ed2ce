"""Define the package's errors. A message says what is wrong and, where possible, how to fix it."""


class TcplabError(Exception):
    """Base class of the package's errors. A notebook shows the message without a traceback."""

    def _render_traceback_(self) -> list[str]:  # called by IPython for a short traceback
        return [str(self)]


class ParameterError(TcplabError, ValueError):
    """A value is out of range or unknown. The message names the value and what is allowed."""


class LabError(TcplabError):
    """A laboratory, or a program that ran in it, failed."""


class MissingError(LabError):
    """A program or another requirement is missing on this machine. The message explains the fix."""


class CaptureError(TcplabError):
    """A capture could not be made or read."""


class SandboxError(TcplabError):
    """A sandbox could not be made, or its command failed."""


class StepError(TcplabError):
    """A grading step gave no result. The message is the reason."""
