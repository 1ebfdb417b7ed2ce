"""The programs of the system: which of dd, nc and pv are here, under which name."""

from __future__ import annotations

import shutil
import subprocess
from typing import Final

from tcplab import machine
from tcplab.experiments.pipes.pipelines import Pipeline, Words

#: The name of each in machine.NEEDS, and its option that prints the version.
_TOOLS: Final = {"DD": ("dd", "--version"), "NC": ("nc.openbsd", "-h"), "PV": ("pv", "--version")}


class Tools:
    """Names of dd, nc and pv on this machine."""

    def __init__(self) -> None:
        names = {"DD": "dd", "NC": _openbsd_nc(), "PV": "pv"}
        self._found = {key: name for key, name in names.items() if name and shutil.which(name)}

    def words(self, words: Words, size_mb: int) -> list[str]:
        """A command of a pipeline, ready for pipe_chain."""
        first = self._found.get(words[0]) or words[0]
        return [first, *(word.replace("{size}", str(size_mb)) for word in words[1:])]

    def lacking(self, pipeline: Pipeline) -> str:
        """The program that must be installed for a pipeline; empty for none."""
        for name in pipeline.commands:
            if name in _TOOLS and name not in self._found:
                return machine.not_installed(_TOOLS[name][0])
        return ""

    def versions(self) -> dict[str, str]:
        """The version that each of them reports."""
        return {key.lower(): _first_line(name, _TOOLS[key][1]) for key, name in self._found.items()}


def _openbsd_nc() -> str | None:
    """The published netcat: of the several programs of this name, the one of OpenBSD."""
    for name in ("nc.openbsd", "nc"):
        if shutil.which(name) and "OpenBSD" in _first_line(name, _TOOLS["NC"][1]):
            return name
    return None


def _first_line(*command: str) -> str:
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return "?"
    return (done.stdout.splitlines() or ["?"])[0]
