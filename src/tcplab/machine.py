"""Find programs of the distribution, and Python packages of the extras that are not installed.

If a program is missing, the doctor lists it, an experiment falls back to its recording and names
the package, and a test is skipped with the same message.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from dataclasses import dataclass
from typing import Final

from tcplab.errors import MissingError


@dataclass(frozen=True, slots=True)
class Need:
    """A program from a package of the Linux distribution."""

    package: str  #: package name in Debian and Ubuntu
    use: str  #: purpose in the course; empty if only the tests use it


_PIPES: Final = "the pipelines of the text, in lesson pipes"
_PROGRAMS: Final = "real programs, in lesson real-programs"
_BY_HAND: Final = "looking by hand, in lesson slow-start"

NEEDS: Final = {
    "cc": Need("gcc libc6-dev", "the C programs, and exercises that you write in C"),
    "curl": Need("curl", _PROGRAMS),
    "dd": Need("coreutils", _PIPES),
    "go": Need("golang-go", _PROGRAMS),
    "mosquitto": Need("mosquitto", _PROGRAMS),
    "mosquitto_pub": Need("mosquitto-clients", _PROGRAMS),
    "nc": Need("netcat-openbsd", _PIPES),
    "nginx": Need("nginx-light", _PROGRAMS),
    "nstat": Need("iproute2", _BY_HAND),
    "pv": Need("pv", _PIPES),
    "redis-benchmark": Need("redis-tools", _PROGRAMS),
    "redis-server": Need("redis-server", _PROGRAMS),
    "ss": Need("iproute2", _BY_HAND),
    "tcpdump": Need("tcpdump", _BY_HAND),
    # The course does not use the remaining programs. Tests use them as tools, compare tcplab with
    # them, or explain their time.
    "capinfos": Need("wireshark-common", ""),
    "chromium": Need("chromium", ""),
    "dumpcap": Need("wireshark-common", ""),
    "editcap": Need("wireshark-common", ""),
    "git": Need("git", ""),
    "iperf3": Need("iperf3", ""),
    "haproxy": Need("haproxy", ""),
    "ip": Need("iproute2", ""),
    "lighttpd": Need("lighttpd", ""),
    "memcached": Need("memcached", ""),
    "nc.openbsd": Need("netcat-openbsd", ""),
    "node": Need("nodejs", ""),
    "npm": Need("npm", ""),
    "nuttcp": Need("nuttcp", ""),
    "openssl": Need("openssl", ""),
    "pg_ctlcluster": Need("postgresql", ""),
    "redis-cli": Need("redis-tools", ""),
    "rustc": Need("rustc", ""),
    "socat": Need("socat", ""),
    "strace": Need("strace", ""),
    "systemctl": Need("systemd", ""),
    "tc": Need("iproute2", ""),
    "tshark": Need("tshark", ""),
    "wget": Need("wget", ""),
}
#: The extra of this package that brings a module, for modules that some rooms cannot work without.
_EXTRAS: Final = {
    "IPython": "course",
    "ipywidgets": "course",
    "jupyterlab": "course",
    "matplotlib": "course",
    "nbgrader": "grading",
    "packaging": "course",
    "scapy": "packets",
    "voila": "course",
}
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


def lacking(*names: str) -> str:
    """Return a message about the first missing program in NEEDS, or "" if none is missing."""
    for name in names:
        if name in NEEDS and find(name) is None:
            return not_installed(name)
    return ""


def not_installed(name: str) -> str:
    """Return the message that `name`, a key of NEEDS, is missing, with the package to install."""
    return f"{name} is not installed: apt install {NEEDS[name].package}"


def require(*names: str) -> None:
    """Raise MissingError, with the message of lacking(), if one of these programs is missing."""
    if why := lacking(*names):
        raise MissingError(why)


def require_modules(*names: str) -> None:
    """Raise MissingError, with the command that installs it, if one of these modules is missing."""
    for name in names:
        if importlib.util.find_spec(name) is None:
            extra = _EXTRAS[name]
            raise MissingError(f"{name} is not installed: pip install 'tcplab[{extra}]'")
