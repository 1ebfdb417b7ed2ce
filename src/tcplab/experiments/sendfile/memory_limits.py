"""Limits of a program's memory: of its address space, and a control group's."""

from __future__ import annotations

import copy
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tcplab.errors import LabError
from tcplab.experiments.files import removed_on_exit
from tcplab.lab import Command, Host, Network, program_path

# So that there is room for the program and none for the file.
ADDRESS_SPACE_SHARE: Final = 0.75
CGROUP_SHARE: Final = 0.25


def confined(network: Network, script: str) -> Network:
    """The network with a client whose programs start under a limit.

    Args:
        network: stays as it is, and ends what is started here.
        script: shell commands that set the limit for the process that runs them.
    """
    limited = copy.copy(network)
    limited.client = _ConfinedHost(network.client, script)
    return limited


class _ConfinedHost(Host):
    def __init__(self, host: Host, script: str) -> None:
        super().__init__(host.network, host.name, host.address, host.interface)
        self._script = script + ' && exec "$@"'

    def start(self, argv: Command, **options: Any) -> subprocess.Popen[Any]:
        name, *rest = (os.fspath(word) for word in argv)
        command = ["sh", "-c", self._script, "sh", str(program_path(name)), *rest]
        # The shell becomes one of the course's programs, and has the rights of one.
        if options.get("privileged") is None:
            options["privileged"] = self.network.grants_privileges
        return super().start(command, **options)


def address_space(file_bytes: int) -> str:
    """RLIMIT_AS (setrlimit(2)), less than the file: the command that sets it."""
    return f"ulimit -v {round(file_bytes * ADDRESS_SPACE_SHARE / 1024)}"


@contextmanager
def control_group(file_bytes: int) -> Iterator[str]:
    """A control group with less memory than the file, of which its share of the page cache counts.

    Yields the command that joins it.

    Raises:
        LabError: the system does not allow one.
    """
    limit = str(round(file_bytes * CGROUP_SHARE) & ~0xFFFF)
    for parent, file in memory_groups():
        group = parent / f"tcplab-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        with removed_on_exit(group):
            try:
                (group / file).write_text(limit)
            except OSError:
                continue
            yield f"echo 0 > '{group}/cgroup.procs'"
            return
    raise LabError(
        "this user may not make a control group with a memory limit here; try"
        " systemd-run --user --scope -p Delegate=yes tcplab run sendfile-memory"
    )


def memory_groups() -> Iterator[tuple[Path, str]]:
    """Where a control group could be made, and its file for the limit (cgroups(7))."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _number, controllers, path = line.split(":", 2)
        if not controllers:  # version 2: in our own group, or beside it
            own = Path("/sys/fs/cgroup") / path.lstrip("/")
            yield own, "memory.max"
            yield own.parent, "memory.max"
        elif "memory" in controllers.split(","):
            yield Path("/sys/fs/cgroup/memory") / path.lstrip("/"), "memory.limit_in_bytes"
