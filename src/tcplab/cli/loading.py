"""Report Ctrl-C in one line, even while modules are being imported."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def loading() -> Iterator[None]:
    """End the process at Ctrl-C while modules are being imported.

    An exception is not enough, since an import may catch it or print a traceback and lose it.
    """
    before = signal.getsignal(signal.SIGINT)
    in_main = threading.current_thread() is threading.main_thread()
    if before is not signal.default_int_handler or not in_main:
        yield
        return
    signal.signal(signal.SIGINT, lambda *_: os._exit(say_interrupted()))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def say_interrupted() -> int:
    """Report that Ctrl-C ended the command; return the exit status."""
    print("tcplab: interrupted", file=sys.stderr, flush=True)
    return 130
