"""One runner for a pair of programs: one listens, the other connects, both report in JSON."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from tcplab.errors import LabError
from tcplab.lab import Host, Network, Pair

__all__ = [
    "DEADLINE_S",
    "TIMEOUT_S",
    "AnyNetwork",
    "buffer_size",
    "congestion_of",
    "last_object",
    "long_options",
    "run_pair",
    "short_options",
]

AnyNetwork = Network | Pair

DEADLINE_S: Final = 30.0
TIMEOUT_S: Final = 120.0


class _Listener:
    """A listening program: its port once it listens, and its report at the end."""

    def __init__(self, process: subprocess.Popen[str], shown: str) -> None:
        self._process = process
        self._shown = shown
        assert process.stdout is not None
        ready = process.stdout.readline()
        if not ready:
            raise LabError(f"'{shown}' did not start: {self.complaint()}")
        self.port = int(json.loads(ready)["listening"])

    def complaint(self) -> str:
        """The last line on standard error of a program that ends of itself."""
        _out, err = self._process.communicate(timeout=TIMEOUT_S)
        return (err.strip().splitlines() or [f"exit status {self._process.returncode}"])[-1]

    def report(self, timeout_s: float) -> dict[str, Any]:
        """Waits for the end and returns the JSON object; LabError if the program failed."""
        try:
            out, err = self._process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            raise LabError(f"'{self._shown}' did not end within {timeout_s:g} s") from None
        if self._process.returncode != 0:
            last = (err.strip().splitlines() or ["no message"])[-1]
            raise LabError(f"'{self._shown}' failed (exit {self._process.returncode}): {last}")
        return last_object(out)

    def last_words(self) -> str:
        """What the program said on standard error, if it has ended by now; else ''."""
        try:
            self._process.wait(timeout=0.5)
        except subprocess.TimeoutExpired:
            return ""
        return self.complaint() if self._process.returncode else ""


@contextmanager
def _listening(host: Host, argv: Sequence[str]) -> Iterator[_Listener]:
    process = host.start(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with process:
        try:
            yield _Listener(process, " ".join(argv))
        finally:
            if process.poll() is None:
                process.kill()


def last_object(text: str) -> dict[str, Any]:
    """The JSON object in the last line; those of the lines before are its "earlier_lines"."""
    *earlier, last = (json.loads(line) for line in text.strip().splitlines())
    return {**last, "earlier_lines": earlier}


def run_pair(
    network: AnyNetwork, server: Sequence[str], client: Sequence[str], timeout_s: float
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Runs both programs; the client's argument "{port}" stands for where the server listens.

    Returns:
        The client's report and the server's.
    """
    with _listening(network.server, server) as listener:
        argv = [str(listener.port) if word == "{port}" else word for word in client]
        try:
            done = network.client.run(argv, timeout_s=timeout_s)
        except LabError as error:
            # Of two failures the server's is often the cause: "the client goes on after 10".
            words = listener.last_words()
            raise LabError(f"{error}; {words}" if words else str(error)) from None
        return last_object(done.stdout), listener.report(timeout_s)


def long_options(**values: Any) -> list[str]:
    """{"rcvbuf": 4096, "discard": True, "mss": None} as --rcvbuf 4096 --discard."""
    words: list[str] = []
    for name, value in values.items():
        option = "--" + name.replace("_", "-")
        if value is True:
            words.append(option)
        elif value is not None and value is not False:
            words += [option, str(value)]
    return words


def short_options(**values: Any) -> list[str]:
    """{"c": 5000, "t": None} as -c 5000."""
    return [
        word
        for letter, value in values.items()
        if value is not None
        for word in (
            f"-{letter}",
            os.fspath(value) if isinstance(value, os.PathLike) else str(value),
        )
    ]


def congestion_of(network: AnyNetwork, wish: str | None) -> str | None:
    """The value of --congestion: the place's own unless said, and no option for the machine's."""
    return None if wish == "system" else wish or network.congestion


def buffer_size(size_bytes: int | None) -> str:
    """The argument of -b: "auto" leaves the size to the kernel."""
    return "auto" if size_bytes is None else str(size_bytes)
