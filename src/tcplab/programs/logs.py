"""Read logs that the C programs write with --log: the application's calls and their times."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import NamedTuple

File = str | PathLike[str]


class Event(NamedTuple):
    """One line of a program's --log: a call of the application and its time."""

    time_ns: int  #: CLOCK_REALTIME, the clock of packet captures
    #: Logged at the start of the call: "write", "more" (with MSG_MORE), "request", "quote" of the
    #: server, "reply" of the server, "cork", "uncork". Logged at its end: "read", "reply",
    #: "acknowledged", "request" of the server, "quote".
    name: str
    bytes: int


def read_log(path: File) -> list[Event]:
    """Read the events in a file that a program wrote with --log."""
    return events_in(Path(path).read_text())


def events_in(log: str) -> list[Event]:
    """Parse the events in the text of such a file."""
    rows = (line.split() for line in log.splitlines() if not line.startswith("#"))
    return [Event(int(time_ns), name, int(size)) for time_ns, name, size in rows]
