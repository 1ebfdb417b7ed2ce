"""The short C program of a lesson: shown whole, run on two hosts, changed, and checked on the wire.

A lesson's program is `lessons/c/SLUG.c`, a client with plain sockets. `copy` puts it beside the
notebook, where the learner changes it. Every function takes the copy if there is one.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tcplab.checks import choice
from tcplab.errors import LabError, ParameterError
from tcplab.experiments.diagnosis.repair import Verdict
from tcplab.experiments.diagnosis.run import compile_source, stream_of
from tcplab.experiments.files import file_of
from tcplab.experiments.mode import mode
from tcplab.lab import Lab, Network, why_no_lab
from tcplab.lab.scratch import temporary_folder
from tcplab.programs.calls import read_calls
from tcplab.programs.pair import Running
from tcplab.programs.sources import course_folder
from tcplab.segments import SegmentArray

if TYPE_CHECKING:
    from IPython.display import Code

_TIMEOUT_S: Final = 20.0


@dataclass(frozen=True, slots=True)
class Ran:
    """A run of a program on two hosts."""

    commands: Sequence[str]  #: as typed on each host
    output: str  #: of the client
    segments: SegmentArray  #: all that the client's interface sent and received
    stream: bytes  #: all bytes that the client sent
    file: bytes = b""  #: content of the file that the client was given
    calls: int = 0  #: reads, writes and the like that the client made, where they were counted

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
) -> Ran:
    """Compile a lesson's program and run it on the client against the course's server.

    Args:
        network: a Lab, or Loopback.
        slug: the lesson's.
        *arguments: after the address and the port.
        source: another C file.
        file_mb: size of a file of random bytes, whose path comes after the arguments; 0 for none.
        count_calls: count the client's system calls, which makes each of them slower.

    Raises:
        ParameterError: it does not compile.
        LabError: it failed or hung.
    """
    server = [*CASES[slug].server, "--deadline=5", "--json", "--bind", network.server.address]
    with ExitStack() as stack:
        directory = Path(stack.enter_context(temporary_folder()))
        program = compile_source(source or path_of(slug), directory)
        file = stack.enter_context(file_of(file_mb * 1_000_000)) if file_mb else None
        with (
            network.client.capture(snaplen=2048) as capture,
            Running(network.server, server) as listener,
        ):
            words = [network.server.address, str(listener.port()), *arguments]
            recorder = ["calls", str(directory / "log"), "--"] if count_calls else []
            command = [*recorder, str(program), *words, *([str(file)] if file else [])]
            with Running(network.client, command) as client:
                output = client.output(_TIMEOUT_S)
        shown = [f"./{program.name}", *words, *(["FILE"] if file else [])]
        commands = (
            f"{network.server.name}$ {' '.join(server[:-4])}",
            f"{network.client.name}$ {' '.join(shown)}",
        )
        with capture:
            return Ran(
                commands,
                output.strip(),
                capture.segments,
                stream_of(capture),
                file.read_bytes() if file else b"",
                read_calls(directory / "log").calls if count_calls else 0,
            )


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
            )
    except (ParameterError, LabError) as error:
        return Verdict(slug, False, f"{error}.", {})
    complaint = case.complaint(ran)
    counts = {"segments": len(ran.sizes), "bytes": len(ran.stream), "calls": ran.calls}
    return Verdict(slug, not complaint, f"{complaint or case.success}.", counts)
