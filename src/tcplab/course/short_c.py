"""The short C program of a lesson: shown whole, run on two hosts, changed, and checked on the wire.

A lesson's program is `lessons/c/SLUG.c`, a client with plain sockets. `copy` puts it beside the
notebook, where the learner changes it. Every function takes the copy if there is one.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from tcplab.checks import choice
from tcplab.errors import LabError, ParameterError
from tcplab.experiments.diagnosis.repair import Verdict
from tcplab.experiments.diagnosis.run import compile_source, stream_of
from tcplab.experiments.files import file_of
from tcplab.experiments.mode import mode
from tcplab.lab import Lab, Network, why_no_lab
from tcplab.lab.scratch import temporary_folder
from tcplab.programs.calls import read_calls
from tcplab.programs.chain import program_under
from tcplab.programs.pair import Running
from tcplab.programs.sources import course_folder
from tcplab.segments import SegmentArray

if TYPE_CHECKING:
    from IPython.display import Code

_TIMEOUT_S: Final = 20.0
#: Of the payload of a packet; only segmentation offload makes more.
_KEPT_BYTES: Final = 1948


@dataclass(frozen=True, slots=True)
class Ran:
    """A run of a program on two hosts."""

    commands: Sequence[str]  #: as typed on each host
    output: str  #: of the client
    segments: SegmentArray  #: all that the client's interface sent and received
    stream: bytes  #: all bytes that the client sent; empty where segmentation offload hides them
    file: bytes = b""  #: content of the file that the client was given
    calls: int = 0  #: reads, writes and the like that the client made, where they were counted
    #: that read() copied into the client, where its input is a pipe; -1: the kernel does not count
    entered_bytes: int = 0

    @property
    def sizes(self) -> list[int]:
        """Bytes of each data segment from the client, in order, without retransmissions."""
        return list(self.segments.data("client", retransmissions=False)["payload_bytes"].tolist())

    def __str__(self) -> str:
        return "\n".join([*self.commands, self.output])


@dataclass(frozen=True, slots=True)
class Case:
    """A lesson's program: its peer, and the judgement of what left its host."""

    server: Sequence[str]  #: the course's program that listens
    arguments: Sequence[str]  #: with which a changed program is checked
    complaint: Callable[[Ran], str]  #: what is wrong with a run, in one sentence, or ""
    success: str
    link: Mapping[str, float] = field(default_factory=dict)  #: of the lab of a check
    file_mb: int = 0  #: size of the file that the program is given in a check
    counts_calls: bool = False  #: whether a check counts the client's system calls
    stdin: str = ""  #: of the program in a check; see run()


def _one_segment_each(ran: Ran) -> str:
    expected = 10 * b"fifteen pieces of two bytes..."
    if ran.stream != expected:
        return f"The {len(ran.stream)} bytes sent are not the {len(expected)} of the original"
    if set(ran.sizes) != {30}:
        first = ", ".join(map(str, ran.sizes[:6]))
        return f"10 messages left in {len(ran.sizes)} segments ({first}, … bytes), not in 10"
    return ""


def _whole_file_in_few_calls(ran: Ran) -> str:
    if len(ran.stream) < len(ran.file):
        return f"{len(ran.stream):,d} of the file's {len(ran.file):,d} bytes arrived"
    if ran.stream != ran.file:
        return f"The {len(ran.stream):,d} bytes that arrived are not those of the file"
    if ran.calls >= len(ran.file) // 4096:
        return f"All bytes arrived, but in {ran.calls:,d} calls: at least one for each 4096 bytes"
    return ""


def _without_entering_the_program(ran: Ran) -> str:
    if len(ran.stream) < len(ran.file):
        return f"{len(ran.stream):,d} of the {len(ran.file):,d} bytes arrived"
    if ran.stream != ran.file:
        return f"The {len(ran.stream):,d} bytes that arrived are not those of the input"
    if ran.entered_bytes < 0:
        return "All bytes arrived, but /proc/PID/io does not count here what the program read"
    if ran.entered_bytes > len(ran.file) // 10:
        return f"All bytes arrived, but {ran.entered_bytes:,d} bytes were copied into the program"
    return ""


CASES: Final[Mapping[str, Case]] = {
    "small-writes": Case(
        ("tcp_nodelay_server", "0", "10"),
        ("send",),
        _one_segment_each,
        "10 messages left in 10 segments of 30 bytes",
    ),
    "sendfile": Case(
        ("sendfile_server", "-p", "0"),
        ("timer",),
        _whole_file_in_few_calls,
        "Every byte of the file arrived, in fewer calls than one for each 4096 bytes",
        link={"rate_mbit": 50},
        file_mb=4,
        counts_calls=True,
    ),
    "pipes": Case(
        ("sendfile_server", "-p", "0"),
        (),
        _without_entering_the_program,
        "All bytes arrived, and none of them was copied into the program",
        file_mb=4,
        stdin="cat FILE",
    ),
}


def path_of(slug: str) -> Path:
    """The learner's copy of a lesson's program in the working directory, else the original.

    Raises:
        ParameterError: the lesson has no program.
    """
    choice("slug", slug, list(CASES))
    mine = Path(f"{slug}.c")
    return mine if mine.is_file() else course_folder() / "lessons/c" / mine


def show(slug: str) -> Code:
    """The whole program, coloured in a notebook."""
    from IPython.display import Code

    return Code(path_of(slug).read_text(), language="c")  # type: ignore[no-untyped-call]


def copy(slug: str, folder: str | os.PathLike[str] = ".") -> Path:
    """Copy a lesson's program into a folder, to be changed there; keep a file that is there."""
    choice("slug", slug, list(CASES))
    path = Path(folder) / f"{slug}.c"
    if not path.exists():
        shutil.copyfile(course_folder() / "lessons/c" / path.name, path)
    return path


def run(
    network: Network,
    slug: str,
    *arguments: str,
    source: Path | None = None,
    file_mb: int = 0,
    count_calls: bool = False,
    stdin: str = "",
) -> Ran:
    """Compile a lesson's program and run it on the client against the course's server.

    Args:
        network: a Lab, or Loopback.
        slug: the lesson's.
        *arguments: after the address and the port.
        source: another C file.
        file_mb: size of a file of random bytes, FILE; its path comes after the arguments, unless
            it is the standard input. 0 for none.
        count_calls: count the client's system calls, which makes each of them slower.
        stdin: standard input: "FILE", or a command whose output comes through a pipe ("cat FILE").

    Raises:
        ParameterError: it does not compile.
        LabError: it failed or hung.
    """
    server = [*CASES[slug].server, "--deadline=5", "--json", "--bind", network.server.address]
    with ExitStack() as stack:
        directory = Path(stack.enter_context(temporary_folder()))
        program = compile_source(source or path_of(slug), directory)
        file = stack.enter_context(file_of(file_mb * 1_000_000)) if file_mb else None
        given = stack.enter_context(_Input(network, stdin, file))
        with (
            network.client.capture(snaplen=_KEPT_BYTES + 100) as capture,
            Running(network.server, server) as listener,
        ):
            words = [network.server.address, str(listener.port()), *arguments]
            recorder = ["calls", str(directory / "log"), "--"] if count_calls else []
            last = [str(file)] if file and not stdin else []
            command = [*recorder, str(program), *words, *last]
            with Running(network.client, command, stdin=given.descriptor) as client:
                given.supply(client.pid, program.name)
                output = client.output(_TIMEOUT_S)
        shown = [f"./{program.name}", *words, *(["FILE"] if last else [])]
        commands = (
            f"{network.server.name}$ {' '.join(server[:-4])}",
            f"{network.client.name}$ {given.shown(' '.join(shown))}",
        )
        with capture:
            largest = max(capture.segments["payload_bytes"], default=0)
            return Ran(
                commands,
                output.strip(),
                capture.segments,
                stream_of(capture) if largest <= _KEPT_BYTES else b"",
                file.read_bytes() if file else b"",
                read_calls(directory / "log").calls if count_calls else 0,
                given.entered_bytes(),
            )


class _Input:
    """The standard input of a program: nothing, a file, or a pipe that a command writes to.

    The pipe stays open until all of it has been taken. Then the program waits for more, and the
    kernel's count of what it has read is complete.
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
        """The command with its input, as typed in a shell."""
        if self._ends:
            return f"{self._stdin} | {command}"
        return f"{command} < FILE" if self._stdin else command

    def supply(self, pid: int, name: str) -> None:
        """Let the writer begin, for a program that was started."""
        if not self._ends:
            return
        os.close(self.descriptor)  # the writer's pipe ends when the program does
        self.descriptor = -1
        words = [str(self._file) if word == "FILE" else word for word in self._stdin.split()]
        writer = self._network.client.start(
            words, text=False, stdout=self._ends[1], stderr=subprocess.DEVNULL
        )
        self._thread = threading.Thread(target=self._watch, args=(self._ends[1], writer, pid, name))
        self._thread.start()

    def entered_bytes(self) -> int:
        """Bytes that the program took by read(); waits for the writer."""
        if self._thread:
            self._thread.join()
        return self._entered_bytes

    def _watch(self, pipe: int, writer: subprocess.Popen[bytes], pid: int, name: str) -> None:
        with writer:
            writer.wait()  # for ever: it ends when the program does
        self._entered_bytes = _read_when_empty(pipe, pid, name)
        os.close(pipe)


def _read_when_empty(pipe: int, pid: int, name: str) -> int:
    """Return what a program has read (rchar in proc(5)) once the pipe is empty, or it has ended.

    It is -1 where that cannot be read at all.
    """
    found = -1
    for _ in range(round(_TIMEOUT_S / 0.01)):
        left = int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)
        try:
            program = program_under(pid, name)
            counts = Path(f"/proc/{program}/io").read_text().split()
        except OSError:
            return found  # it has ended
        found = int(counts[counts.index("rchar:") + 1])
        if not left:
            break
        time.sleep(0.01)
    return found


def check(slug: str, source: str | os.PathLike[str] | None = None) -> Verdict:
    """Run a learner's program in a laboratory and judge it by what left its host.

    Args:
        slug: the lesson's.
        source: the C file; the learner's copy unless given.

    Raises:
        ParameterError: there is no such file or lesson.
    """
    path = path_of(slug) if source is None else Path(source)
    if not path.is_file():
        raise ParameterError(f"{path}: no such file; short_c.copy({slug!r}) makes one")
    if (now := mode()) != "live":
        why = why_no_lab() or f"TCPLAB_MODE={now}"
        return Verdict(slug, None, f"The check needs a lab, to count segments in: {why}.", {})
    case = CASES[slug]
    try:
        with Lab(**case.link) as lab:  # type: ignore[arg-type]
            ran = run(
                lab,
                slug,
                *case.arguments,
                source=path,
                file_mb=case.file_mb,
                count_calls=case.counts_calls,
                stdin=case.stdin,
            )
    except (ParameterError, LabError) as error:
        return Verdict(slug, False, f"{error}.", {})
    complaint = case.complaint(ran)
    counts = {"segments": len(ran.sizes), "bytes": len(ran.stream), "calls": ran.calls}
    return Verdict(slug, not complaint, f"{complaint or case.success}.", counts)
