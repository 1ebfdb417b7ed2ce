"""Present a submission to a check, with answers, files, a compiler and the laboratory.

During grading, programs are compiled and run in the sandbox. In a laboratory, the grader's program
is their peer, and the grader's recorders capture on both hosts. A check therefore judges the
packets on the wire, not what the program claims.
"""

from __future__ import annotations

import json
import math
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from tcplab.errors import LabError
from tcplab.grading import sandbox
from tcplab.grading.archive import Stored, named_in
from tcplab.grading.checks import Verdict, choice, count, counts, number
from tcplab.grading.sandbox import Limits, Outcome, Started
from tcplab.lab import Host, Lab
from tcplab.programs.compile import Built, compile_here, compile_program
from tcplab.programs.pair import LISTEN, Running, await_listener, tcp_states

if TYPE_CHECKING:
    from tcplab.segments import Connection, SegmentArray

_COMPILE_LIMITS: Final = Limits(wall_s=20, cpu_s=12, processes=64, output_bytes=64 << 20)
_MOST_MESSAGE_BYTES: Final = 1 << 20
#: Exit status of a compiler, or of a part of it, that SIGKILL has ended, in which case the source
#: is not to blame. The status of clang's driver is that of a shell, or 254 if its linker crashed.
_KILLED: Final = (128 + signal.SIGKILL, 254)
#: Compile with "$@", and print the program. gcc's status does not tell how its parts ended, so they
#: run in a shell that notes it. Messages are no proof, because #line imitates any.
_COMPILE: Final = r"""
part='sh,-c,"$0" "$@"; status=$?; [ $status != 137 ] || : >killed; exit $status'
case "$(cc --version)" in
*clang*) cc "$@" >&2 ;;
*) cc -fmax-errors=50 -wrapper "$part" "$@" >&2 ;;
esac
status=$?
[ ! -e killed ] || exit 137
[ $status = 0 ] && exec cat compiled
exit $status
"""
_RUN_LIMITS: Final = Limits(
    wall_s=30, cpu_s=30, memory_bytes=512 << 20, processes=16, output_bytes=1 << 20
)
#: How long a server may take to end after its peer has ended.
_GRACE_S: Final = 2.0
#: How long the data of a client may take to reach its peer.
_PATIENCE_S: Final = 10.0
NOT_LISTENING: Final = "the server did not listen"


def _compile_in_sandbox(arguments: Sequence[str], given: Mapping[str, bytes]) -> tuple[bytes, str]:
    """Run the compiler in the sandbox; return the program (b"" if none) and the messages."""
    with _folder(given) as folder:
        outcome = sandbox.run(
            ["/bin/sh", "-c", _COMPILE, "sh", *arguments, "-o", "compiled"],
            given=folder,
            limits=_COMPILE_LIMITS,
        )
    messages = outcome.errors[:_MOST_MESSAGE_BYTES].decode(errors="replace")
    if outcome.stopped_by in ("wall", "watch") or outcome.was_killed:
        raise LabError(f"the compiler {outcome.how_it_ended()}")
    if outcome.exit_status in _KILLED:
        raise LabError("the compiler was killed; is there enough memory?")
    if len(outcome.output) == _COMPILE_LIMITS.output_bytes:
        return b"", f"the program has more than {_COMPILE_LIMITS.output_bytes >> 20} MiB"
    if outcome.stopped_by:
        return b"", f"the compiler {outcome.how_it_ended()}\n{messages}"
    return (outcome.output if outcome.ok else b""), messages


@dataclass(frozen=True, slots=True)
class LabRun:
    """The record of one run of the learner's program with the grader's program as its peer.

    With TCP, the segments are those of the first connection, or of all if several are allowed.
    """

    outcome: Outcome  #: end and output of the learner's program
    peer: Mapping[str, Any] | None  #: report of the grader's program, or None if it failed
    peer_error: str | None  #: why the peer failed (often because of the learner's program)
    client_segments: SegmentArray  #: segments at the client's interface
    server_segments: SegmentArray  #: segments at the server's interface

    @property
    def answered(self) -> bool:
        """False if the learner's program was the server and did not listen."""
        return self.peer_error != NOT_LISTENING


def _by_name(check: Callable[..., Verdict]) -> Callable[..., Verdict]:
    """Return a method that applies a check of tcplab.grading.checks to the answer of a name."""

    def checked(self: Submission, name: str, *expected: Any, **options: Any) -> Verdict:
        return check(self.answers[name], *expected, name=name, **options)

    return checked


@dataclass(eq=False)
class Submission:
    """One student's submission, as a check sees it, for use in a with statement."""

    student: str
    numbers: Mapping[str, Any]
    answers: Mapping[str, Any]  #: the notebook's variables as plain data
    files: Mapping[str, bytes]
    unsafe: bool = False  #: True to use no sandbox, on a learner's own machine
    folder: Path = Path()  #: where the archive of the captures is
    deadline_s: float = math.inf  #: when the programs are ended, by time.monotonic()
    flags: list[str] = field(default_factory=list, init=False)

    check_number = _by_name(number)
    check_count = _by_name(count)
    check_counts = _by_name(counts)
    check_choice = _by_name(choice)

    def __post_init__(self) -> None:
        self._stack = ExitStack()
        self._labs: dict[str, Lab] = {}
        self._built: dict[tuple[str, ...], Built | LabError] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def captures(self) -> list[Stored]:
        return [Stored(self.folder, name) for name in named_in(self.numbers)]

    @property
    def capture(self) -> Stored:
        (capture,) = self.captures
        return capture

    @property
    def is_late(self) -> bool:
        return time.monotonic() > self.deadline_s

    # -- compiling --

    def compile(self, name: str, *, flags: Sequence[str] = ()) -> Built:
        """Compile a C file of the submission; checks that use the same flags share the result."""
        if name not in self.files:
            return Built(name, None, f"{name} was not handed in.")
        if (name, *flags) not in self._built:
            self._built[(name, *flags)] = self._compile(name, flags)
        if isinstance(built := self._built[(name, *flags)], LabError):
            raise built
        return built

    def _compile(self, name: str, flags: Sequence[str]) -> Built | LabError:
        compiler = compile_here if self.unsafe else _compile_in_sandbox
        try:
            built = compile_program(name, self.files[name], flags=flags, compiler=compiler)
        except LabError as error:
            return error
        if built.binary is None and not self.unsafe and (reason := sandbox.why_no_compiler()):
            return LabError(reason)
        return built

    # -- running --

    @contextmanager
    def start(
        self,
        built: Built,
        arguments: Sequence[str] = (),
        *,
        host: Host | None = None,
        files: Mapping[str, bytes] | None = None,
        limits: Limits = _RUN_LIMITS,
    ) -> Iterator[Started]:
        """Start the learner's program on a host of a Lab, or without a network.

        Leaving the with block raises LabError if SIGKILL ended the program within its limits.
        """
        if built.binary is None:
            raise ValueError(f"{built.name} was not compiled: {built.messages}")
        left_s = self.deadline_s - time.monotonic()
        limits = replace(limits, wall_s=int(max(1, min(limits.wall_s, left_s))))
        with (
            _folder({"program": built.binary, **(files or {})}) as folder,
            sandbox.start(
                ["./program", *arguments],
                given=folder,
                limits=limits,
                host=host,
                unsafe=self.unsafe and not limits.no_file_reads,
            ) as started,
        ):
            yield started
            if started.dropped_bytes:
                more = f"{limits.output_bytes} bytes and {started.dropped_bytes} more"
                self.flags.append(f"output-cut: {built.name} printed {more}")
            if started.outcome and started.outcome.was_killed:
                raise LabError(f"{built.name} was ended by SIGKILL; is there enough memory?")

    def lab(self, **parameters: Any) -> Lab:
        """Return a laboratory for the grader's own packets; checks with equal parameters share it.

        A program gets a new laboratory for each run (see :meth:`run_in_lab`).
        """
        key = json.dumps(parameters, sort_keys=True)
        if key not in self._labs:
            self._labs[key] = self._stack.enter_context(Lab(**parameters))
        return self._labs[key]

    def run_in_lab(
        self,
        built: Built,
        arguments: Sequence[str],
        *,
        peer: Sequence[str],
        server_port: int | None = None,
        lab: Mapping[str, Any] | None = None,
        files: Mapping[str, bytes] | None = None,
        limits: Limits = _RUN_LIMITS,
        connections: int = 1,
        during: Callable[[Lab], AbstractContextManager[Any]] = nullcontext,
    ) -> LabRun:
        """Run the learner's program on one host, and a program of the course on the other.

        Each run has new hosts, so that no port in TIME_WAIT, process or metric of an earlier run is
        left. In the arguments of both programs, "{port}" is replaced by the server's port. A server
        of the course must print it (--json).

        Args:
            server_port: port on which the learner's program must listen, if it is the server.
            lab: parameters of the Lab, such as {"rtt_ms": 20}; under "to_server" those with which
                Link.update() changes the way to the server; and "initial_window" in segments.
            connections: number of connections that are allowed. If there may be several, the
                segments of all are returned.
            during: returns a context in which both programs run, such as a measurement.
        """
        start = partial(self.start, built, files=files, limits=limits)
        parameters = dict(lab or {})
        to_server, window = (parameters.pop(key, None) for key in ("to_server", "initial_window"))
        with Lab(**parameters) as network:
            if to_server is not None:
                network.link.update("client->server", **to_server)
            if window is not None:
                network.set_initial_window(window)
            with (
                network.client.capture() as client_capture,
                network.server.capture() as server_capture,
                during(network),
            ):
                if server_port is None:
                    ends, port = _as_client(start, network, arguments, peer)
                else:
                    ends = _as_server(start, network, arguments, peer, port := server_port)
            with client_capture, server_capture:
                if drops := (client_capture.drops or 0) + (server_capture.drops or 0):
                    raise LabError(f"the recorders lost {drops} packets; grade again")
                rows = client_capture.segments, server_capture.segments
        first, others = _connections(rows[1], port)
        if (more := others - (connections - 1)) > 0:
            self.flags.append(f"other-connections: {built.name} made {more} more than allowed")
        shown = first if connections == 1 else None
        return LabRun(*ends, _of(rows[0], shown), _of(rows[1], shown))


_Start = Callable[..., AbstractContextManager[Started]]
_Ends = tuple[Outcome, Mapping[str, Any] | None, str | None]


def _as_client(
    start: _Start, network: Lab, arguments: Sequence[str], peer: Sequence[str]
) -> tuple[_Ends, int]:
    with Running(network.server, peer) as listener:
        port = listener.port()
        with start(_with_port(arguments, str(port)), host=network.client) as started:
            outcome = started.finish()
        return (outcome, *_report(listener, _patience_s(network.server, port, listener))), port


def _patience_s(host: Host, port: int, peer: Running) -> float:
    """Wait for data in flight to the peer, and return how long to wait for its report after that.

    Without a connection to the port, no more data will come.
    """
    end_s = time.monotonic() + _PATIENCE_S
    while (states := tcp_states(host, port)) and not peer.ended() and time.monotonic() < end_s:
        if states == {LISTEN}:
            return _GRACE_S
        time.sleep(0.02)
    return max(_GRACE_S, end_s - time.monotonic())


def _connections(rows: SegmentArray, port: int) -> tuple[Connection | None, int]:
    """Return the first TCP connection to this port and the number of others, or (None, 0)."""
    tcp = [connection for connection in rows.connections if connection.protocol == "tcp"]
    numbers = rows[rows.from_client & ~rows.is_syn]["connection"]
    made = [rows.connections[number] for number in dict.fromkeys(map(int, numbers))]
    first = next((one for one in made if one.server[1] == port and one in tcp), None)
    return (None, 0) if first is None else (first, len(tcp) - 1)


def _of(rows: SegmentArray, connection: Connection | None) -> SegmentArray:
    if connection is None:
        return rows
    numbers = [number for number, other in enumerate(rows.connections) if other == connection]
    return rows.of(numbers[0] if numbers else -1)


def _as_server(
    start: _Start, network: Lab, arguments: Sequence[str], peer: Sequence[str], port: int
) -> _Ends:
    with start(_with_port(arguments, str(port)), host=network.server) as started:

        def ended() -> bool:
            started.read(0.0)  # the pipes must be emptied, so that the program never waits for us
            return started.process.poll() is not None

        if not await_listener(network.server, port, ended, within_s=10.0):
            return started.finish(_GRACE_S), None, NOT_LISTENING
        with Running(network.client, _with_port(peer, str(port))) as connector:
            end_s = time.monotonic() + started.limits.wall_s
            started.read(float(started.limits.wall_s), until=connector.ended)
            report = _report(connector, timeout_s=max(_GRACE_S, end_s - time.monotonic()))
        return started.finish(_GRACE_S), *report


def _with_port(words: Sequence[str], port: str) -> list[str]:
    return [port if word == "{port}" else word for word in words]


def _report(peer: Running, timeout_s: float) -> tuple[Mapping[str, Any] | None, str | None]:
    try:
        return peer.report(timeout_s), None
    except LabError as error:
        return None, str(error) if peer.ended() else "it waited for more than came"


@contextmanager
def _folder(files: Mapping[str, bytes]) -> Iterator[Path]:
    """Yield a folder with the files, readable by all, as the sandbox may use another user."""
    with tempfile.TemporaryDirectory(prefix="tcplab-given-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        for file, data in files.items():
            path = folder / file
            if path.parent.resolve() != folder.resolve():
                raise ValueError(f"{file}: a file's name must not lead out of its folder")
            path.write_bytes(data)
            path.chmod(0o755 if data.startswith(b"\x7fELF") else 0o644)
        yield folder
