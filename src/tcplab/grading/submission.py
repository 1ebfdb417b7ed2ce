"""What a check works on: a submission's answers and files, a compiler, and the laboratory.

Answers are plain data that came out of the sandbox. Programs are compiled and run in it, on a host
of a laboratory that the grader made: the grader's own program is the peer, the grader's own
recorders watch both hosts, and the learner's program has no right over the network. So what a check
judges is what the wire saw, not what a program says of itself.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from tcplab.errors import LabError
from tcplab.grading import sandbox
from tcplab.grading.sandbox import Limits, Outcome
from tcplab.lab import Host, Lab
from tcplab.programs.compile import Built, compile_here, compile_program

if TYPE_CHECKING:
    from tcplab.segments import SegmentArray

__all__ = ["Built", "LabRun", "Submission"]

_COMPILE_LIMITS: Final = Limits(wall_s=60, cpu_s=60, processes=32, output_bytes=8 << 20)
_RUN_LIMITS: Final = Limits(
    wall_s=30, cpu_s=30, memory_bytes=512 << 20, processes=16, output_bytes=1 << 20
)


def _compile_in_sandbox(arguments: Sequence[str], given: Mapping[str, bytes]) -> tuple[bytes, str]:
    """Runs the compiler in the sandbox; what it makes comes out as bytes on a stream."""
    script = '"$@" >&2 && cat compiled'
    with _folder(given) as folder:
        outcome = sandbox.run(
            ["/bin/sh", "-c", script, "sh", "cc", *arguments, "-o", "compiled"],
            given=folder,
            limits=_COMPILE_LIMITS,
        )
    messages = outcome.errors.decode(errors="replace")
    if outcome.stopped_by or outcome.signal:
        messages = f"the compiler {outcome.how_it_ended()}\n{messages}"
    return (outcome.output if outcome.ok else b""), messages


@dataclass(frozen=True, slots=True)
class LabRun:
    """One run of the learner's program against the grader's.

    Attributes:
        outcome: how the learner's program ended, and what it printed.
        peer: what the grader's program reports (its JSON), None when it failed.
        peer_error: why it failed: often a consequence of what the learner's did.
        client_segments, server_segments: what each host's interface saw.
        answered: False when nobody listened (role "server" only).
    """

    outcome: Outcome
    peer: Mapping[str, Any] | None
    peer_error: str | None
    client_segments: SegmentArray
    server_segments: SegmentArray
    answered: bool = True

    def sent_sizes(self, from_client: bool = True) -> list[int]:
        """Payload bytes of each data segment of one direction, in order, retransmissions left out.

        As seen on the interface of the host that sent them.
        """
        rows = self.client_segments if from_client else self.server_segments
        sent = rows.data("client" if from_client else "server", retransmissions=False)
        sizes: list[int] = sent["payload_bytes"].tolist()
        return sizes


class Submission:
    """One student's submission, as a check sees it. Use it in a with statement.

    Args:
        student: the id.
        numbers: the student's own numbers.
        answers: the notebook's variables, plain data.
        files: what was handed in beside the notebook, name -> bytes.
        unsafe: compile and run without walls: for a learner's own machine.
        folder: the assignment's folder, with what was handed out (captures, headers).
    """

    def __init__(
        self,
        student: str,
        numbers: Mapping[str, Any],
        answers: Mapping[str, Any],
        files: Mapping[str, bytes],
        *,
        unsafe: bool = False,
        folder: Path | None = None,
    ) -> None:
        self.student = student
        self.numbers = numbers
        self.answers = answers
        self.files = files
        self.unsafe = unsafe
        self.folder = folder or Path()
        self._stack = ExitStack()
        self._labs: dict[str, Lab] = {}
        self._built: dict[str, Built] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    # -- compiling --

    def compile(self, name: str, *, flags: Sequence[str] = ()) -> Built:
        """Compiles a C file of the submission; the second time what came of the first.

        A source that includes a header of the course's is linked with its library.

        Raises:
            LabError: the compiler cannot be run here, or not in a sandbox.
        """
        if name not in self.files:
            return Built(name, None, f"{name} was not handed in.")
        if name not in self._built:
            compiler = compile_here if self.unsafe else _compile_in_sandbox
            source = self.files[name]
            self._built[name] = compile_program(name, source, flags=flags, compiler=compiler)
        return self._built[name]

    # -- running --

    def run_alone(
        self,
        built: Built,
        arguments: Sequence[str] = (),
        *,
        files: Mapping[str, bytes] | None = None,
        limits: Limits | None = None,
    ) -> Outcome:
        """Runs the learner's program by itself, with a loopback interface and nobody to talk to.

        Raises:
            ValueError: the program was not compiled.
            SandboxError: no sandbox can be made here.
        """
        if built.binary is None:
            raise ValueError(f"{built.name} was not compiled: {built.messages}")
        with _folder({"program": built.binary, **(files or {})}) as folder:
            return sandbox.run(
                ["./program", *arguments],
                given=folder,
                limits=limits or _RUN_LIMITS,
                unsafe=self.unsafe,
            )

    def lab(self, **parameters: Any) -> Lab:
        """A laboratory with these parameters, made once for all checks of this submission.

        Raises:
            LabError: none can be made here.
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
        role: Literal["client", "server"] = "client",
        port: int = 9000,
        lab: Mapping[str, Any] | None = None,
        files: Mapping[str, bytes] | None = None,
        limits: Limits | None = None,
        snaplen: int = 128,
    ) -> LabRun:
        """Runs the learner's program on one host and a program of the course on the other.

        Args:
            built: the program, which must have been compiled.
            arguments: its command line; "{port}" becomes the peer's port.
            peer: the course's program and its options, such as ["recordsink", "--json", "--port",
                "0"]. It must announce where it listens (--json) when the learner's is the client.
            role: of the learner's program. A server is waited for until it listens on `port`.
            port: where a server of the learner's listens.
            lab: parameters of the Lab, such as {"rtt_ms": 20}.
            files: put beside the program.
            limits: for the learner's program.
            snaplen: bytes kept of each packet.

        Raises:
            ValueError: the program was not compiled.
            LabError: no laboratory or sandbox can be made here, or the grader's own part failed.
        """
        if built.binary is None:
            raise ValueError(f"{built.name} was not compiled: {built.messages}")
        place = self.lab(**(lab or {}))
        limits = limits or _RUN_LIMITS
        given = {"program": built.binary, **(files or {})}
        with _folder(given) as folder, ExitStack() as stack:
            captures = [
                stack.enter_context(host.capture(snaplen=snaplen))
                for host in (place.client, place.server)
            ]
            side = _Side(folder, limits, self.unsafe)
            if role == "client":
                told = _as_client(side, place, arguments, peer)
            else:
                told = _as_server(side, place, arguments, peer, port)
            stack.close()  # the recordings are complete from here on
            rows = []
            for capture in captures:
                with capture:
                    if capture.drops:
                        raise LabError(f"the recorder lost {capture.drops} packets; grade again")
                    rows.append(capture.segments)
        return LabRun(*told[:3], rows[0], rows[1], answered=told[3])


_Told = tuple[Outcome, Mapping[str, Any] | None, str | None, bool]


@dataclass(frozen=True, slots=True)
class _Side:
    """The learner's side of a run."""

    folder: Path
    limits: Limits
    unsafe: bool

    def start(self, host: Host, arguments: Sequence[str]) -> sandbox.Started:
        return sandbox.start(
            ["./program", *arguments],
            given=self.folder,
            limits=self.limits,
            host=host,
            unsafe=self.unsafe,
        )


def _as_client(side: _Side, place: Lab, arguments: Sequence[str], peer: Sequence[str]) -> _Told:
    with _peer(place.server, peer) as process:
        assert process.stdout is not None
        ready = process.stdout.readline()
        try:
            port = str(json.loads(ready)["listening"])
        except (ValueError, KeyError, TypeError):
            raise LabError(f"{peer[0]} did not announce where it listens") from None
        words = [port if word == "{port}" else word for word in arguments]
        with side.start(place.client, words) as started:
            outcome = started.finish()
        report, error = _report(process, wait_s=10.0)
    return outcome, report, error, True


def _as_server(
    side: _Side, place: Lab, arguments: Sequence[str], peer: Sequence[str], port: int
) -> _Told:
    words = [str(port) if word == "{port}" else word for word in arguments]
    with side.start(place.server, words) as started:
        if not _listens(place.server, port, started, within_s=10.0):
            return started.finish_soon(), None, "nobody listened", False
        with _peer(
            place.client, [str(port) if word == "{port}" else word for word in peer]
        ) as process:
            report, error = _report(process, wait_s=float(side.limits.wall_s))
        outcome = started.finish_soon()
    return outcome, report, error, True


@contextmanager
def _peer(host: Host, argv: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    process = host.start(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def _report(
    process: subprocess.Popen[str], wait_s: float
) -> tuple[Mapping[str, Any] | None, str | None]:
    """The last line of JSON, or what went wrong."""
    try:
        out, err = process.communicate(timeout=wait_s)
    except subprocess.TimeoutExpired:
        return None, "it waited for more than came"
    lines = out.strip().splitlines()
    if process.returncode != 0 or not lines:
        return None, (err.strip().splitlines() or ["it ended without a word"])[-1]
    report: dict[str, Any] = json.loads(lines[-1])
    return report, None


def _listens(host: Host, port: int, started: sandbox.Started, within_s: float) -> bool:
    """Waits until somebody listens on the TCP port of the host: proc_net_tcp.rst, state 0A."""
    wanted = f":{port:04X}"
    deadline_s = time.monotonic() + within_s
    while time.monotonic() < deadline_s and started.process.poll() is None:
        for table in ("/proc/net/tcp", "/proc/net/tcp6"):
            with contextlib.suppress(LabError):
                for line in host.read(table).splitlines()[1:]:
                    words = line.split()
                    if words[1].endswith(wanted) and words[3] == "0A":
                        return True
        time.sleep(0.01)
    return False


@contextmanager
def _folder(files: Mapping[str, bytes]) -> Iterator[Path]:
    """A folder with the files, readable by everybody (the sandbox's user may be another)."""
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
