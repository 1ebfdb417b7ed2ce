"""Create the large files that experiments send, on a disk if possible, and remove them."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tcplab.errors import LabError
from tcplab.lab import Loopback
from tcplab.programs import page_cache

#: Message for a file that is always in the page cache.
NO_DISK: Final = "no disk: the file is on a tmpfs, which is always in memory; set TMPDIR"

_BLOCK_BYTES: Final = 1 << 20
# The default temporary directory is often a tmpfs, whose files are always in memory. These
# directories are tried instead.
_ELSEWHERE: Final = ("/var/tmp", ".")


@contextmanager
def file_of(size_bytes: int) -> Iterator[Path]:
    """Yield a file of random bytes, on a disk if possible. It is removed even after SIGKILL."""
    directory = _choose_directory()
    if (free := shutil.disk_usage(directory).free) < size_bytes:
        raise LabError(
            f"a file of {size_bytes / 1e6:.0f} MB needs more than the {free / 1e6:.0f} MB that are"
            f" free in {directory}; choose a smaller size, or set TMPDIR"
        )
    handle, name = tempfile.mkstemp(prefix="tcplab-", dir=directory)
    os.close(handle)
    path = Path(name).absolute()
    with removed_on_exit(path):
        with path.open("wb") as file:
            block = os.urandom(_BLOCK_BYTES)
            for start in range(0, size_bytes, _BLOCK_BYTES):
                file.write(block[: size_bytes - start])
        yield path


def can_be_cold(path: Path) -> bool:
    """Try to drop a file from the page cache. Return whether that worked, as it does on a disk."""
    with Loopback() as machine:
        try:
            page_cache(machine, path, "cold")
        except LabError:
            return False
        return True


def _choose_directory() -> str:
    usual = tempfile.gettempdir()
    for directory in (usual, *_ELSEWHERE):
        try:
            with tempfile.NamedTemporaryFile(prefix="tcplab-", dir=directory) as probe:
                probe.write(bytes(65_536))
                probe.flush()
                if can_be_cold(Path(probe.name)):
                    return directory
        except OSError:
            continue
    return usual


@contextmanager
def removed_on_exit(path: Path) -> Iterator[None]:
    """Remove a file or an empty directory when the block ends or this process is killed."""
    # The shell's input ends when this process closes it or dies. Processes in a control group take
    # a moment to end, and its directory cannot be removed before that.
    remove = 'rm -f -- "$1" || rmdir -- "$1"'
    script = f"read -r _; for _ in 1 2 3 4 5; do {{ {remove}; }} && break; sleep 1; done"
    remover = subprocess.Popen(
        ["sh", "-c", script, "sh", str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield
    finally:
        remover.communicate()
