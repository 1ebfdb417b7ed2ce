"""Programs that exceed the sandbox's limits in ways that its watch might miss.

    python greedy.py NAME...

This command runs the named programs in a sandbox and prints as JSON how each ended. Programs that
need no namespaces also run on a host of a laboratory. A test runs the command as an ordinary user.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import Final

from tcplab.grading import sandbox
from tcplab.grading.sandbox import Limits, Outcome
from tcplab.lab import Lab

MIB: Final = 1 << 20
LIMITS: Final = Limits(
    wall_s=20, cpu_s=20, memory_bytes=192 * MIB, processes=12, file_bytes=16 * MIB
)


@dataclass(frozen=True)
class Greed:
    """A Python program, and how it must end."""

    source: str
    stopped_by: str | None = None
    output: bytes = b""
    #: whether the program needs separate namespaces, which only notebooks may have
    with_namespaces: bool = False


#: Code that calls the C library by name, and returns "refused" if the kernel denies the call.
LIBC: Final = """
import ctypes, errno, os, time
libc = ctypes.CDLL(None, use_errno=True)
def attempt(name, *arguments):
    if getattr(libc, name)(*arguments) >= 0:
        return "DONE"
    refused = ctypes.get_errno() in (errno.EPERM, errno.ENOSYS)
    return "refused" if refused else os.strerror(ctypes.get_errno())
"""

GREEDY: Final = {
    "takes-descriptors-from-the-watch": Greed(
        LIBC
        + """
attempt("prlimit", 1, 7, (ctypes.c_ulong * 2)(0, 0), None)
kept = bytearray(b"x" * (400 << 20))
time.sleep(10)
""",
        "memory",
    ),
    "slows-the-watch-down": Greed(
        LIBC
        + """
mask = (ctypes.c_ulong * 16)(1)
told = [attempt("prlimit", 1, 0, (ctypes.c_ulong * 2)(1, 1), None)]
told.append(attempt("sched_setaffinity", 1, 128, mask))
told.append(attempt("sched_setscheduler", 1, 5, (ctypes.c_int * 1)(0)))
for name in ("autogroup", "timerslack_ns", "oom_score_adj", "coredump_filter"):
    try:
        descriptor = os.open(f"/proc/1/{name}", os.O_WRONLY)
        os.write(descriptor, b"19")
        told.append("DONE")
    except OSError:
        told.append("refused")
print(*told)
""",
        output=b"refused " * 6 + b"refused\n",
    ),
    "starts-threads": Greed(
        """
import threading, time
try:
    for _ in range(60):
        threading.Thread(target=time.sleep, args=(10,), daemon=True).start()
except RuntimeError:
    pass
time.sleep(10)
""",
        "processes",
    ),
    "files-that-are-memory": Greed(
        LIBC + 'print(attempt("memfd_create", b"x", 0), attempt("syscall", 447, 0))\n',
        output=b"refused refused\n",
    ),
    "system-v": Greed(
        LIBC
        + """
print(attempt("shmget", 0, 1 << 20, 0o1600), attempt("msgget", 0, 0o1600),
      attempt("semget", 0, 1, 0o1600))
""",
        output=b"refused refused refused\n",
    ),
    "shared-memory-that-is-not-resident": Greed(
        """
import mmap, time
kept = mmap.mmap(-1, 400 << 20)
for at in range(0, len(kept), 1 << 22):
    kept[at : at + (1 << 22)] = b"x" * (1 << 22)
    kept.madvise(mmap.MADV_DONTNEED)
time.sleep(10)
""",
        "memory",
    ),
    "full-sockets": Greed(
        """
import socket, time
kept = []
server = socket.create_server(("127.0.0.1", 0))
for _ in range(500):
    pair = socket.create_connection(server.getsockname()), server.accept()[0]
    for each in pair:
        each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        each.setblocking(False)
        try:
            while True:
                each.send(b"x" * 65536)
        except BlockingIOError:
            pass
    kept += pair
time.sleep(10)
""",
        "memory",
    ),
    "rings-and-descriptors-in-flight": Greed(
        LIBC
        + """
errno.EPERM = errno.EAFNOSUPPORT
print(attempt("socket", 17, 3, 0), attempt("socket", 1, 1, 0),
      attempt("socketpair", 1, 1, 0, (ctypes.c_int * 2)()))
""",
        output=b"refused refused refused\n",
    ),
    "a-file-system-of-its-own": Greed(
        LIBC
        + """
attempt("unshare", 0x10020000)
kinds = [attempt("mount", b"x", b"/tmp", each, 0, None) for each in (b"tmpfs", b"ramfs")]
print(*kinds, attempt("syscall", 430, b"tmpfs", 0))
""",
        output=b"refused refused refused\n",
        with_namespaces=True,
    ),
    "networks-by-the-hundred": Greed(
        LIBC
        + """
attempt("unshare", 0x10000000)
kept = []
while len(kept) < 500 and attempt("unshare", 0x40000000) == "DONE":
    kept.append(os.open("/proc/self/ns/net", os.O_RDONLY))
print(0 < len(kept) <= 128)
""",
        output=b"True\n",
        with_namespaces=True,
    ),
}


def run(name: str, lab: Lab | None = None) -> Outcome:
    """Run a greedy program alone, or on the client of a laboratory."""
    greed = GREEDY[name]
    # The programs import only the standard library, because .venv may be invisible in a laboratory.
    return sandbox.run(
        [sys.executable, "-c", greed.source],
        limits=LIMITS,
        host=lab.client if lab else None,
        lab_allowed=greed.with_namespaces,
    )


def ended(outcome: Outcome) -> tuple[str | None, str]:
    """Return how a program ended as plain data, for a test to compare."""
    return outcome.stopped_by, outcome.output.decode()


def main() -> None:
    outcomes = {}
    with Lab() as lab:
        for name in sys.argv[1:]:
            outcomes[f"{name} alone"] = ended(run(name))
            if not GREEDY[name].with_namespaces:
                outcomes[f"{name} in a laboratory"] = ended(run(name, lab))
    print(json.dumps(outcomes))


if __name__ == "__main__":
    main()
