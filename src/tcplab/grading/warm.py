"""Preload modules in the server from which grading processes are forked (tcplab.grading.pool).

Otherwise each process would load and initialise them, which takes a third of a second.
"""

from __future__ import annotations

import gc
import importlib
import os
import shutil
from contextlib import suppress
from multiprocessing import util
from pathlib import Path
from typing import Final

from tcplab.grading.course import import_jsonschema
from tcplab.grading.pool import SOCKET_FOLDER

#: The order matters, because mistune's plugins would otherwise import each other in a circle.
_MODULES: Final = (
    "mistune.plugins",
    "nbgrader.converters",
    "numpy.ma",
    "pyroute2.netlink.rtnl.ifinfmsg",
    "sqlalchemy.dialects.sqlite",
    "tcplab.capture",
    "tcplab.grading.captures",
    "tcplab.grading.exchange",
    "tcplab.grading.nbgrader_plugins",
    "tcplab.grading.programs",
    "tcplab.grading.steps",
)

#: Flag of a process that exits (include/linux/sched.h), in /proc/PID/stat.
_PF_EXITING: Final = 0x4


def warm_up() -> None:
    """Import the modules, and trigger their lazy initialisation."""
    import_jsonschema()
    for name in _MODULES:
        importlib.import_module(name)
    # If this fails, the first process that needs the module fails too, and reports it.
    with suppress(Exception):
        nbformat = importlib.import_module("nbformat")
        nbformat.validate(nbformat.v4.new_notebook())
        importlib.import_module("sqlalchemy.orm").configure_mappers()
    # Exempt all existing objects from garbage collection. Otherwise, a collection in a forked
    # process would touch them, and so copy the memory that it shares with the server.
    gc.collect()
    gc.freeze()


def remove_when_orphaned(folder: str, owner: int) -> None:
    """Remove the folder of the server's socket if the owner was killed and cannot remove it.

    The server ends when the kernel has closed the owner's files. For a moment, the owner is then
    still its parent, with a flag that says that it exits.
    """
    with suppress(FileNotFoundError, ProcessLookupError):
        flags = Path(f"/proc/{owner}/stat").read_text().rpartition(")")[2].split()[6]
        if os.getppid() == owner and not int(flags) & _PF_EXITING:
            return
    shutil.rmtree(folder, ignore_errors=True)


if owner_and_folder := os.environ.pop(SOCKET_FOLDER, ""):
    pid, _, place = owner_and_folder.partition(" ")
    # Forked children clear their finalisers, so only the server runs this one.
    util.Finalize(None, remove_when_orphaned, args=(place, int(pid)), exitpriority=0)
warm_up()
