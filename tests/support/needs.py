"""Skip a test if this machine lacks a requirement, in the words of tcplab.machine.

The summary of a run counts the skipped tests by these words, so the same cause must always have
the same words.
"""

import functools
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

from tcplab import machine
from tcplab.errors import LabError, SandboxError
from tcplab.lab import why_no_lab

#: The package of each program that the course uses, or that only the tests use, as a tool or to
#: compare tcplab with it or to explain its time.
PACKAGES: Final = machine.PACKAGES | {
    **dict.fromkeys(("capinfos", "dumpcap", "editcap"), "wireshark-common"),
    **dict.fromkeys(("ip", "tc"), "iproute2"),
    **{name: name for name in ("chromium", "git", "haproxy", "iperf3", "lighttpd", "memcached")},
    **{name: name for name in ("npm", "nuttcp", "openssl", "rustc", "socat", "strace", "tshark")},
    "node": "nodejs",
    "pg_ctlcluster": "postgresql",
    "redis-cli": "redis-tools",
    "systemctl": "systemd",
    "wget": "wget",
}
IPV6: Final = "no IPv6 on this machine"
NET_RAW: Final = "packets of the real machine need CAP_NET_RAW"
NO_REPOSITORY: Final = "no git repository: only git knows the files of the course"
PROXY: Final = "configurable-http-proxy"
SANITIZERS: Final = "the compiler has no sanitizers: dnf install libasan libubsan"

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root")
needs_proxy = pytest.mark.skipif(
    shutil.which(PROXY) is None, reason=f"{PROXY} is not installed: npm install --global {PROXY}"
)
needs_ordinary_user = pytest.mark.skipif(
    os.getuid() == 0, reason="root may do everything: run the tests as an ordinary user too"
)


def lacking(*names: str) -> str:
    """Return a message about the first of these programs that is missing, or ""."""
    return machine.lacking(*names, packages=PACKAGES)


def need(*names: str) -> str:
    """Return the path of the first of these programs; skip the test if any is missing."""
    if why := lacking(*names):
        pytest.skip(why)
    return machine.find(names[0]) or names[0]


def need_module(name: str, package: str) -> Any:
    """Return a module; skip the test if its package is missing."""
    return pytest.importorskip(name, reason=f"{name} is not installed: pip install {package}")


def needs(*names: str) -> pytest.MarkDecorator:
    """Skip the marked tests if one of these programs is missing."""
    why = lacking(*names)
    return pytest.mark.skipif(bool(why), reason=why)


@functools.cache
def no_lab() -> str:
    """Return why no laboratory can be made here; "" if one can."""
    return why_no_lab() or ""


@contextmanager
def skipped_without_lab() -> Iterator[None]:
    """Skip the test if the block fails because this machine cannot make a laboratory or sandbox."""
    try:
        yield
    except (LabError, SandboxError) as error:
        refused = re.search("no laboratory on this machine|no sandbox", str(error))
        if refused and (why := no_lab()):
            pytest.skip(why)
        raise


@contextmanager
def need_token_bucket() -> Iterator[None]:
    """Skip the test if the block fails because the kernel has no token bucket filter."""
    try:
        yield
    except LabError as error:
        if "sch_tbf" not in str(error):
            raise
        pytest.skip(str(error))
