"""Make a laboratory in a learner's kernel, and try to get into those of the other learners.

The load test runs this text in a cell. `open_up` makes a laboratory and records it, `talk` sends a
secret through it, `intrude` tries what a curious neighbour would, and `look` reads the recording.
"""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from tcplab import Lab

#: Files of a process under /proc: environment, memory, descriptors, directories and namespaces.
PARTS = ("environ", "mem", "fd", "root", "cwd", "ns/user", "ns/net", "ns/mnt", "ns/pid")
PTRACE_SEIZE = 0x4206
PIDFD_GETFD = 438  # pidfd_getfd(2), the same number on all architectures
ETH_P_ALL = 3
PORT = 7777

held: dict[str, Any] = {}


def open_up() -> None:
    """Make the laboratory, and begin to record it."""
    lab = Lab(rtt_ms=10)
    recording = lab.client.capture(snaplen=2048)
    recording.start()
    held.update(lab=lab, recording=recording)


def talk(secret: str) -> None:
    """Send the secret from host to host 50 times."""
    lab = held["lab"]
    with lab.server.socket() as listener, lab.client.socket() as client:
        listener.bind((lab.server.address, PORT))
        listener.listen()
        client.connect((lab.server.address, PORT))
        accepted, _ = listener.accept()
        with accepted:
            for _ in range(50):
                client.sendall(secret.encode())
                accepted.recv(len(secret), socket.MSG_WAITALL)


def look(secrets: list[str]) -> dict[str, Any]:
    """Return the secrets in the recording, and the numbers of recorded and dropped packets."""
    with held.pop("lab"):
        capture = held.pop("recording").stop()
        data = capture.path.read_bytes()
        seen = [secret for secret in secrets if secret.encode() in data]
        return {"seen": seen, "packets": len(capture), "drops": capture.drops}


def intrude() -> dict[str, Any]:
    """Try to reach other users; return which attempts succeeded and how many were refused.

    The same attempts must succeed on the intruder's own child. "control_refused" lists failures.
    """
    entered, refused = [], 0
    for name, trial in _attempts():
        if _succeeds(trial):
            entered.append(name)
        else:
            refused += 1
    with subprocess.Popen(["sleep", "60"]) as child:
        control = [name for name, trial in _on_process(child.pid) if not _succeeds(trial)]
        child.kill()
    laboratories = len(_processes_of_others("lab_init"))
    return {
        "entered": entered,
        "refused": refused,
        "laboratories": laboratories,
        "control_refused": control,
    }


def read_others(homes: list[str]) -> list[str]:
    """Return the course folders and submissions of others that this user can read."""
    folders = [Path(home, "tcplab") for home in homes if home != str(Path.home())]
    # Names have a random part, so a user who cannot list the folder finds no file in it.
    folders.append(Path(os.environ["TCPLAB_EXCHANGE"], "tcplab", "inbound"))
    return [str(folder) for folder in folders if os.access(folder, os.R_OK)]


def _attempts() -> Iterator[tuple[str, partial[Any]]]:
    packets = partial(socket.socket, socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    yield "capture on the machine's own interfaces", packets
    for pid in _processes_of_others():
        yield from _on_process(pid)
    for pid in _processes_of_others("lab_init"):
        enter = ["nsenter", f"--target={pid}", "--user", "--net", "--preserve-credentials", "true"]
        yield f"nsenter {pid}", partial(subprocess.run, enter, check=True, capture_output=True)


def _on_process(pid: int) -> Iterator[tuple[str, partial[Any]]]:
    for part in PARTS:
        yield f"{part} of {pid}", partial(os.open, f"/proc/{pid}/{part}", os.O_RDONLY)
    yield f"descriptor 0 of {pid}", partial(_take_descriptor, pid)
    yield f"trace {pid}", partial(_call, "ptrace", PTRACE_SEIZE, pid, None, None)


def _succeeds(trial: partial[Any]) -> bool:
    try:
        result = trial()
    except (OSError, subprocess.CalledProcessError):
        return False
    if isinstance(result, int) and result > 2:
        os.close(result)
    return True


def _take_descriptor(pid: int) -> int:
    pidfd = os.pidfd_open(pid)
    try:
        return _call("syscall", PIDFD_GETFD, pidfd, 0, 0)
    finally:
        os.close(pidfd)


def _call(function: str, *arguments: int | None) -> int:
    result = int(getattr(_libc, function)(*arguments))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


_libc = ctypes.CDLL(None, use_errno=True)


def _processes_of_others(name: str = "") -> list[int]:
    """Return the PIDs of other ordinary users' processes whose names begin with `name`."""
    pids = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            status = (entry / "status").read_text()
        except OSError:
            continue
        uid = int(status.partition("\nUid:")[2].split(maxsplit=1)[0])
        if uid not in (0, os.getuid()) and status.startswith(f"Name:\t{name}"):
            pids.append(int(entry.name))
    return pids
