"""Read the logs that the C programs write with --log, which list the application's calls."""

from os import PathLike
from pathlib import Path
from typing import NamedTuple

File = str | PathLike[str]


class Event(NamedTuple):
    """One line of a program's --log, for one call of the application."""

    time_ns: int  #: CLOCK_REALTIME, the clock of packet captures
    #: The name of the call. The start is logged for "write", "more" (with MSG_MORE), "cork",
    #: "uncork", the client's "request", and the server's "quote" and "reply". The end is logged for
    #: "read", "acknowledged", the client's "quote" and "reply", and the server's "request".
    name: str
    bytes: int


def read_log(path: File) -> list[Event]:
    """Read the events in a file that a program wrote with --log."""
    return events_in(Path(path).read_text())


def events_in(log: str) -> list[Event]:
    """Parse the text of a file that a program wrote with --log."""
    rows = (line.split() for line in log.splitlines() if not line.startswith("#"))
    events = [Event(int(time_ns), name, int(size)) for time_ns, name, size in rows]
    if any(number >> 63 not in (0, -1) for event in events for number in event[::2]):
        raise ValueError("a number has more than 64 bits")
    return events
