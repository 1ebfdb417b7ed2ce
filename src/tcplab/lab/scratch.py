"""Create temporary folders that disappear even if the process that uses them is killed."""

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from tcplab.errors import LabError

#: The shell removes the folder when its standard input closes, even if a SIGKILL closed it.
_KEEPER = """mkdir -p "$1" && folder=$(mktemp -d "$1/tcplab-XXXXXXXX") && echo "$folder" && cat &&
    rm -rf "$folder"
"""


@contextmanager
def temporary_folder(parent: str = "") -> Iterator[str]:
    """Create a folder that lasts until the with statement or this process ends, even by SIGKILL."""
    parent = parent or tempfile.gettempdir()
    with subprocess.Popen(
        ["sh", "-c", _KEEPER, "sh", parent],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C in a terminal is meant for the owner only
    ) as keeper:
        assert keeper.stdout is not None
        if not (name := keeper.stdout.readline().rstrip("\n")):
            raise LabError(f"no temporary folder can be made in {parent}")
        yield name
