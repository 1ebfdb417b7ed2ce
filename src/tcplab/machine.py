"""Find programs of the distribution, and Python packages of the extras that are not installed.

If a program is missing, the doctor lists it, an experiment falls back to its recording and names
the package, and a test is skipped with the same message.
"""

import importlib.util
import os
import shutil
import sys
from collections.abc import Mapping
from typing import Final

from tcplab.errors import MissingError

#: The package in Debian and Ubuntu that has each program of the course.
PACKAGES: Final = {
    "cc": "gcc libc6-dev",
    "curl": "curl",
    "dd": "coreutils",
    "go": "golang-go",
    "mosquitto": "mosquitto",
    "mosquitto_pub": "mosquitto-clients",
    "nc": "netcat-openbsd",
    "nc.openbsd": "netcat-openbsd",
    "nginx": "nginx-light",
    "nstat": "iproute2",
    "pv": "pv",
    "redis-benchmark": "redis-tools",
    "redis-server": "redis-server",
    "ss": "iproute2",
    "tcpdump": "tcpdump",
}
#: The extra of this package that brings a module, if that is not "course".
_EXTRAS: Final = {"distributed": "cluster", "nbgrader": "grading", "scapy": "packets"}
#: Folders in which Debian installs servers, outside an ordinary user's PATH.
_SERVERS: Final = ("/usr/sbin", "/sbin")


def find(name: str) -> str | None:
    """Return the path of a program, or None if it is not installed.

    The name "cc" stands for the compiler in $CC, if that is set. The environment's own programs
    and Debian's folders for servers are found even if they are not in PATH.
    """
    if name == "cc":
        name = (os.environ.get("CC") or "cc").split()[0]
    folders = [os.environ.get("PATH", ""), f"{sys.prefix}/bin", *_SERVERS]
    return shutil.which(name, path=os.pathsep.join(folders))


def lacking(*names: str, packages: Mapping[str, str] = PACKAGES) -> str:
    """Return a message about the first program in `packages` that is missing, or "" if none is."""
    for name in names:
        if name in packages and find(name) is None:
            return f"{name} is not installed: apt install {packages[name]}"
    return ""


def require(*names: str) -> None:
    """Raise MissingError, with the message of lacking(), if one of these programs is missing."""
    if why := lacking(*names):
        raise MissingError(why)


def require_modules(*names: str) -> None:
    """Raise MissingError, with the command that installs it, if one of these modules is missing."""
    for name in names:
        if importlib.util.find_spec(name) is None:
            extra = _EXTRAS.get(name, "course")
            raise MissingError(f"{name} is not installed: pip install 'tcplab[{extra}]'")
