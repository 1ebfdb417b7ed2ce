"""Create the namespaces of a laboratory, or explain why the machine forbids them."""

import os
import socket
import subprocess
import threading
from pathlib import Path

from tcplab.errors import LabError
from tcplab.lab.binaries import program_path


def read_file(path: str) -> str:
    """Return the stripped text of a file of /proc or /sys, or "" if it cannot be read."""
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def why_no_lab() -> str | None:
    """Return the reason why no laboratory can be created here, with the fix, or None if one can."""
    try:
        trial = Namespaces()
    except LabError as error:
        return str(error)
    trial.close()
    trial.wait()
    return None


def _explain_blocked(symptom: str) -> str:
    """Return why namespaces fail here (user_namespaces(7)), with the fix, in one line."""
    if read_file("/proc/sys/user/max_user_namespaces") == "0":
        why, fix = "user.max_user_namespaces is 0", "sudo sysctl -w user.max_user_namespaces=15000"
    elif read_file("/proc/sys/kernel/unprivileged_userns_clone") == "0":
        why = "kernel.unprivileged_userns_clone is 0"
        fix = "sudo sysctl -w kernel.unprivileged_userns_clone=1"
    elif read_file("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1":
        why = "AppArmor restricts unprivileged user namespaces (Ubuntu 23.10 and later)"
        fix = "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
    elif (
        Path("/.dockerenv").exists()
        or Path("/run/.containerenv").exists()
        or "Seccomp:\t2" in read_file("/proc/self/status")
    ):
        why = "the container's seccomp profile forbids unshare(2)"
        fix = "docker run --security-opt seccomp=unconfined --security-opt systempaths=unconfined …"
    else:
        why, fix = "the kernel refused a user namespace", "tcplab doctor"
    return f"no laboratory on this machine: {why} [{symptom}]; to allow it: {fix}"


class Namespaces:
    """Process 1 of the laboratory, and the file descriptors that it hands out (see lab_init.c)."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        argv = [str(program_path("lab_init")), str(theirs.fileno()), str(os.getpid())]
        with theirs:
            self._process = subprocess.Popen(
                argv,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        text, fds = self._receive()
        if text != "ready":
            raise LabError(_explain_blocked(self._stderr_text()))
        self.user_fd, self.pid_fd, self.mnt_fd = fds
        self._fds = list(fds)
        self._hosts = 0

    def _receive(self) -> tuple[str, list[int]]:
        text, fds, _flags, _address = socket.recv_fds(self._control, 4096, 3)
        return text.decode(errors="replace"), list(fds)

    def _stderr_text(self) -> str:
        assert self._process.stderr is not None
        self._control.close()
        errors = self._process.stderr.read().decode(errors="replace").strip()
        self._process.stderr.close()
        self._process.wait()
        return errors.removeprefix("lab_init: ") or "lab_init gave no reason"

    def ask(self, request: str) -> list[int]:
        """Send a request to process 1, and return the file descriptors in its answer."""
        with self._lock:
            try:
                self._control.send(request.encode())
                text, fds = self._receive()
            except OSError:
                text, fds = "", []
        if text == "":
            raise LabError("the laboratory is closed; make a new Lab()")
        if text != "ok":
            _error, name, what = text.split(" ", 2)
            raise LabError(f"{what}: {name} (in the laboratory, '{request[:60]}')")
        return fds

    def add_host(self, name: str) -> tuple[int, int, int]:
        """Create a host; return its index and descriptors of its network and UTS namespaces."""
        net_fd, uts_fd = self.ask(f"host {name}")
        self._fds += [net_fd, uts_fd]
        self._hosts += 1
        return self._hosts - 1, net_fd, uts_fd

    def close(self) -> None:
        """Request the end of everything in the laboratory; :meth:`wait` waits for it."""
        with self._lock:
            fds, self._fds = self._fds, []
        if not fds:
            return
        self._control.close()
        for fd in fds:
            os.close(fd)

    def wait(self) -> None:
        """Wait until everything in a closed laboratory has ended, and reap process 1."""
        self._process.wait()
        if self._process.stderr:
            self._process.stderr.close()
