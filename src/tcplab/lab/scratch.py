"""Temporary folders of which nothing is left when their owner is killed."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from tcplab.errors import LabError

#: Its input ends with its owner, however that ends.
_KEEPER = 'folder=$(mktemp -d "$1/tcplab-XXXXXXXX") && echo "$folder" && cat && rm -rf "$folder"'


@contextmanager
def temporary_folder() -> Iterator[str]:
    """A new folder, until the end of the with statement or of this process, also by SIGKILL.

    Raises:
        LabError: none can be made.
    """
    with subprocess.Popen(
        ["sh", "-c", _KEEPER, "sh", parent := tempfile.gettempdir()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # a terminal's Ctrl-C is for its owner
    ) as keeper:
        assert keeper.stdout is not None
        if not (name := keeper.stdout.readline().rstrip("\n")):
            raise LabError(f"no temporary folder can be made in {parent}")
        yield name
