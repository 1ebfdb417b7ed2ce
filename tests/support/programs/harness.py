"""Run the C programs for the tests: alone, in pairs, and against misbehaving peers."""

import json
import os
import socket
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

SANITIZER_EXIT = 99
#: Time limit of a single step, sufficient even on a busy machine with sanitizers on.
PATIENCE_S = 60.0

Completed = subprocess.CompletedProcess[str]
Process = subprocess.Popen[str]


class Programs:
    """Run the programs of one build; a sanitizer's finding fails the test at once."""

    def __init__(self, directory: Path, options: str) -> None:
        self.directory = directory
        self.environment = os.environ | {
            "ASAN_OPTIONS": f"exitcode={SANITIZER_EXIT}:{options}",
            "UBSAN_OPTIONS": f"exitcode={SANITIZER_EXIT}:print_stacktrace=1",
        }

    def command(self, name: str, *arguments: object) -> list[str]:
        return [str(self.directory / name), *map(str, arguments)]

    def start(self, name: str, *arguments: object, **popen: Any) -> Process:
        popen = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            **popen,
        }
        return subprocess.Popen(
            self.command(name, *arguments), env=self.environment, text=True, **popen
        )

    def finish(self, process: Process) -> Completed:
        """Wait for the program's end, and fail on a sanitizer's finding."""
        try:
            out, err = process.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            pytest.fail(f"{process.args!r} did not end within {PATIENCE_S} s")
        assert process.returncode != SANITIZER_EXIT, err
        assert "Sanitizer" not in (err or ""), err
        assert "runtime error" not in (err or ""), err
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def run(self, name: str, *arguments: object, **popen: Any) -> Completed:
        with self.start(name, *arguments, **popen) as process:
            return self.finish(process)

    @contextmanager
    def listening(
        self, name: str, *arguments: object, **popen: Any
    ) -> Iterator[tuple[Process, int]]:
        """Yield a program that listens, and its port; kill it if it is still running at the end."""
        with self.start(name, *arguments, **popen) as process:
            try:
                assert process.stdout is not None
                ready = process.stdout.readline()
                if not ready:
                    pytest.fail(f"{process.args!r}: {self.finish(process).stderr}")
                yield process, int(ready.strip().rstrip("}").split()[-1])
            finally:
                if process.poll() is None:
                    process.kill()

    def pair(
        self, listener: list[object], client: list[object], port_option: str | None = "-p"
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Run a listener and a client with --json; return the client's report and the listener's.

        The listener takes a free port, which replaces "PORT" in the client's arguments.
        """
        arguments = [*listener, *([port_option, 0] if port_option else []), "--json"]
        with self.listening(*map(str, arguments)) as (process, port):
            client_run = self.run(
                *[str(port) if word == "PORT" else str(word) for word in client], "--json"
            )
            listener_run = self.finish(process)
        assert client_run.returncode == 0, client_run.stderr
        assert listener_run.returncode == 0, listener_run.stderr
        assert (client_run.stderr, listener_run.stderr) == ("", "")
        return last_object(client_run.stdout), last_object(listener_run.stdout)


def last_object(text: str) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(text.strip().splitlines()[-1])
    return result


def as_text(text: str) -> dict[str, str]:
    """Parse a report printed without --json, in which each line is a name and a value."""
    return dict(line.split(maxsplit=1) for line in text.splitlines())


def complaint(done: Completed, status: int) -> str:
    """Return the one line on standard error of a program that had to end with this status."""
    assert done.returncode == status, (done.args, done.returncode, done.stderr)
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    name = Path(done.args[0]).name
    assert lines[0].startswith(f"{name}: ")
    return lines[0].removeprefix(f"{name}: ")


# ---- peers that misbehave ----


@contextmanager
def tcp_listener() -> Iterator[tuple[socket.socket, int]]:
    """Yield a listening socket on 127.0.0.1 and its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE_S)
        yield listener, listener.getsockname()[1]


def reset(connection: socket.socket) -> None:
    """Close the connection with an RST."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
