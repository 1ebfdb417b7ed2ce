"""Logs that the C programs write with --log: what the application did, and when."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import NamedTuple

File = str | PathLike[str]


class Event(NamedTuple):
    """One line of a program's --log: what the application did, and when."""

    time_ns: int  #: CLOCK_REALTIME, the clock of packet captures
    #: As it starts: "write", "more" (with MSG_MORE), "request", "quote" of the server, "reply" of
    #: the server, "cork", "uncork". As it ends: "read", "reply", "acknowledged", "request" of the
    #: server, "quote".
    name: str
    bytes: int


def read_log(path: File) -> list[Event]:
    """The events of a file that a program wrote with --log, in order."""
    return events_in(Path(path).read_text())


def events_in(log: str) -> list[Event]:
    """The events of such a file's text, in order."""
    rows = (line.split() for line in log.splitlines() if not line.startswith("#"))
    return [Event(int(time_ns), name, int(size)) for time_ns, name, size in rows]
