"""Runs untrusted commands in their own namespaces, with resource limits, and leaves nothing behind.

The sandbox is made by the C program sandbox_run (its first comment says of what). This module
decides what can be seen from inside, reads what comes out, never more than was allowed, and says
how it ended. What comes back is bytes; callers parse and validate them.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import IO, Any, Final, Self

from tcplab.errors import LabError, SandboxError
from tcplab.lab import Host, program_path
from tcplab.programs.pair import long_options
from tcplab.programs.sources import source_folder

MIB: Final = 1 << 20
#: A program whose output is dropped may go on, but not for ever.
MOST_DROPPED_BYTES: Final = 64 * MIB

#: Limits that the reader of the streams keeps; the others are sandbox_run's.
_KEPT_HERE: Final = ("output_bytes", "result_bytes")


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a sandboxed command: of all its processes together unless said otherwise."""

    wall_s: int = 120  #: time by the clock
    cpu_s: int = 120  #: time of all processors
    #: memory; shared pages count as often as they are shared, and sockets as if they were full
    memory_bytes: int = 2048 * MIB
    process_bytes: int = 4096 * MIB  #: address space of each process
    processes: int = 64  #: how many at a time, and each thread is one
    folder_bytes: int = 256 * MIB  #: what it writes to its folder, /tmp and /dev/shm together
    file_bytes: int = 64 * MIB  #: the largest file
    #: on standard output, and as many on standard error; what is more is dropped
    output_bytes: int = 1 * MIB
    result_bytes: int = 8 * MIB  #: on the result channel
    #: a call that brings bytes of a file into memory ends it by SIGSYS, so link it statically
    no_file_reads: bool = False

    def options(self) -> list[str]:
        """Of sandbox_run."""
        return long_options(
            **{
                each.name: getattr(self, each.name)
                for each in fields(self)
                if each.name not in _KEPT_HERE
            }
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a sandboxed command, and its output."""

    exit_status: int | None  #: None when it did not exit by itself
    signal: str | None  #: the name of the signal that ended it, else None
    #: the limit that was passed ("wall", "cpu", "memory", "processes", "output"), or "watch" when
    #: nobody could see any more whether one was; else None
    stopped_by: str | None
    left_behind: int  #: processes that it had started and that were alive when it ended
    output: bytes  #: standard output, at most as long as was allowed
    errors: bytes  #: standard error, likewise
    result: bytes  #: what was written to the result channel, likewise
    sandboxed: bool = True  #: False for a run without a sandbox
    dropped_bytes: int = 0  #: of standard output and error, beyond what was allowed

    @property
    def ok(self) -> bool:
        """Whether it ended by itself and with status 0."""
        return self.exit_status == 0 and self.stopped_by is None

    def how_it_ended(self) -> str:
        """Says how it ended, for a message to a learner."""
        dropped = f" ({self.dropped_bytes} bytes that it printed were dropped)"
        return self._end() + dropped * bool(self.dropped_bytes)

    def _end(self) -> str:
        words = {
            "wall": "did not end in the time it has",
            "cpu": "used up the processor time it has",
            "memory": "took more memory than it may",
            "processes": "started more processes or threads than it may",
            "output": "printed more than it may",
            "watch": "could not be watched any more",
        }
        if self.stopped_by:
            return words.get(self.stopped_by, f"was stopped by the limit '{self.stopped_by}'")
        if self.signal:
            return f"was ended by {self.signal}"
        return f"ended with exit status {self.exit_status}"


# ---- what can be seen from inside ----------------------------------------------------------------


def _visible_paths() -> list[Path]:
    """Python, this package and the course's programs, wherever they are installed.

    Raises:
        SandboxError: one of them is installed where more is than may be seen.
    """
    package = Path(__file__).resolve().parent.parent
    wanted = [
        Path(sys.prefix),
        Path(sys.base_prefix),
        Path(sysconfig.get_path("platlib")),
        # Of a Python that borrows another environment's packages.
        *(Path(each) for each in sys.path if each.endswith(("site-packages", "dist-packages"))),
        package,
        *(source_folder() / kind for kind in ("programs", "laboratory", "common")),
        program_path("sandbox_run").resolve().parent,
    ]
    shown: list[Path] = []
    # Shortest first, so that what lies within another is not bound twice.
    for path in sorted({path.absolute() for path in wanted if path.exists()}, key=lambda p: str(p)):
        if Path.home().is_relative_to(path) and path != Path("/usr"):
            raise SandboxError(
                f"no sandbox: Python or the course is installed in {path} itself, so that a"
                " submission that sees Python would see your home; install them in a folder below"
            )
        inside = any(path.is_relative_to(each) for each in [*shown, Path("/usr")])
        if not inside:
            shown.append(path)
    return shown


def _environment(extra: Mapping[str, str] | None) -> dict[str, str]:
    """Nothing of the grader's own: tokens and passwords are often in the environment."""
    package = Path(__file__).resolve().parent.parent
    path = [str(Path(sys.executable).parent), str(program_path("sandbox_run").parent)]
    environment = {
        "PATH": os.pathsep.join([*path, "/usr/local/bin", "/usr/bin", "/bin"]),
        "HOME": "/submission",
        "TMPDIR": "/tmp",
        "LANG": "C.UTF-8",
        "USER": "learner",
        # No pool of threads for each of 300 submissions.
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": str(package.parent),
        "IPYTHONDIR": "/tmp/ipython",
        "MPLCONFIGDIR": "/tmp/matplotlib",
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        "NBGRADER_EXECUTION": "autograde",
    }
    if override := os.environ.get("TCPLAB_BIN"):
        environment["TCPLAB_BIN"] = override
    return {**environment, **(extra or {})}


# ---- starting ------------------------------------------------------------------------------------


@dataclass
class Started:
    """A sandboxed command that runs. Usable in a with statement, at whose end nothing is left."""

    process: subprocess.Popen[bytes]
    control: socket.socket | None
    limits: Limits
    result: IO[bytes] | None
    owned: ExitStack
    started_s: float = field(default_factory=time.monotonic)
    dropped_bytes: int = 0

    def __post_init__(self) -> None:
        streams = {"output": self.process.stdout, "errors": self.process.stderr}
        self._taken: dict[str, bytearray] = {name: bytearray() for name in (*streams, "result")}
        self._selector = self.owned.enter_context(selectors.DefaultSelector())
        for name, stream in {**streams, "result": self.result}.items():
            if stream is not None:
                self._selector.register(stream, selectors.EVENT_READ, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends it and everything that it started. May be called again."""
        if self.control is not None:
            self.control.close()
        if self.process.poll() is None:
            if self.control is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self.process.pid, signal.SIGKILL)
            try:
                self.process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        for stream in (self.process.stdout, self.process.stderr, self.process.stdin):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        self.owned.close()

    def finish(self, within_s: float | None = None) -> Outcome:
        """Waits for its end and reads its output; stops it when that is too much.

        Args:
            within_s: for a program that has nothing left to do: it is stopped after this time.

        Raises:
            SandboxError: the sandbox could not be made; the message says why.
        """
        try:
            stopped = self.read(
                self._deadline_s() - time.monotonic() if within_s is None else within_s
            )
            more: dict[str, Any] = {name: bytes(data) for name, data in self._taken.items()}
            more |= {"sandboxed": self.control is not None, "dropped_bytes": self.dropped_bytes}
            if stopped is not None:
                return Outcome(None, None, stopped, 0, **more)
            report = self._report(more["errors"])
            return Outcome(
                report["exit_status"] if report["exit_status"] >= 0 else None,
                signal.Signals(report["signal"]).name if report["signal"] else None,
                report["stopped_by"] or None,
                report["left_behind"],
                **more,
            )
        finally:
            self.stop()

    def read(self, within_s: float, until: Callable[[], bool] | None = None) -> str | None:
        """Takes what it prints, so that it never waits for a reader; more than its limit is lost.

        Args:
            within_s: at most so long; 0 takes what is there.
            until: stops when this holds.

        Returns:
            The limit that was passed ("wall", "output"); None when it held, or all streams ended.
        """
        end_s, longest_s = time.monotonic() + within_s, 0.01 if until else 1.0
        while self._selector.get_map() and not (until and until()):
            left_s = end_s - time.monotonic()
            for key, _ in self._selector.select(timeout=max(0.0, min(left_s, longest_s))):
                if not (data := os.read(key.fd, 1 << 16)):
                    self._selector.unregister(key.fileobj)
                elif (lost := len(data) - self._keep(key.data, data)) > 0:
                    self.dropped_bytes += lost
                    if key.data == "result" or self.dropped_bytes > MOST_DROPPED_BYTES:
                        return "output"
            if left_s <= 0:
                return "wall"
        return None

    def _keep(self, stream: str, data: bytes) -> int:
        """Keeps as much of it as is allowed; returns how much that is."""
        most = self.limits.result_bytes if stream == "result" else self.limits.output_bytes
        kept = data[: most - len(self._taken[stream])]
        self._taken[stream] += kept
        return len(kept)

    def _deadline_s(self) -> float:
        """A little later than the sandbox's own watch ends it, which is the one that says why."""
        return self.started_s + self.limits.wall_s + 5

    def _report(self, errors: bytes) -> dict[str, Any]:
        """The end as sandbox_run reports it; without a sandbox, as the process itself shows it."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=max(self._deadline_s() - time.monotonic(), 0.1))
        if self.control is None:
            report = {"exit_status": -1, "signal": 0, "stopped_by": "", "left_behind": 0}
            if (code := self.process.returncode) is None:
                return report | {"stopped_by": "wall"}
            return report | {"exit_status": code, "signal": max(0, -code)}
        self.control.settimeout(5)
        try:
            line = self.control.recv(4096)
        except OSError:
            line = b""
        if not line:
            words = errors.decode(errors="replace").strip().splitlines()
            reason = words[-1] if words else "sandbox_run ended without a message"
            raise SandboxError(f"no sandbox: {reason.removeprefix('sandbox_run: ')}")
        reported: dict[str, Any] = json.loads(line)
        return reported


def start(
    argv: Sequence[str],
    *,
    given: Path | None = None,
    limits: Limits | None = None,
    host: Host | None = None,
    lab_allowed: bool = False,
    env: Mapping[str, str] | None = None,
    stdin: IO[bytes] | None = None,
    with_result: bool = False,
    unsafe: bool = False,
) -> Started:
    """Starts a command in a sandbox.

    Args:
        argv: the command. The word "{result}" becomes the number of the result channel's
            descriptor.
        given: a folder that is copied to /submission, where the command starts; every user must be
            able to read it.
        limits: what it may use.
        host: a host of a Lab whose network it is to have; else it has one of its own, with a
            loopback interface.
        lab_allowed: it may make further namespaces, and so a Lab of its own.
        env: added to a small environment.
        stdin: its standard input, else /dev/null.
        with_result: make a result channel.
        unsafe: no sandbox at all, only the limits on time and output.

    Raises:
        LabError: the laboratory is closed, or sandbox_run is not built.
    """
    limits = limits or Limits()
    spawn: Any = partial(subprocess.Popen, start_new_session=True)
    if host is not None:
        spawn = partial(host.start, privileged=False, text=False)
    # What is kept is closed by Started, or here on the way out of an error.
    with ExitStack() as kept, ExitStack() as given_away:
        words, fds, result = list(argv), [], None
        if with_result:
            result, writer = _result_channel(kept, given_away)
            words = [str(writer) if word == "{result}" else word for word in words]
            fds = [writer]
        control, cwd, environment = None, None, _environment(env)
        if unsafe:
            cwd = kept.enter_context(tempfile.TemporaryDirectory(prefix="tcplab-unsafe-"))
            words, environment = _without_sandbox(words, cwd, given, env)
        else:
            control, theirs = socket.socketpair()
            kept.enter_context(control)
            given_away.enter_context(theirs)
            fds.append(theirs.fileno())
            options = limits.options() + _options(given, host, lab_allowed)
            program = str(program_path("sandbox_run"))
            words = [program, *options, "--", str(theirs.fileno()), *words]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        given_in = stdin or subprocess.DEVNULL
        process = spawn(words, env=environment, pass_fds=fds, cwd=cwd, stdin=given_in, **pipes)
        return Started(process, control, limits, result, kept.pop_all())


def _result_channel(kept: ExitStack, given_away: ExitStack) -> tuple[IO[bytes], int]:
    """The reading end of a pipe, and the descriptor of its writing end."""
    reader, writer = os.pipe()
    given_away.callback(os.close, writer)
    return kept.enter_context(os.fdopen(reader, "rb", buffering=0)), writer


def _options(given: Path | None, host: Host | None, lab_allowed: bool) -> list[str]:
    """Of sandbox_run, without the limits."""
    options = [f"--bind={path}" for path in _visible_paths()]
    options += [f"--given={given}"] if given else []
    options += ["--keep-network"] if host else []
    return options if lab_allowed else [*options, "--no-lab"]


def _without_sandbox(
    words: Sequence[str], folder: str, given: Path | None, env: Mapping[str, str] | None
) -> tuple[list[str], dict[str, str]]:
    """The command and its environment when it runs in a plain folder."""
    if given:
        shutil.copytree(given, folder, dirs_exist_ok=True)
    if words[0].startswith("./"):  # of the folder, which is not yet the working directory
        words = [str(Path(folder) / words[0]), *words[1:]]
    return list(words), _environment({"HOME": folder, "TMPDIR": folder, **(env or {})})


def run(argv: Sequence[str], **options: Any) -> Outcome:
    """Runs a command in a sandbox to its end: see :func:`start`.

    Raises:
        SandboxError: the sandbox could not be made.
    """
    with start(argv, **options) as started:
        return started.finish()


def why_no_sandbox() -> str | None:
    """None when submissions can be judged here; otherwise the reason and the cure, in one line.

    A trial, not a guess: it makes a sandbox, compiles a C program in it, and makes a laboratory.
    """
    from tcplab.lab import why_no_lab

    try:
        return why_no_lab() or why_no_compiler()
    except (LabError, SandboxError) as error:
        return str(error)


def why_no_compiler() -> str | None:
    """None when C programs can be compiled and run in the sandbox, else why not and the cure."""
    script = "echo 'int main(void) { return 0; }' | cc -x c - -o program && ./program"
    outcome = run(["/bin/sh", "-c", script], limits=Limits(wall_s=20))
    if outcome.ok:
        return None
    words = (outcome.errors.decode(errors="replace").splitlines() or [outcome.how_it_ended()])[0]
    return f"no C program can be built in the sandbox ({words}): apt install gcc libc6-dev"
