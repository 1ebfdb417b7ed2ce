"""Loaded once by the server that grading processes are forked from (tcplab.grading.pool): what each
of them would otherwise load and make ready by itself, a third of a second for each submission.
"""

from __future__ import annotations

import gc
import importlib
import os
import shutil
from contextlib import suppress
from multiprocessing import util
from typing import Final

from tcplab.grading.course import import_jsonschema
from tcplab.grading.pool import SOCKET_FOLDER

#: In this order: plugins of mistune import each other in a circle otherwise.
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


def warm_up() -> None:
    """Imports the modules, and makes what they make when they are used for the first time."""
    import_jsonschema()
    for name in _MODULES:
        importlib.import_module(name)
    # Whatever fails here fails again in the first process that needs it, which reports it.
    with suppress(Exception):
        nbformat = importlib.import_module("nbformat")
        nbformat.validate(nbformat.v4.new_notebook())
        importlib.import_module("sqlalchemy.orm").configure_mappers()
    # What is here stays: a collection in a forked process would look through all of it, and so copy
    # the memory that it has in common with the server.
    gc.collect()
    gc.freeze()


def remove_when_orphaned(folder: str, owner: int) -> None:
    """Removes the folder of the server's socket, which its owner does unless it was killed."""
    if os.getppid() != owner:
        shutil.rmtree(folder, ignore_errors=True)


if told := os.environ.pop(SOCKET_FOLDER, ""):
    pid, _, place = told.partition(" ")
    util.Finalize(None, remove_when_orphaned, args=(place, int(pid)), exitpriority=0)  # no child's
warm_up()
