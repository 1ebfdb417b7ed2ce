"""The `tcplab` command: a thin front of the package. Exit status 2 for a mistake, 1 for a
failure.

Each command is a function, whose signature and docstring are its command line (see declared.py).
These modules import what is heavy only when a command is called.
"""

from __future__ import annotations

from collections.abc import Sequence

from tcplab.cli.loading import loading


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    with loading():
        from tcplab.cli import front

    return front.run(argv)
