"""Run untrusted commands in separate namespaces with limits, and leave nothing behind.

The C program sandbox_run makes the sandbox; its first comment describes how. This module decides
which files are visible inside, reads the output up to the limits, and reports how a command ended.
"""

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
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any, Final, Self

from tcplab.errors import LabError, SandboxError
from tcplab.lab import Host, program_path
from tcplab.programs.pair import arguments
from tcplab.programs.sources import source_folder

MIB: Final = 1 << 20
#: Number of bytes at an output's end that are kept, whatever its length.
_LAST_BYTES: Final = 4096
#: A program is stopped once more than this many bytes of its output have been dropped.
MOST_DROPPED_BYTES: Final = 64 * MIB


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits on a sandboxed command. They apply to all its processes together unless noted."""

    wall_s: int = 120  #: wall-clock time
    cpu_s: int = 120  #: time on the processor
    #: memory, in which shared pages count once per process, and sockets as if they were full
    memory_bytes: int = 2048 * MIB
    processes: int = 64  #: number of processes and threads at a time
    folder_bytes: int = 256 * MIB  #: total size of its folder, /tmp and /dev/shm
    file_bytes: int = 64 * MIB  #: size of the largest file
    #: bytes on standard output, and on standard error; further output is dropped
    output_bytes: int = 1 * MIB
    result_bytes: int = 8 * MIB  #: bytes on the result channel
    #: True if SIGSYS ends a command that reads a file into memory. With this limit, a program must
    #: be linked statically
    no_file_reads: bool = False

    def options(self) -> list[str]:
        """Return the options of sandbox_run; the reader of the streams enforces the others."""
        options = asdict(self)
        del options["output_bytes"], options["result_bytes"]
        return arguments(**options)


_DEFAULT: Final = Limits()


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a sandboxed command, and its output."""

    exit_status: int | None  #: None if the command did not exit by itself
    signal: str | None  #: name of the signal that ended the command, or None
    #: the limit that was exceeded ("wall", "cpu", "memory", "processes", "output"), "watch" if the
    #: limits could no longer be watched, or None
    stopped_by: str | None
    left_behind: int  #: number of its processes that were still running at its end
    output: bytes  #: standard output, up to the limit
    errors: bytes  #: standard error, up to the limit
    result: bytes  #: data on the result channel, up to the limit
    dropped_bytes: int = 0  #: bytes of standard output and error beyond the limits

    @property
    def ok(self) -> bool:
        return self.exit_status == 0 and self.stopped_by is None

    @property
    def was_killed(self) -> bool:
        """True if SIGKILL ended the command within all limits, as when memory runs out."""
        return self.signal == "SIGKILL" and self.stopped_by is None

    def how_it_ended(self) -> str:
        """Describe to a learner how the program ended."""
        reasons = {
            "wall": "did not end within its time limit",
            "cpu": "used up its processor time",
            "memory": "used more memory than allowed",
            "processes": "started more processes or threads than allowed",
            "output": "printed more than allowed",
            "watch": "could not be watched any more",
        }
        status = f"ended with exit status {self.exit_status}"
        by_itself = f"was ended by {self.signal}" if self.signal else status
        end = reasons.get(self.stopped_by or "", by_itself)
        dropped = f" ({self.dropped_bytes} bytes of its output were dropped)"
        return f"{end}{dropped}" if self.dropped_bytes else end


# ---- files and environment inside ----------------------------------------------------------------


def _visible_paths() -> list[Path]:
    """Return the paths of Python, this package and the course's programs."""
    package = Path(__file__).resolve().parent.parent
    wanted = [
        Path(sys.prefix),
        Path(sys.base_prefix),
        Path(sysconfig.get_path("platlib")),
        # Python may also import packages of another environment.
        *(Path(part) for part in sys.path if part.endswith(("site-packages", "dist-packages"))),
        package,
        *(source_folder() / kind for kind in ("programs", "laboratory", "common")),
        program_path("sandbox_run").resolve().parent,
    ]
    shown = [Path("/usr")]
    # A folder sorts before the paths within it, which then need no further bind mount.
    for path in sorted({path.absolute() for path in wanted if path.exists()}):
        if Path.home().is_relative_to(path) and path != Path("/usr"):
            raise SandboxError(
                f"no sandbox: Python or the course is installed in {path} itself, so that a"
                " submission that sees Python would see your home; install them in a subfolder"
            )
        if not any(path.is_relative_to(place) for place in shown):
            shown.append(path)
    return shown[1:]


def _environment(extra: Mapping[str, str] | None) -> dict[str, str]:
    """Return an environment without the grader's variables, which may contain passwords."""
    package = Path(__file__).resolve().parent.parent
    path = [str(Path(sys.executable).parent), str(program_path("sandbox_run").parent)]
    environment = {
        "PATH": os.pathsep.join([*path, "/usr/local/bin", "/usr/bin", "/bin"]),
        "HOME": "/submission",
        "TMPDIR": "/tmp",
        "LANG": "C.UTF-8",
        "USER": "learner",
        # No submission needs a pool of threads.
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
    """A running sandboxed command. Leaving the with block ends it with all its processes."""

    process: subprocess.Popen[bytes]
    control: socket.socket | None
    limits: Limits
    result: IO[bytes] | None
    owned: ExitStack
    started_s: float = field(default_factory=time.monotonic)
    dropped_bytes: int = 0
    outcome: Outcome | None = None  #: set by finish() if the command ended by itself or a limit

    def __post_init__(self) -> None:
        streams = {"output": self.process.stdout, "errors": self.process.stderr}
        self._taken: dict[str, bytearray] = {name: bytearray() for name in (*streams, "result")}
        self._last: dict[str, bytes] = dict.fromkeys(self._taken, b"")  # the end of each cut output
        self._selector = self.owned.enter_context(selectors.DefaultSelector())
        for name, stream in {**streams, "result": self.result}.items():
            if stream is not None:
                self._selector.register(stream, selectors.EVENT_READ, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the command and all its processes. Calling it again has no effect."""
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
        with self.process:  # closes its streams, and waits for its end
            pass
        self.owned.close()

    def finish(self, within_s: float | None = None) -> Outcome:
        """Wait for the end and read the output; stop the command if it exceeds a limit.

        `within_s` limits the wait for a program that should have nothing left to do. By default,
        the command's time limit applies. Raise SandboxError if the sandbox could not be made.
        """
        try:
            stopped = self.read(self._left_s() if within_s is None else within_s)
            more: dict[str, Any] = {
                name: bytes(data[: len(data) - len(last)]) + last
                for (name, data), last in zip(self._taken.items(), self._last.values(), strict=True)
            }
            more["dropped_bytes"] = self.dropped_bytes
            if stopped is not None:
                return Outcome(None, None, stopped, 0, **more)
            report = self._report(more["errors"])
            self.outcome = Outcome(
                report["exit_status"] if report["exit_status"] >= 0 else None,
                signal.Signals(report["signal"]).name if report["signal"] else None,
                report["stopped_by"] or None,
                report["left_behind"],
                **more,
            )
            return self.outcome
        finally:
            self.stop()

    def read(self, within_s: float, until: Callable[[], bool] | None = None) -> str | None:
        """Read the program's output, so that the program never blocks.

        Data beyond the limit is dropped, except for the last bytes, which may hold a result.

        Return "wall" after `within_s`, "output" if too much was dropped, or None once `until` is
        true or all streams have ended. With `within_s` 0, only the available output is read.
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
        most = self.limits.result_bytes if stream == "result" else self.limits.output_bytes
        kept = data[: most - len(self._taken[stream])]
        self._taken[stream] += kept
        self._last[stream] = (self._last[stream] + data[len(kept) :])[-_LAST_BYTES:]
        return len(kept)

    def _left_s(self) -> float:
        """Return the time until the sandbox itself has ended the command and reported why."""
        return max(0.1, self.started_s + self.limits.wall_s + 5 - time.monotonic())

    def _report(self, errors: bytes) -> dict[str, Any]:
        """Return sandbox_run's report on the end; without a sandbox, derive one from the status."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=self._left_s())
        if self.control is None:
            code = self.process.returncode
            late = {"exit_status": -1, "signal": 0, "stopped_by": "wall", "left_behind": 0}
            ended = {"exit_status": code, "signal": max(0, -(code or 0)), "stopped_by": ""}
            return late if code is None else late | ended
        self.control.settimeout(5)
        try:
            line = self.control.recv(4096)
        except OSError:
            line = b""
        if not line:
            lines = errors.decode(errors="replace").strip().splitlines()
            reason = lines[-1] if lines else "sandbox_run ended without a message"
            raise SandboxError(f"no sandbox: {reason.removeprefix('sandbox_run: ')}")
        reported: dict[str, Any] = json.loads(line)
        return reported


def start(
    argv: Sequence[str],
    *,
    given: Path | None = None,
    limits: Limits = _DEFAULT,
    host: Host | None = None,
    lab_allowed: bool = False,
    env: Mapping[str, str] | None = None,
    stdin: IO[bytes] | None = None,
    with_result: bool = False,
    unsafe: bool = False,
) -> Started:
    """Start a command in a sandbox, and return it.

    Args:
        argv: the command; "{result}" is replaced by the descriptor of the result channel.
        given: folder to copy to /submission, where the command starts; readable by every user.
        host: host of a Lab whose network the command uses, instead of only a loopback interface.
        lab_allowed: allow further namespaces, and so a Lab inside.
        env: variables to add to a small environment.
        with_result: open the result channel.
        unsafe: use no sandbox, only the limits on time and output.
    """
    spawn: Any = partial(subprocess.Popen, start_new_session=True)
    if host is not None:
        spawn = partial(host.start, privileged=False, text=False)
    # Started closes everything in `kept`. After an error, it is closed here.
    with ExitStack() as kept, ExitStack() as given_away:
        command, fds, result = list(argv), [], None
        if with_result:
            reader, writer = os.pipe()
            given_away.callback(os.close, writer)
            result = kept.enter_context(os.fdopen(reader, "rb", buffering=0))
            command = [str(writer) if word == "{result}" else word for word in command]
            fds = [writer]
        control, cwd, environment = None, None, _environment(env)
        if unsafe:
            cwd = kept.enter_context(tempfile.TemporaryDirectory(prefix="tcplab-unsafe-"))
            command, environment = _without_sandbox(command, cwd, given, env)
        else:
            control, theirs = socket.socketpair()
            kept.enter_context(control)
            given_away.enter_context(theirs)
            fds.append(theirs.fileno())
            options = [*limits.options(), *(f"--bind={path}" for path in _visible_paths())]
            options += [f"--given={given}"] if given else []
            options += ["--keep-network"] if host else []
            options += [] if lab_allowed else ["--no-lab"]
            program = str(program_path("sandbox_run"))
            command = [program, *options, "--", str(theirs.fileno()), *command]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        given_in = stdin or subprocess.DEVNULL
        process = spawn(command, env=environment, pass_fds=fds, cwd=cwd, stdin=given_in, **pipes)
        return Started(process, control, limits, result, kept.pop_all())


def _without_sandbox(
    command: Sequence[str], folder: str, given: Path | None, env: Mapping[str, str] | None
) -> tuple[list[str], dict[str, str]]:
    if given:
        shutil.copytree(given, folder, dirs_exist_ok=True)
    # The folder is not the working directory yet.
    program = str(Path(folder, command[0])) if command[0].startswith("./") else command[0]
    return [program, *command[1:]], _environment({"HOME": folder, "TMPDIR": folder, **(env or {})})


def run(argv: Sequence[str], **options: Any) -> Outcome:
    """Run a command in a sandbox to its end; see :func:`start` for the options."""
    with start(argv, **options) as started:
        return started.finish()


def why_no_sandbox() -> str | None:
    """Return why submissions cannot be judged here, and the fix, in one line; None if they can."""
    from tcplab.lab import why_no_lab

    try:
        return why_no_lab() or why_no_compiler()
    except (LabError, SandboxError) as error:
        return str(error)


def why_no_compiler() -> str | None:
    """Return why the sandbox can build no C program, and the fix; None if it can."""
    script = "echo 'int main(void) { return 0; }' | cc -x c - -o program && ./program"
    outcome = run(["/bin/sh", "-c", script], limits=Limits(wall_s=20))
    if outcome.ok:
        return None
    reason = (outcome.errors.decode(errors="replace").splitlines() or [outcome.how_it_ended()])[0]
    return f"no C program can be built in the sandbox ({reason}): apt install gcc libc6-dev"
