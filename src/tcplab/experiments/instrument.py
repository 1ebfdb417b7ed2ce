"""One measurement at a time on a machine that many learners share.

Twenty learners on two cores disturb each other's times. Where ``TCPLAB_INSTRUMENT`` names a
directory, experiments take turns: each waits until all who came before it are done, and says so.
The queue is first come, first served. It is made of locked files, one a learner, so the kernel
itself removes from it who was killed, and it works between users who may not signal each other.

The directory belongs to the machine's administrator and is open to all (mode 1777); see
deploy/jupyterhub.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tcplab.lab import LabError

__all__ = ["turn"]

_mine = threading.local()


@contextmanager
def turn(waiting: Callable[[int], object] = bool) -> Iterator[None]:
    """Waits for the instrument, and holds it within the with statement.

    Without TCPLAB_INSTRUMENT there is nothing to wait for. An experiment within an experiment has
    the instrument already.

    Args:
        waiting: called with the number of those who are before us, whenever that has changed.

    Raises:
        LabError: the directory cannot be used.
    """
    directory = os.environ.get("TCPLAB_INSTRUMENT")
    if not directory or getattr(_mine, "holds", False):
        yield
        return
    ticket, file = _take_ticket(Path(directory))
    try:
        _await_those_before(ticket, waiting)
        _mine.holds = True
        try:
            yield
        finally:
            _mine.holds = False
    finally:
        with suppress(OSError):
            ticket.unlink()
        os.close(file)


def _take_ticket(directory: Path) -> tuple[Path, int]:
    """A locked file whose name sorts after those of all who came before."""
    try:
        guard = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # Number and file come into being together, or two could each think to be first.
            fcntl.flock(guard, fcntl.LOCK_EX)
            ticket = directory / f"{time.monotonic_ns():020d}-{os.getpid()}-{threading.get_ident()}"
            flags = os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
            file = os.open(ticket, flags, 0o644)
            os.fchmod(file, 0o644)  # whatever the umask: the others have to be able to wait for it
            fcntl.flock(file, fcntl.LOCK_EX)
        finally:
            os.close(guard)
    except OSError as error:
        raise LabError(
            f"TCPLAB_INSTRUMENT={directory} cannot be used ({error.strerror}); the administrator"
            f" makes it with: install -d -m 1777 {directory}"
        ) from None
    return ticket, file


def _await_those_before(ticket: Path, waiting: Callable[[int], object]) -> None:
    while before := sorted(each for each in ticket.parent.iterdir() if each.name < ticket.name):
        alive = [each for each in before if _is_held(each)]
        if not alive:
            return
        waiting(len(alive))
        _await(alive[0])


def _is_held(ticket: Path) -> bool:
    """Whether the one who took this ticket is still there; the tickets of the dead are unlocked."""
    try:
        file = os.open(ticket, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:  # done meanwhile
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    with suppress(OSError):
        ticket.unlink()
    return False


def _await(ticket: Path) -> None:
    with suppress(OSError):
        file = os.open(ticket, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            fcntl.flock(file, fcntl.LOCK_SH)
        finally:
            os.close(file)
