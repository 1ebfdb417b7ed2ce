"""Compile a lesson's program, and run it on the hosts of a network."""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final, Self

from tcplab.capture import Capture
from tcplab.course.short_c.cases import CASES
from tcplab.course.short_c.ran import Ran
from tcplab.course.short_c.sources import original, path_of
from tcplab.errors import LabError
from tcplab.experiments.diagnosis.run import compile_source, stream_of
from tcplab.experiments.files import file_of
from tcplab.lab import Lab, Network
from tcplab.lab.scratch import temporary_folder
from tcplab.programs.calls import read_calls
from tcplab.programs.pair import Running, await_end, await_listener

TIMEOUT_S: Final = 20.0
_PORT: Final = 7000  # port on which a lesson's program listens
#: Time for the last segments of a connection after a program has ended.
_LAST_SEGMENTS_S: Final = 1.0
#: The largest payload that is recorded completely. Jumbo frames fit, and only offload makes longer
#: packets.
_KEPT_BYTES: Final = 9000


def run(
    network: Network,
    slug: str,
    *arguments: str,
    source: Path | None = None,
    file_mb: float = 0,
    count_calls: bool = False,
    stdin: str = "",
    server: Sequence[str] = (),
) -> Ran:
    """Compile a lesson's program and run it, with a program of the course on the other host.

    Args:
        *arguments: the program's arguments after address and port.
        source: C file to run instead of the learner's copy or the original.
        file_mb: size in 10^6 bytes of a file of random bytes, or 0 for none. Its path is the last
            argument unless `stdin` is given.
        count_calls: record the client's system calls, which makes each of them slower.
        stdin: "FILE" for that file, a command to pipe from, such as "cat FILE", or "" for no input.
        server: command of the program on the other host; by default that of the lesson's Case.
            Without any command, a UDP socket of this process receives.
    """
    case = CASES[slug]
    peer = [word.format(*arguments) for word in server or case.peer.split("|")[0].split()]
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
    file_mb: float,
    count_calls: bool,
    stdin: str,
) -> Ran:
    server = [*peer, "--deadline=5", "--json", "--bind", network.server.address]
    log = program.parent / "log"
    with ExitStack() as stack:
        size = round(file_mb * 1_000_000)
        file = stack.enter_context(file_of(size)) if size else None
        given = stack.enter_context(_Input(network, stdin, file))
        with (
            network.client.capture(snaplen=_KEPT_BYTES + 100) as capture,
            Running(network.server, server) if peer else _receiver(network) as listener,
        ):
            port = listener.port() if isinstance(listener, Running) else listener.getsockname()[1]
            words = [network.server.address, str(port), *arguments]
            recorder = ["calls", str(log), "--"] if count_calls else []
            last = [str(file)] if file and not stdin else []
            command = [*recorder, str(program), *words, *last]
            with Running(network.client, command, stdin=given.descriptor) as client:
                client.name = program.name
                given.supply(client.pid)
                output = client.output(TIMEOUT_S)
                ended_ns = time.time_ns()
            datagrams = [] if isinstance(listener, Running) else _datagrams(listener)
            await_end(network, port, _LAST_SEGMENTS_S)
        shown = [f"./{program.name}", *words, *(["FILE"] if last else [])]
        commands = (
            f"{network.server.name}$ {' '.join(server[:-4])}",
            f"{network.client.name}$ {given.shown(' '.join(shown))}",
        )
        return _ran(
            commands,
            output,
            capture,
            arguments=arguments,
            ended_ns=ended_ns,
            file=file.read_bytes() if file else b"",
            log=read_calls(log) if count_calls else None,
            entered_bytes=given.entered_bytes(),
            datagrams=datagrams,
        )


def _receiver(network: Network) -> socket.socket:
    """Return a UDP socket on the server with a large buffer."""
    receiver = network.server.socket(kind=socket.SOCK_DGRAM)
    receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 23)
    receiver.settimeout(_LAST_SEGMENTS_S)
    receiver.bind((network.server.address, 0))
    return receiver


def _datagrams(receiver: socket.socket) -> list[bytes]:
    """Receive until nothing has come for a while."""
    received: list[bytes] = []
    with suppress(TimeoutError):
        while True:
            received.append(receiver.recv(1 << 16))
    return received


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
        await_end(network, _PORT, _LAST_SEGMENTS_S)
    commands = (
        f"{network.server.name}$ ./{' '.join([program.name, *words])}",
        f"{network.client.name}$ {' '.join(client)}",
    )
    return _ran(commands, output, capture, arguments=arguments)


def run_together(lab: Lab, slug: str, *cases: str, source: Path | None = None) -> list[Ran]:
    """Run a lesson's program on each client of a lab at the same time, against one server.

    A case holds a client's arguments after the address and the port, such as "reno 5". If the C
    file `source` is given, the first client runs it and the others run the original.
    """
    server = [*CASES[slug].peer.split(), f"--deadline={TIMEOUT_S:g}", "--json", "--bind"]
    with temporary_folder() as directory, ExitStack() as stack:
        (others := Path(directory) / "others").mkdir()
        first = compile_source(source or path_of(slug), Path(directory))
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
    ran = []
    for host, line, output, capture in zip(lab.clients, lines, outputs, captures, strict=True):
        command = f"{host.name}$ ./{' '.join([slug, *line[1:]])}"
        with capture:
            ran.append(Ran((command,), output, capture.segments, b""))
    return ran


class _Input:
    """The standard input of a program, which is empty, a file, or a pipe that a command writes to.

    The pipe stays open until the program has taken all data and waits for more. The kernel's count
    of the bytes that the program has read is then complete.
    """

    def __init__(self, network: Network, stdin: str, file: Path | None) -> None:
        self._network, self._stdin, self._file = network, stdin, file
        self._ends = os.pipe() if stdin not in ("", "FILE") else None
        self._thread: threading.Thread | None = None
        self._entered_bytes = 0
        opened = file if stdin == "FILE" and file else Path(os.devnull)
        self.descriptor = self._ends[0] if self._ends else os.open(opened, os.O_RDONLY)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
        if self._thread:
            self._thread.join()
        elif self._ends:
            os.close(self._ends[1])

    def shown(self, command: str) -> str:
        """Return a command with its standard input, as a user would type it in a shell."""
        if self._ends:
            return f"{self._stdin} | {command}"
        return f"{command} < FILE" if self._stdin else command

    def supply(self, pid: int) -> None:
        """Start the command that writes to the pipe, if any, once the program has started."""
        if not self._ends:
            return
        os.close(self.descriptor)  # the pipe then breaks when the program ends
        self.descriptor = -1
        words = [str(self._file) if word == "FILE" else word for word in self._stdin.split()]
        writer = self._network.client.start(
            words, text=False, stdout=self._ends[1], stderr=subprocess.DEVNULL
        )
        self._thread = threading.Thread(target=self._watch, args=(self._ends[1], writer, pid))
        self._thread.start()

    def entered_bytes(self) -> int:
        """Wait for the writer; return the bytes the program read (0 without a pipe, -1 unknown)."""
        if self._thread:
            self._thread.join()
        return self._entered_bytes

    def _watch(self, pipe: int, writer: subprocess.Popen[bytes], pid: int) -> None:
        with writer:
            writer.wait()  # without a limit, because the writer ends when the program does
        self._entered_bytes = _read_when_empty(pipe, pid)
        os.close(pipe)


def _read_when_empty(pipe: int, session: int) -> int:
    """Return rchar of proc(5) of a session's processes once the pipe is empty; -1 if unreadable.

    A process includes its children that have ended. If all have ended early, the last count holds.
    """
    import fcntl
    import termios

    read_bytes = -1
    for _ in range(round(TIMEOUT_S / 0.01)):
        left = int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)
        counts = [_read_by(process, session) for process in Path("/proc").iterdir()]
        if not any(counts):
            break
        read_bytes = max(read_bytes, sum(counts))
        if not left:
            break
        time.sleep(0.01)
    return read_bytes


def _read_by(process: Path, session: int) -> int:
    """Return rchar of a process of this session, or 0 for any other entry of /proc."""
    try:
        if not process.name.isdigit() or os.getsid(int(process.name)) != session:
            return 0
        words = (process / "io").read_text().split()
        return int(words[words.index("rchar:") + 1])
    except OSError:
        return 0
