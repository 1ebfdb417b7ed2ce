"""Run one measurement at a time on a machine that many learners share.

If ``TCPLAB_INSTRUMENT`` names a directory, each experiment holds a lock on it (flock(2)) while it
measures. The kernel releases the lock of a killed process, and grants it in the order of requests.
The directory belongs to the administrator; see deploy/jupyterhub.
"""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tcplab.errors import LabError

_mine = threading.local()


@contextmanager
def exclusive(waiting: Callable[[], object]) -> Iterator[None]:
    """Hold the machine's lock until the with statement ends; LabError if it cannot be opened.

    Do nothing without TCPLAB_INSTRUMENT, or if this thread already holds the lock. Call `waiting`
    once if the lock is busy.
    """
    import fcntl

    directory = os.environ.get("TCPLAB_INSTRUMENT")
    if not directory or getattr(_mine, "holds", False):
        yield
        return
    try:
        lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise LabError(
            f"TCPLAB_INSTRUMENT={directory} cannot be used ({error.strerror}); the administrator"
            f" can create it with: install -d -m 755 {directory}"
        ) from None
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(lock, fcntl.LOCK_EX)
        _mine.holds = True
        try:
            yield
        finally:
            _mine.holds = False
    finally:
        os.close(lock)
