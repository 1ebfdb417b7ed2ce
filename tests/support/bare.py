"""Provide a PATH like that of a bare machine, without programs from optional packages."""

import os
import sys
from pathlib import Path
from typing import Final

from tests.support.needs import PACKAGES

#: Programs in PACKAGES that setting up and testing the course requires in any case.
INSTALLED: Final = {"cc", "dd", "git"}


def bare_path(folder: Path) -> str:
    """Return a PATH of .venv's programs, then links in `folder` to all but the optional programs.

    machine.find also looks in /usr/sbin, so it still finds optional servers there.
    """
    own = Path(sys.executable).parent
    for directory in os.get_exec_path():
        readable = os.access(directory, os.R_OK | os.X_OK) and Path(directory).is_dir()
        if Path(directory) == own or not readable:
            continue
        for program in Path(directory).iterdir():
            link = folder / program.name
            if program.name not in PACKAGES.keys() - INSTALLED and not link.is_symlink():
                link.symlink_to(program)
    return os.pathsep.join([str(own), str(folder)])
