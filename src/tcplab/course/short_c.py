"""The short C program of a lesson: shown whole, run on two hosts, changed, and checked on the wire.

A lesson's program is `lessons/c/SLUG.c`, a client with plain sockets. `copy` puts it beside the
notebook, where the learner changes it. Every function takes the copy if there is one.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tcplab.checks import choice
from tcplab.errors import LabError, ParameterError
from tcplab.experiments.diagnosis.repair import Verdict
from tcplab.experiments.diagnosis.run import compile_source, stream_of
from tcplab.experiments.mode import mode
from tcplab.lab import Lab, Network, why_no_lab
from tcplab.lab.scratch import temporary_folder
from tcplab.programs.pair import Running
from tcplab.programs.sources import course_folder
from tcplab.segments import ACK, SYN, SegmentArray

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

    @property
    def sizes(self) -> list[int]:
        """Bytes of each data segment from the client, in order, without retransmissions."""
        return list(self.segments.data("client", retransmissions=False)["payload_bytes"].tolist())

    @property
    def bursts(self) -> list[list[int]]:
        """The sizes again, in one list until the client hears from the server, and so on."""
        sent = self.segments.data("client", retransmissions=False)
        heard = self.segments[self.segments.from_server]["time_ns"]
        rows = zip(heard.searchsorted(sent["time_ns"]).tolist(), self.sizes, strict=True)
        return [[size for _heard, size in group] for _key, group in groupby(rows, itemgetter(0))]

    def __str__(self) -> str:
        return "\n".join([*self.commands, self.output])


@dataclass(frozen=True, slots=True)
class Case:
    """A lesson's program: its peer, and the judgement of what left its host."""

    server: Sequence[str]  #: the course's program that listens
    arguments: Sequence[str]  #: with which a changed program is checked
    complaint: Callable[[Ran], str]  #: what is wrong with a run, in one sentence, or ""
    success: str
    rtt_ms: float = 0  #: of the lab in which a changed program is checked


def _one_segment_each(ran: Ran) -> str:
    expected = 10 * b"fifteen pieces of two bytes..."
    if ran.stream != expected:
        return f"The {len(ran.stream)} bytes sent are not the {len(expected)} of the original"
    if set(ran.sizes) != {30}:
        first = ", ".join(map(str, ran.sizes[:6]))
        return f"10 messages left in {len(ran.sizes)} segments ({first}, … bytes), not in 10"
    return ""


def _asked_twice(ran: Ran) -> str:
    opened = ran.segments[(ran.segments["flags"] & (SYN | ACK)) == SYN]
    if len(opened) != 1:
        return f"The client opened {len(opened)} connections, not one"
    if ran.stream != 2 * b"hello":
        return f"The client sent {ran.stream.decode(errors='replace')!r}, not 'hello' twice"
    if ran.sizes != [5, 5]:
        return "Both questions left in one segment; ask again after the first answer"
    return ""


#: The segments of a frame of lesson cork.
_FRAME: Final = [1448, 1448, 324]


def _frames_at_once(ran: Ran) -> str:
    header, body, trailer = bytes(200), b"samples".ljust(3000, b"\0"), bytes(20)
    good, blank = header + body + trailer, bytes(sum(_FRAME))
    expected = good + blank + good + blank + good
    if ran.stream != expected:
        return f"The {len(ran.stream)} bytes sent are not the {len(expected)} of the original"
    if ran.sizes != 5 * _FRAME:
        first = ", ".join(map(str, ran.sizes[:6]))
        return f"5 frames left in {len(ran.sizes)} segments ({first}, … bytes), not in 15"
    if late := len(ran.bursts) - 5:
        return f"The end of {late} of 5 frames left only after the ACK of its beginning"
    return ""


def _without_waiting(ran: Ran) -> str:
    expected = 60 * b"record".ljust(60, b"\0")
    if ran.stream != expected:
        return f"The {len(ran.stream)} bytes sent are not the {len(expected)} of the original"
    if (waits := len(ran.bursts) - 1) > 10:
        return f"The client heard from the server {waits} times before it had sent everything"
    return ""


CASES: Final[Mapping[str, Case]] = {
    "the-lab": Case(
        ("writepattern_peer", "--reply-every=5", "--reply-bytes=5", "--port=0"),
        (),
        _asked_twice,
        "One connection, and two questions in a segment each",
    ),
    "small-writes": Case(
        ("tcp_nodelay_server", "0", "10"),
        ("send",),
        _one_segment_each,
        "10 messages left in 10 segments of 30 bytes",
    ),
    "records-and-quotes": Case(
        ("writepattern_peer", "--quickack=off", "--port=0"),
        ("waiting",),
        _without_waiting,
        "60 records left, and almost none of them waited for the server",
        rtt_ms=20,
    ),
    "cork": Case(
        ("tcp_nodelay_server", "--writes=1", f"--write-bytes={sum(_FRAME)}", "0", "5"),
        ("broken",),
        _frames_at_once,
        "5 frames left in 3 segments each, and no end of a frame waited",
        rtt_ms=100,  # so that the calls of a frame take less than an ACK
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


def run(network: Network, slug: str, *arguments: str, source: Path | None = None) -> Ran:
    """Compile a lesson's program and run it on the client against the course's server.

    Args:
        network: a Lab, or Loopback.
        slug: the lesson's.
        *arguments: after the address and the port.
        source: another C file.

    Raises:
        ParameterError: it does not compile.
        LabError: it failed or hung.
    """
    server = [*CASES[slug].server, "--deadline=5", "--json", "--bind", network.server.address]
    with temporary_folder() as directory:
        program = compile_source(source or path_of(slug), Path(directory))
        with (
            network.client.capture(snaplen=2048) as capture,
            Running(network.server, server) as listener,
        ):
            port = str(listener.port())
            words = [str(program), network.server.address, port, *arguments]
            with Running(network.client, words) as client:
                output = client.output(_TIMEOUT_S)
        commands = (
            f"{network.server.name}$ {' '.join(server[:-4])}",
            f"{network.client.name}$ ./{' '.join([program.name, *words[1:]])}",
        )
        with capture:
            return Ran(commands, output.strip(), capture.segments, stream_of(capture))


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
        with Lab(rtt_ms=case.rtt_ms) as lab:
            ran = run(lab, slug, *case.arguments, source=path)
    except (ParameterError, LabError) as error:
        return Verdict(slug, False, f"{error}.", {})
    complaint = case.complaint(ran)
    counts = {"segments": len(ran.sizes), "bytes": len(ran.stream)}
    return Verdict(slug, not complaint, f"{complaint or case.success}.", counts)
