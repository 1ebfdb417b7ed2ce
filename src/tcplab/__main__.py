"""The `tcplab` command from its first moment: Ctrl-C is one line, also while the rest loads."""

from __future__ import annotations

import os
import signal
import sys


def main() -> int:
    """Runs the command line; returns the exit status."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        # Not by an exception: an import may catch it, or lose it with a traceback.
        signal.signal(signal.SIGINT, _end)
    from tcplab.cli import main as run

    try:
        signal.signal(signal.SIGINT, before)
        return run()
    except KeyboardInterrupt:
        return _say_interrupted()


def _end(_number: int, _frame: object) -> None:
    os._exit(_say_interrupted())


def _say_interrupted() -> int:
    print("tcplab: interrupted", file=sys.stderr, flush=True)
    return 130


if __name__ == "__main__":
    sys.exit(main())
