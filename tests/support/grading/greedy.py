"""Programs that exceed the sandbox's limits in ways that its watch might miss.

    python greedy.py NAME...

This command runs the named programs in a sandbox and prints as JSON how each ended. Programs that
need no namespaces also run on a host of a laboratory. A test runs the command as an ordinary user.
"""

import json
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tcplab.grading import sandbox
from tcplab.grading.sandbox import Limits, Outcome
from tcplab.lab import Lab

MIB: Final = 1 << 20
LIMITS: Final = Limits(
    wall_s=20, cpu_s=20, memory_bytes=192 * MIB, processes=12, file_bytes=16 * MIB
)


@dataclass(frozen=True)
class Greed:
    """A Python program, and how it must end."""

    source: str
    stopped_by: str | None = None
    output: str = ""
    with_namespaces: bool = False


#: Code that calls the C library by name, and returns "refused" if the kernel denies the call.
LIBC: Final = """
import ctypes, errno, os, time
libc = ctypes.CDLL(None, use_errno=True)
def attempt(name, *arguments):
    if getattr(libc, name)(*arguments) >= 0:
        return "DONE"
    refused = ctypes.get_errno() in (errno.EPERM, errno.ENOSYS)
    return "refused" if refused else os.strerror(ctypes.get_errno())
"""
#: Not from tests.support, because an ordinary user runs this file as a program.
DATA: Final = Path(__file__).parents[2] / "data"
GREEDY: Final = {
    name: Greed(**listed)
    for name, listed in tomllib.loads((DATA / "greedy.toml").read_text()).items()
}


def run(name: str, lab: Lab | None = None) -> Outcome:
    """Run a greedy program alone, or on the client of a laboratory."""
    greed = GREEDY[name]
    # The programs import only the standard library, because .venv may be invisible in a laboratory.
    return sandbox.run(
        [sys.executable, "-c", LIBC + greed.source],
        limits=LIMITS,
        host=lab.client if lab else None,
        lab_allowed=greed.with_namespaces,
    )


def ended(outcome: Outcome) -> tuple[str | None, str]:
    """Return how a program ended as plain data, for a test to compare."""
    return outcome.stopped_by, outcome.output.decode()


def main() -> None:
    outcomes = {}
    with Lab() as lab:
        for name in sys.argv[1:]:
            outcomes[f"{name} alone"] = ended(run(name))
            if not GREEDY[name].with_namespaces:
                outcomes[f"{name} in a laboratory"] = ended(run(name, lab))
    print(json.dumps(outcomes))


if __name__ == "__main__":
    main()
