"""Run shell pipelines of other programs over one TCP connection, such as `dd | nc ... nc`."""

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tcplab.errors import LabError
from tcplab.lab import Host
from tcplab.lab.host import ending
from tcplab.programs.logs import File
from tcplab.programs.pair import TIMEOUT_S, AnyNetwork, await_listener, held_port


@dataclass(frozen=True, slots=True)
class ChainProcess:
    """Resources used by one program of a chain, including the 1 to 2 ms for starting it."""

    command: str  #: The command with its arguments
    user_s: float  #: Time in the program's own code
    system_s: float  #: Time in the kernel on the program's behalf
    #: Bytes per call of read(2) and similar calls (rchar and syscr in proc(5)), up to a few ms
    #: before the program's end. None if /proc did not show it, or if the program moved its data by
    #: other calls such as recv(2) and splice(2)
    bytes_per_read: float | None

    @property
    def cpu_s(self) -> float:
        return self.user_s + self.system_s


@dataclass(frozen=True, slots=True)
class ChainResult:
    """Time and resources used by a chain of programs over one TCP connection."""

    bytes: int  #: Bytes that the first command was expected to read or produce
    wall_s: float  #: Time from the start of the sending programs to the end of the receiving ones
    cpu_s: float  #: User plus system time of all programs
    mb_per_s: float  #: Bytes over wall_s, in 10^6 bytes/s
    processes: Sequence[ChainProcess] = ()  #: The programs in the order in which data passes them


def pipe_chain(
    network: AnyNetwork,
    sending: Sequence[Sequence[str]],
    receiving: Sequence[Sequence[str]],
    *,
    bytes_expected: int,
    source: File | None = None,
    timeout_s: float = TIMEOUT_S,
) -> ChainResult:
    """Run `sending | ... | over TCP | receiving | ...` as a shell would, and measure it.

    The last program of ``sending`` connects, and the first of ``receiving`` listens. The arguments
    "{port}" and "{host}" are replaced by a free port and the server's address, as in ``[["dd",
    "if=/dev/zero", "bs=1M", "count=100"], ["netcat", "{host}", "{port}"]]``. The rate is that of
    ``bytes_expected``, which the first command reads from ``source`` or produces.
    """
    import resource  # JupyterLite, which shows recordings, does not have it

    started: list[_Stage] = []
    with Path(source or os.devnull).open("rb") as first, held_port(network.server) as port:
        values = {"{port}": str(port), "{host}": network.server.address}
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        try:
            _start_chain(started, network.server, receiving, values, subprocess.DEVNULL)
            listener = started[0]
            if not await_listener(network.server, port, listener.ended, within_s=10):
                silent = f"'{listener.shown}' does not listen on port {port}"
                raise LabError(listener.failure() if listener.ended() else silent)
            start = time.monotonic()
            _start_chain(started, network.client, sending, values, first)
            _await_chain(started, start + timeout_s)
            wall_s = time.monotonic() - start
        finally:
            for stage in started:
                stage.end()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    in_order = [*started[len(receiving) :], *started[: len(receiving)]]
    used = [stage.used() for stage in in_order]
    return ChainResult(bytes_expected, wall_s, cpu_s, bytes_expected / wall_s / 1e6, used)


class _Stage:
    """A running program of a chain, and its resource usage once it has ended."""

    def __init__(self, shown: str, process: subprocess.Popen[bytes]) -> None:
        self.shown = shown
        self.process = process
        self._usage: Any = None  #: the struct_rusage of wait4(2)
        self._pid: int | None = None
        self._io: dict[str, int] = {}

    def ended(self) -> bool:
        """Return whether the program has ended. Reap it here, because Popen drops its usage."""
        if self.process.returncode is None:
            try:
                pid, status, usage = os.wait4(self.process.pid, os.WNOHANG)
            except ChildProcessError:  # some other code has reaped it
                self.process.wait()
                return True
            if pid == 0:
                return False
            self.process.returncode = os.waitstatus_to_exitcode(status)
            self._usage = usage
        return True

    def look(self) -> None:
        """Record how many bytes the program has read and written so far, if /proc shows it."""
        try:
            self._pid = self._pid or program_under(self.process.pid, self.shown.split()[0])
            if self._pid is not None:
                lines = Path(f"/proc/{self._pid}/io").read_text().splitlines()
                self._io = {name: int(value) for name, value in (x.split(": ") for x in lines)}
        except (OSError, ValueError):
            pass  # the program has ended, or this kernel does not count bytes

    def used(self) -> ChainProcess:
        usage, io = self._usage, self._io
        return ChainProcess(
            self.shown,
            usage.ru_utime if usage else 0.0,
            usage.ru_stime if usage else 0.0,
            # Starting a program may read 64 KiB of its executable and libraries.
            io["rchar"] / io["syscr"] if io.get("rchar", 0) > 65_536 else None,
        )

    def failure(self) -> str:
        """Describe the failure of a program that has ended."""
        _out, err = self.process.communicate()
        return f"'{self.shown}' {ending(self.process.returncode, err.decode(errors='replace'))}"

    def end(self) -> None:
        if not self.ended():
            self.process.kill()
            self.process.wait()
        assert self.process.stderr is not None
        self.process.stderr.close()


def program_under(pid: int, command: str) -> int | None:
    """Return the ID of the command's process under lab_exec (`pid`), or None if there is none."""
    # The kernel keeps this many characters of a process's name (proc(5), comm).
    name = Path(command).name[:15]
    while Path(f"/proc/{pid}/comm").read_text().strip() != name:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if not children:
            return None
        pid = int(children[0])
    return pid


def _start_chain(
    started: list[_Stage],
    host: Host,
    commands: Sequence[Sequence[str]],
    values: Mapping[str, str],
    first: Any,
) -> None:
    """Start the commands as a pipeline that reads `first`, and append them to `started`."""
    stdin = first
    for position, command in enumerate(commands):
        argv = [values.get(word, word) for word in command]
        stdout = subprocess.DEVNULL if position == len(commands) - 1 else subprocess.PIPE
        try:
            process = host.start(
                argv, text=False, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE
            )
        finally:
            # The pipe belongs to the two programs now. If it stayed open here, the reader would
            # never see its end.
            if stdin is not first:
                stdin.close()
        started.append(_Stage(" ".join(argv), process))
        stdin = process.stdout


def _await_chain(stages: Sequence[_Stage], end: float) -> None:
    """Wait until all programs have ended. Raise LabError soon after one of them fails."""
    ticks = 0
    while running := [stage for stage in stages if not stage.ended()]:
        if any(stage.process.returncode for stage in stages):
            # The other programs end too, or wait forever for the one that has failed.
            end = min(end, time.monotonic() + 0.5)
        if time.monotonic() > end:
            break
        if ticks % 8 == 0:
            for stage in running:
                stage.look()
        ticks += 1
        time.sleep(0.001)
    for stage in stages:
        if stage.process.returncode:
            raise LabError(stage.failure())
    if running:
        raise LabError(f"'{running[0].shown}' did not end in time")
