"""Choose the mode of a run, which is live, loopback or recorded.

Live means the rootless laboratory. ``TCPLAB_MODE`` selects a mode. Without it, the mode is live if
a laboratory can be created here, loopback if it cannot, and recorded if the C programs are not
built. An experiment that plain loopback cannot run is shown from a recording, and labelled as such.
"""

import functools
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, Literal, cast, get_args

from tcplab.checks import choice
from tcplab.errors import LabError
from tcplab.experiments import recordings
from tcplab.lab import Host, Lab, Loopback, program_path, why_no_lab

Mode = Literal["live", "loopback", "recorded"]

#: The reason why an experiment shows a recording in loopback mode.
NOT_ON_LOOPBACK: Final = "plain loopback cannot do this: no link to set, no packets to record"


def mode() -> Mode:
    """Return the mode that TCPLAB_MODE names, or the best one that this machine allows."""
    if asked := os.environ.get("TCPLAB_MODE", ""):
        return cast(Mode, choice("TCPLAB_MODE", asked, get_args(Mode)))
    if why_no_programs():
        return "recorded"
    return "live" if _why_no_lab() is None else "loopback"


_why_no_lab = functools.cache(why_no_lab)


def why_no_programs() -> str:
    """Return the reason why no program of the course can run here, or "" if they are built."""
    try:
        program_path("lab_init")
    except LabError as error:
        return str(error)
    return ""


def why_not_live(*, on_loopback: bool = False) -> str:
    """Return the reason why this mode shows a recording, or "" if it measures."""
    now = mode()
    if now == "recorded":
        return "TCPLAB_MODE=recorded" if os.environ.get("TCPLAB_MODE") else why_no_programs()
    return NOT_ON_LOOPBACK if now == "loopback" and not on_loopback else ""


class LabLoopback(Loopback):
    """The loopback interface of a laboratory's client. Closing it does not close the laboratory.

    It is the same kernel code as 127.0.0.1, but its ports and settings are separate.
    """

    def __init__(self, lab: Lab) -> None:
        super().__init__()
        self.client = Host(lab, "client", "127.0.0.1", "lo")
        self.server = self.client
        self.mtu = 65536  # the kernel's default
        self.congestion = lab.congestion


@contextmanager
def open_loopback() -> Iterator[Loopback]:
    """Open the loopback interface of a new laboratory, or plain loopback in loopback mode."""
    if mode() == "loopback":
        with Loopback() as network:
            yield network
    else:
        with Lab() as lab, LabLoopback(lab) as loopback:
            yield loopback


def recorded(name: str, arguments: Mapping[str, Any], why: str) -> Any:
    """Return a call's recorded result, and announce it in a notebook; LabError if none exists."""
    try:
        result = recordings.load(name, arguments)
    except recordings.MissingRecordingError as error:
        raise LabError(f"{why}, and there is {error}") from None
    origin = result.provenance
    mark = {"measured_at": origin["measured_at"], "kernel": origin["kernel"], "why": why}
    result = replace(result, provenance={**origin, "recorded": mark})
    announce(f"**● {recorded_note(result.provenance)}**")
    return result


def recorded_note(provenance: Mapping[str, Any]) -> str:
    """Return a note that the result is a recording, or "" if it was measured now."""
    origin = provenance.get("recorded")
    if not origin:
        return ""
    return (
        f"Recorded on {origin['measured_at'][:10]}, Linux {origin['kernel']}, not measured now:"
        f" {origin['why']}."
    )


def announce(markdown: str) -> None:
    """Show a text in a notebook. Outside a notebook, do nothing."""
    if "IPython" not in sys.modules:
        return
    from IPython.core.getipython import get_ipython
    from IPython.display import Markdown, display

    if get_ipython() is not None:
        display(Markdown(markdown))  # type: ignore[no-untyped-call]


def announce_waiting() -> None:
    """Show in a notebook that another measurement uses the machine."""
    announce("**Waiting for another measurement on this machine.**")
