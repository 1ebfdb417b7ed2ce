"""System users that are created for a load test and removed afterwards."""

from __future__ import annotations

import os
import pwd
import secrets
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

#: The account's comment contains this mark and the PID of its maker, which identify the accounts
#: that a killed test left behind.
MARK = "made by the load test of tcplab"
END_LIMIT_S = 20


@dataclass(frozen=True)
class Account:
    """A user of the machine who can log in."""

    name: str
    password: str
    home: Path
    uid: int
    gid: int


@contextmanager
def accounts(names: Iterable[str], homes: Path) -> Iterator[list[Account]]:
    """Make the users; remove them and all of their processes at the end."""
    remove_leftovers()
    made: list[Account] = []
    try:
        for name in names:
            made.append(_make(name, homes / name))
        yield made
    finally:
        _remove([account.name for account in made], {account.uid for account in made})


def remove_leftovers() -> None:
    """Remove the users of a load test that was killed."""
    for user in pwd.getpwall():
        mark, _, pid = user.pw_gecos.rpartition(" ")
        if mark == MARK and not Path("/proc", pid).exists():
            _remove([user.pw_name], {user.pw_uid})


def _make(name: str, home: Path) -> Account:
    password = secrets.token_urlsafe(12)
    comment = f"{MARK} {os.getpid()}"
    command = ["useradd", "--create-home", "--home-dir", str(home), "--comment", comment]
    subprocess.run([*command, "--shell", "/bin/bash", name], check=True)
    subprocess.run(["chpasswd"], input=f"{name}:{password}\n", text=True, check=True)
    user = pwd.getpwnam(name)
    return Account(name, password, home, user.pw_uid, user.pw_gid)


def _remove(names: list[str], uids: set[int]) -> None:
    deadline_s = time.monotonic() + END_LIMIT_S
    while (left := processes_of(uids)) and time.monotonic() < deadline_s:
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.05)
    for name in names:
        subprocess.run(["userdel", name], check=True, capture_output=True)


def processes_of(uids: set[int]) -> dict[int, int]:
    """Map the PID of each running process of these users to its real user ID."""
    owners = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            # The directory's owner does not help, as it is root if the process may not be traced.
            status = (entry / "status").read_text()
        except OSError:  # the process has ended
            continue
        uid = int(status.partition("\nUid:")[2].split(maxsplit=1)[0])
        if uid in uids and "\nState:\tZ" not in status:
            owners[int(entry.name)] = uid
    return owners
