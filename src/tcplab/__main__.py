"""Start the `tcplab` command; Ctrl-C prints one line, even while the package loads."""

import sys

from tcplab import cli
from tcplab.cli.loading import say_interrupted


def main() -> int:
    """Run the command line; return the exit status."""
    try:
        return cli.main()
    except KeyboardInterrupt:
        return say_interrupted()


if __name__ == "__main__":
    sys.exit(main())
