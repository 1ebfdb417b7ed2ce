"""One measurement at a time on a machine that many learners share.

Twenty learners on two cores disturb each other's times. Where ``TCPLAB_INSTRUMENT`` names a
directory, experiments take turns: each waits until all who came before it are done, and says so.
The queue is first come, first served. It is made of locked files, one a learner, so the kernel
itself removes from it who was killed, and it works between users who may not signal each other.

A machine of many cores has room for several: ``TCPLAB_INSTRUMENT_PLACES`` says how many may measure
at a time. Each of them then has processors of its own, an equal share of all.

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
from typing import Final

from tcplab.errors import LabError

__all__ = ["turn"]

#: How often who waits for one of several places looks whether there is one.
LOOK_S: Final = 0.1

_mine = threading.local()


@contextmanager
def turn(waiting: Callable[[int], object] = bool) -> Iterator[None]:
    """Waits for the instrument, and holds it within the with statement.

    Without TCPLAB_INSTRUMENT there is nothing to wait for. An experiment within an experiment has
    the instrument already.

    Args:
        waiting: called with the number of those who are before us, whenever that has changed.

    Raises:
        LabError: the directory cannot be used, or TCPLAB_INSTRUMENT_PLACES is no number of places.
    """
    directory = os.environ.get("TCPLAB_INSTRUMENT")
    if not directory or getattr(_mine, "holds", False):
        yield
        return
    places = _places()
    ticket, file = _take_ticket(Path(directory))
    try:
        _await_those_before(ticket, places, waiting)
        _mine.holds = True
        try:
            with _own_processors(Path(directory), places):
                yield
        finally:
            _mine.holds = False
    finally:
        with suppress(OSError):
            ticket.unlink()
        os.close(file)


def _places() -> int:
    words = os.environ.get("TCPLAB_INSTRUMENT_PLACES", "1")
    most = len(os.sched_getaffinity(0))
    if not words.isdecimal() or not 1 <= int(words) <= most:
        raise LabError(
            f"TCPLAB_INSTRUMENT_PLACES={words} must be a number from 1 to {most}, the processors"
            " that there are; about a quarter of them is right"
        )
    return int(words)


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


def _await_those_before(ticket: Path, places: int, waiting: Callable[[int], object]) -> None:
    told = 0
    while before := sorted(each for each in ticket.parent.iterdir() if each.name < ticket.name):
        alive = [each for each in before if _is_held(each)]
        if len(alive) < places:
            return
        if told != (told := len(alive) - places + 1):
            waiting(told)
        if places == 1:
            _await(alive[0])
        else:
            time.sleep(LOOK_S)  # whichever of those who work ends first


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


@contextmanager
def _own_processors(directory: Path, places: int) -> Iterator[None]:
    """Within the with statement this thread, and what it starts, has the processors of a place."""
    if places == 1:
        yield
        return
    cpus = sorted(os.sched_getaffinity(0))
    share = len(cpus) // places
    number, file = _take_place(directory, places)
    try:
        os.sched_setaffinity(0, cpus[number * share : (number + 1) * share])
        yield
    finally:
        os.sched_setaffinity(0, cpus)
        os.close(file)


def _take_place(directory: Path, places: int) -> tuple[int, int]:
    """A place that nobody has, and the locked file that stands for it."""
    while True:
        for number in range(places):
            file = _open_shared(directory / f"place-{number}")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(file)
            else:
                return number, file
        time.sleep(LOOK_S)  # who had it was killed, and the kernel is not done with them


def _open_shared(path: Path) -> int:
    """A file that whoever came first has made; it stays (fs.protected_regular forbids O_CREAT)."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW
    while True:
        with suppress(FileNotFoundError):
            return os.open(path, flags)
        with suppress(FileExistsError):
            file = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o644)
            os.fchmod(file, 0o644)
            return file
