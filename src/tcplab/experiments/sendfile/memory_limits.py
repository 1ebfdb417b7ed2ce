"""Limit the memory of a program, by its address space or by its control group."""

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

# These shares of the file's size leave room for the program but not for the file.
ADDRESS_SPACE_SHARE: Final = 0.75
CGROUP_SHARE: Final = 0.25


def confined(network: Network, script: str) -> Network:
    """Return a copy of the network whose client runs `script` before each program, to limit it."""
    limited = copy.copy(network)
    limited.client = _ConfinedHost(network.client, script)
    return limited


class _ConfinedHost(Host):
    def __init__(self, host: Host, script: str) -> None:
        super().__init__(host.network, host.name, host.address, host.interface)
        self._script = script + ' && exec "$@"'

    def start(
        self, argv: Command, *, privileged: bool | None = None, **options: Any
    ) -> subprocess.Popen[Any]:
        name, *rest = (os.fspath(word) for word in argv)
        if privileged is None:  # the default would depend on sh, not on the program
            privileged = self.network.grants_privileges
        command = ["sh", "-c", self._script, "sh", str(program_path(name)), *rest]
        return super().start(command, privileged=privileged, **options)


def address_space(file_bytes: int) -> str:
    """Return a command that limits the address space (RLIMIT_AS) to less than the file's size."""
    return f"ulimit -v {round(file_bytes * ADDRESS_SPACE_SHARE / 1024)}"


@contextmanager
def control_group(file_bytes: int) -> Iterator[str]:
    """Create a control group with less memory than the file; yield the command that joins it.

    The page cache that its processes fill counts as its memory. LabError if none can be created.
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
    """Yield possible parents of a control group, each with the name of its memory-limit file."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _number, controllers, path = line.split(":", 2)
        if not controllers:  # cgroups(7) version 2: inside our group, or next to it
            group = Path("/sys/fs/cgroup") / path.lstrip("/")
            yield group, "memory.max"
            yield group.parent, "memory.max"
        elif "memory" in controllers.split(","):
            yield Path("/sys/fs/cgroup/memory") / path.lstrip("/"), "memory.limit_in_bytes"
