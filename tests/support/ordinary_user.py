"""Commands run as an ordinary user, even if root runs the tests."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Protocol

import pytest
from tests.support.paths import ROOT

NOBODY: Final = 65534


class Run(Protocol):
    """A function that runs a command to its end and returns its status and its output as text."""

    def __call__(
        self, command: Sequence[str], timeout_s: float = 60
    ) -> subprocess.CompletedProcess[str]: ...


@pytest.fixture(scope="session")
def as_ordinary_user() -> Iterator[Run]:
    """Return a function that runs a command without privileges, with .venv first on the PATH.

    Root becomes the user `nobody`. If other users may not enter the directory that the course is
    in, such as root's home, a separate mount namespace gives them access.
    """
    with tempfile.TemporaryDirectory(prefix="tcplab-home-") as home:
        environment = os.environ | {
            "HOME": home,
            "TMPDIR": home,
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            # An ordinary user cannot write byte code next to root's sources.
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        prefix: list[str] = []
        if os.getuid() == 0:
            os.chown(home, NOBODY, NOBODY)
            prefix = [*let_in(ROOT, Path(sys.base_prefix)), *_become_nobody()]

        def run(command: Sequence[str], timeout_s: float = 60) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [*prefix, *command],
                env=environment,
                cwd=home,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=timeout_s,
                check=False,
            )

        trial = run(["python", "-c", ""])
        if trial.returncode:
            pytest.skip(f"no ordinary user can run .venv here: {trial.stderr.strip()}")
        yield run


def _become_nobody() -> list[str]:
    user = str(NOBODY)
    return ["setpriv", "--reuid", user, "--regid", user, "--clear-groups", "--bounding-set=-all"]


def let_in(*directories: Path) -> list[str]:
    """Return a command prefix that opens these directories to all users, or [] if they are open."""
    hidden = {path: closed for path in directories if (closed := _closed_ancestor(path))}
    if not hidden:
        return []
    # An open descriptor leads to what was there before the tmpfs, unless mount resolves its path.
    steps = [f"exec {fd}<'{directory}'" for fd, directory in enumerate(hidden, start=3)]
    steps += [f"mount -t tmpfs -o mode=755 tmpfs '{closed}'" for closed in set(hidden.values())]
    for fd, directory in enumerate(hidden, start=3):
        # Bind the subdirectories, because the directory itself may be the closed one.
        for child in (entry for entry in directory.iterdir() if entry.is_dir()):
            steps.append(f"mkdir -p '{child}'")
            source = f"/proc/self/fd/{fd}/{child.name}"
            steps.append(f"mount --no-canonicalize --bind '{source}' '{child}'")
        steps.append(f"exec {fd}<&-")
    script = "\n".join(["set -e", *steps, 'exec "$@"'])
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh"]


def _closed_ancestor(directory: Path) -> Path | None:
    """Return the outermost directory of the path that other users may not enter."""
    for ancestor in [*reversed(directory.parents), directory]:
        if not ancestor.stat().st_mode & 0o001:
            return ancestor
    return None
