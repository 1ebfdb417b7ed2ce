"""Compile a lesson's program, and run it on the hosts of a network."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from tcplab.capture import Capture
from tcplab.course.short_c.judges import CASES
from tcplab.course.short_c.ran import Ran
from tcplab.course.short_c.sources import original, path_of
from tcplab.errors import LabError
from tcplab.experiments.diagnosis.run import compile_source, stream_of
from tcplab.experiments.files import file_of
from tcplab.lab import Lab, Network
from tcplab.lab.scratch import temporary_folder
from tcplab.programs.calls import read_calls
from tcplab.programs.pair import Running, await_listener

TIMEOUT_S: Final = 20.0
_PORT: Final = 7000  # port on which a lesson's program listens
#: The largest payload that is recorded completely. Jumbo frames fit, and only offload makes longer
#: packets.
_KEPT_BYTES: Final = 9000


def run(
    network: Network,
    slug: str,
    *arguments: str,
    source: Path | None = None,
    file_mb: int = 0,
    count_calls: bool = False,
    stdin: str = "",
    server: Sequence[str] = (),
) -> Ran:
    """Compile a lesson's program and run it, with a program of the course on the other host.

    Args:
        *arguments: the program's arguments after address and port.
        source: C file to run instead of the learner's copy or the original.
        file_mb: size in MB of a file of random bytes, or 0 for none. Its path is the last argument
            unless `stdin` is given.
        count_calls: count the client's system calls, which makes each of them slower.
        stdin: "FILE" for that file, a command to pipe from, such as "cat FILE", or "" for no input.
        server: command of the program on the other host; by default that of the lesson's Case.
    """
    case = CASES[slug]
    peer = [word.format(*arguments) for word in server or case.peer]
    with temporary_folder() as folder:
        program = compile_source(source or path_of(slug), Path(folder))
        if case.listens:
            return _run_server(network, program, arguments, peer)
        return _run_client(network, program, arguments, peer, file_mb, count_calls, stdin)


def _run_client(
    network: Network,
    program: Path,
    arguments: Sequence[str],
    peer: Sequence[str],
    file_mb: int,
    count_calls: bool,
    stdin: str,
) -> Ran:
    server = [*peer, "--deadline=5", "--json", "--bind", network.server.address]
    log = program.parent / "log"
    with ExitStack() as stack:
        file = stack.enter_context(file_of(file_mb * 1_000_000)) if file_mb else None
        given = stack.enter_context(_given(network, stdin, file))
        with (
            network.client.capture(snaplen=_KEPT_BYTES + 100) as capture,
            Running(network.server, server) as listener,
        ):
            words = [network.server.address, str(listener.port()), *arguments]
            recorder = ["calls", str(log), "--"] if count_calls else []
            last = [str(file)] if file and not stdin else []
            before = _bytes_read()
            with Running(
                network.client, [*recorder, str(program), *words, *last], stdin=given
            ) as client:
                output = client.output(TIMEOUT_S)
            entered_bytes = _bytes_read() - before if before >= 0 else -1
        shown = [f"./{program.name}", *words, *(["FILE"] if last else [])]
        commands = (
            f"{network.server.name}$ {' '.join(server[:-4])}",
            f"{network.client.name}$ {_shown(' '.join(shown), stdin)}",
        )
        return _ran(
            commands,
            output,
            capture,
            file=file.read_bytes() if file else b"",
            calls=read_calls(log).calls if count_calls else 0,
            entered_bytes=entered_bytes,
        )


def _ran(commands: Sequence[str], output: str, recorded: Capture, **more: Any) -> Ran:
    with recorded as capture:
        segments = capture.segments
        largest = max(segments["payload_bytes"], default=0)
        stream = stream_of(capture) if largest <= _KEPT_BYTES else b""
        return Ran(commands, output.strip(), segments, stream, **more)


def _run_server(
    network: Network, program: Path, arguments: Sequence[str], peer: Sequence[str]
) -> Ran:
    words = [network.server.address, str(_PORT), *arguments]
    client = [*peer, "-p", str(_PORT), network.server.address]
    with (
        network.client.capture(snaplen=_KEPT_BYTES + 100) as capture,
        Running(network.server, [str(program), *words]) as listener,
    ):
        if not await_listener(network.server, _PORT, listener.ended, TIMEOUT_S / 4):
            why = listener.failure() or f"{program.name} does not listen on port {_PORT}"
            raise LabError(why)
        with Running(network.client, [*client, "--deadline=5"]) as connector:
            try:
                connector.output(TIMEOUT_S)
            except LabError as error:
                raise LabError(listener.failure(0.5) or str(error)) from None
        output = listener.output(TIMEOUT_S / 4)
    commands = (
        f"{network.server.name}$ ./{' '.join([program.name, *words])}",
        f"{network.client.name}$ {' '.join(client)}",
    )
    return _ran(commands, output, capture)


def run_together(lab: Lab, slug: str, *cases: str, source: Path | None = None) -> list[Ran]:
    """Run a lesson's program on each client of a lab at the same time, against one server.

    A case holds a client's arguments after the address and the port, such as "reno 5". If the C
    file `source` is given, the first client runs it and the others run the original.
    """
    server = [*CASES[slug].peer, f"--deadline={TIMEOUT_S:g}", "--json", "--bind"]
    with temporary_folder() as directory, ExitStack() as stack:
        mine, others = (Path(directory) / name for name in ("mine", "others"))
        mine.mkdir()
        others.mkdir()
        first = compile_source(source or path_of(slug), mine)
        rest = compile_source(original(slug), others) if source else first
        captures = [stack.enter_context(host.capture(snaplen=128)) for host in lab.clients]
        listener = stack.enter_context(Running(lab.server, [*server, lab.server.address]))
        target = [lab.server.address, str(listener.port())]
        lines = [
            [str(program), *target, *case.split()]
            for program, case in zip([first, *[rest] * (len(cases) - 1)], cases, strict=True)
        ]
        running = [
            stack.enter_context(Running(host, line))
            for host, line in zip(lab.clients, lines, strict=True)
        ]
        outputs = [program.output(TIMEOUT_S).strip() for program in running]
        finished = []
        for host, line, output, capture in zip(lab.clients, lines, outputs, captures, strict=True):
            command = f"{host.name}$ ./{' '.join([slug, *line[1:]])}"
            finished.append((command, output, capture))
    ran = []
    for command, output, capture in finished:
        with capture:
            ran.append(Ran((command,), output, capture.segments, b""))
    return ran


@contextmanager
def _given(network: Network, stdin: str, file: Path | None) -> Iterator[int]:
    """Yield the standard input of a program: nothing, the file, or a pipe from a command."""
    if stdin in ("", "FILE"):
        with (file if file and stdin else Path(os.devnull)).open("rb") as opened:
            yield opened.fileno()
        return
    words = [str(file) if word == "FILE" else word for word in stdin.split()]
    with network.client.start(
        words, text=False, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as writer:
        assert writer.stdout is not None
        yield writer.stdout.fileno()


def _shown(command: str, stdin: str) -> str:
    """Return a command with its standard input, as a user would type it in a shell."""
    if stdin in ("", "FILE"):
        return f"{command} < FILE" if stdin else command
    return f"{stdin} | {command}"


def _bytes_read() -> int:
    """Return how many bytes this process and its ended children have read; -1 if not counted."""
    try:
        counts = Path("/proc/self/io").read_text().split()
    except OSError:
        return -1
    return int(counts[counts.index("rchar:") + 1])
