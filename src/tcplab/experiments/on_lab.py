"""Run a function that a lesson defines on two hosts, or show its recorded result."""

import hashlib
import inspect
import os
import textwrap
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from tcplab.errors import LabError, MissingError
from tcplab.experiments import recordings
from tcplab.experiments.exclusive import exclusive
from tcplab.experiments.mode import announce, announce_waiting, recorded, why_not_live
from tcplab.experiments.provenance import disturbance, provenance, was_busy
from tcplab.lab import Lab

T = TypeVar("T")

_NAME: Final = "on-lab"  # experiment name under which results are recorded


@dataclass(frozen=True, slots=True)
class Lines:
    """The value that a lesson's function returned, with its provenance."""

    value: Any
    provenance: Mapping[str, Any]


def on_lab(lines: Callable[[Any], T], **parameters: Any) -> T:
    """Call a function with a new laboratory, Lab(**parameters), and return its result::

        def greeting(lab):
            with lab.client.sniff() as live:
                small_writes(lab, messages=1)
            return live

        live = on_lab(greeting, rtt_ms=20)

    If the mode does not allow this, or a program is missing, the function's recorded result is
    returned, and a notebook says so. Without a recording of the same code, LabError is raised.

    The function must return plain data, Sniffed, or scapy packets. A busy machine is announced.
    """
    arguments = {"lines": lines.__name__, **parameters}
    if why := why_not_live():
        return _as_recorded(lines, arguments, why)
    try:
        with exclusive(announce_waiting), Lab(**parameters) as lab, disturbance(lab) as found:
            value = lines(lab)
            if directory := os.environ.get("TCPLAB_RECORD"):
                origin = provenance(lab, experiment=_NAME, source=_digest(lines))
                recordings.save(directory, _NAME, arguments, Lines(value, origin))
    except MissingError as error:
        return _as_recorded(lines, arguments, str(error))
    if was_busy(found):
        announce("*The machine was busy, so do not rely on the times and groups below.*")
    return value


def _as_recorded(lines: Callable[[Any], T], arguments: Mapping[str, Any], why: str) -> T:
    source = ""
    with suppress(recordings.MissingRecordingError):
        source = recordings.load(_NAME, arguments).provenance["source"]
    if source != _digest(lines):
        raise LabError(
            f"{why}, and there is no recording of {lines.__name__}() with these lines; they"
            " run where a laboratory can be made (tcplab doctor lists what is missing)"
        )
    value: T = recorded(_NAME, arguments, why).value
    return value


def _digest(lines: Callable[[Any], Any]) -> str:
    source = textwrap.dedent(inspect.getsource(lines)).strip()
    return hashlib.sha256(source.encode()).hexdigest()[:16]
