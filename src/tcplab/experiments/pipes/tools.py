"""Find dd, nc and pv on this machine, and their versions."""

from __future__ import annotations

import subprocess
from typing import Final

from tcplab import machine
from tcplab.experiments.pipes.pipelines import Pipeline, Words

_VERSION: Final = {"dd": "--version", "nc": "-h", "pv": "--version"}  # version options


class Tools:
    """The programs dd, nc and pv of this machine."""

    def __init__(self) -> None:
        self._nc = _openbsd_nc()

    def words(self, words: Words, size_mb: int) -> list[str]:
        """Return a command for pipe_chain, with the size and this machine's nc filled in."""
        first = self._nc if words[0] == "nc" and self._nc else words[0]
        return [first, *(word.replace("{size}", str(size_mb)) for word in words[1:])]

    def lacking(self, pipeline: Pipeline) -> str:
        """Return a message that names a missing program of a pipeline, or "" if none is missing."""
        if "nc" in pipeline.commands and not self._nc:
            return machine.lacking("nc") or machine.lacking("nc.openbsd")
        return machine.lacking(*pipeline.commands)

    def versions(self) -> dict[str, str]:
        """Return the version that each installed program reports, by name."""
        paths = {"dd": machine.find("dd"), "nc": self._nc, "pv": machine.find("pv")}
        return {name: _first_line(path, _VERSION[name]) for name, path in paths.items() if path}


def _openbsd_nc() -> str | None:
    """Return the name of OpenBSD's netcat, which Chen Shuo uses, or None if it is not installed."""
    if machine.find("nc.openbsd"):
        return "nc.openbsd"
    is_openbsds = machine.find("nc") and "OpenBSD" in _first_line("nc", _VERSION["nc"])
    return "nc" if is_openbsds else None


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
