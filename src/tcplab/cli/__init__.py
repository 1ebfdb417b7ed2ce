"""The `tcplab` command, a thin front end to the package.

It exits with 2 after a usage error, 1 after a failure, and 130 after Ctrl-C. Each command except
`run` is a function whose signature and docstring define its command line (see declared.py). These
modules postpone heavy imports until a command is called.
"""

from collections.abc import Sequence

from tcplab.cli.loading import loading

__all__ = ["main"]
__dir__ = __all__.copy


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    with loading():
        from tcplab.cli import front

    return front.run(argv)
