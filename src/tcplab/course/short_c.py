"""The short C program of a lesson: shown whole, run on two hosts, changed, and checked on the wire.

A lesson's program is `lessons/c/SLUG.c`, a client or a server with plain sockets. `copy` puts it
beside the notebook, where the learner changes it. Every function takes the copy if there is one.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tcplab.checks import choice
from tcplab.errors import LabError, ParameterError
from tcplab.experiments.diagnosis.repair import Verdict
from tcplab.experiments.diagnosis.run import compile_source, stream_of
from tcplab.experiments.mode import mode
from tcplab.lab import Lab, Network, why_no_lab
from tcplab.lab.scratch import temporary_folder
from tcplab.programs.pair import Running, await_listener
from tcplab.programs.sources import course_folder
from tcplab.segments import FROM_SERVER, SegmentArray

if TYPE_CHECKING:
    from IPython.display import Code

_TIMEOUT_S: Final = 20.0
_PORT: Final = 7000  # of a lesson's program that listens


@dataclass(frozen=True, slots=True)
class Ran:
    """A run of a program on two hosts."""

    commands: Sequence[str]  #: as typed on each host
    output: str  #: of the lesson's program
    segments: SegmentArray  #: all that the client's interface sent and received
    stream: bytes  #: all bytes that the client sent

    @property
    def sizes(self) -> list[int]:
        """Bytes of each data segment from the client, in order, without retransmissions."""
        return list(self.segments.data("client", retransmissions=False)["payload_bytes"].tolist())

    def __str__(self) -> str:
        return "\n".join([*self.commands, self.output])


@dataclass(frozen=True, slots=True)
class Case:
    """A lesson's program: its peer, and the judgement of what left its host."""

    peer: Sequence[str]  #: the course's program at the other end
    arguments: Sequence[str]  #: with which a changed program is checked
    complaint: Callable[[Ran], str]  #: what is wrong with a run, in one sentence, or ""
    success: str
    listens: bool = False  #: the lesson's program is the server, and the peer connects to it
    link: Mapping[str, Any] = field(default_factory=dict)  #: parameters of the check's Lab


def _one_segment_each(ran: Ran) -> str:
    expected = 10 * b"fifteen pieces of two bytes..."
    if ran.stream != expected:
        return f"The {len(ran.stream)} bytes sent are not the {len(expected)} of the original"
    if set(ran.sizes) != {30}:
        first = ", ".join(map(str, ran.sizes[:6]))
        return f"10 messages left in {len(ran.sizes)} segments ({first}, … bytes), not in 10"
    return ""


def _window_fills_the_path(ran: Ran) -> str:
    sent = ran.segments.sent_by("server")
    syn_acks, acks = sent[sent.is_syn], sent[~sent.is_syn]
    if not len(syn_acks) or int(acks["ack"].max(initial=0)) <= len(ran.stream):
        return "The receiver did not take all bytes of the sender"
    scale = int(syn_acks["wscale"][0])
    # An offer is not taken back at once: what counts is the window in the end.
    window = int(acks["window"][len(acks) // 2 :].max())
    if window < _PATH_BYTES:
        return (
            f"The SYN-ACK has the scale {scale}, and the largest window in the second half of the"
            f" transfer was {window:,} bytes; the path holds {_PATH_BYTES:,}"
        )
    return ""


#: Data in flight that fills 50 Mbit/s at an RTT of 40 ms.
_PATH_BYTES: Final = 235_000


def _answers_soon(ran: Ran) -> str:
    records = ran.stream[::_RECORD_BYTES]
    if len(ran.stream) != 1600 * _RECORD_BYTES or set(ran.stream) - {*b".!"}:
        return f"The {len(ran.stream)} bytes sent are not 1600 records of {_RECORD_BYTES} bytes"
    asked, most = _questions(ran.segments)
    answers = [number * _RECORD_BYTES for number, first in enumerate(records) if first == ord("!")]
    older = [answer - left for answer, left in zip(answers, asked, strict=False)]
    if not 1 <= len(answers) <= len(asked) or min(older) < 0:
        return f"{len(answers)} records begin with '!', for {len(asked)} questions"
    if max(older) > _OLDER_BYTES:
        return (
            f"Up to {max(older):,} bytes of older records left between a question and its answer,"
            f" and at most {_OLDER_BYTES:,} should"
        )
    if most < _IN_FLIGHT_BYTES:
        return (
            f"The answers come soon, but no more than {most:,} bytes were in flight, and the path"
            " holds 62,500"
        )
    return ""


def _questions(segments: SegmentArray) -> tuple[list[int], int]:
    """The bytes that had left when each question came, and the most bytes in flight."""
    asked, left, acked, most = [], 0, 0, 0
    for row in segments:
        size, ends = int(row["payload_bytes"]), int(row["seq"]) - 1 + int(row["payload_bytes"])
        if row["direction"] == FROM_SERVER:
            acked = max(acked, int(row["ack"]) - 1)
            asked += [left] * (size > 0)
        elif size:
            left = max(left, ends)
            most = max(most, left - acked)
    return asked, most


_RECORD_BYTES: Final = 1448
#: A limit of 16 KiB, and one packet buffer of the kernel: until it is full, nothing is checked.
_OLDER_BYTES: Final = 80_000
#: Less than 10 Mbit/s hold at an RTT of 50 ms, and more than fits into SO_SNDBUF = 16 KiB.
_IN_FLIGHT_BYTES: Final = 45_000

CASES: Final[Mapping[str, Case]] = {
    "small-writes": Case(
        ("tcp_nodelay_server", "0", "10"),
        ("send",),
        _one_segment_each,
        "10 messages left in 10 segments of 30 bytes",
    ),
    "buffers": Case(
        ("tcpsource", "-b", "auto", "-s", "65536", "-c", "40"),
        ("16384", "262144"),
        _window_fills_the_path,
        f"The windows on the wire grew beyond the {_PATH_BYTES:,} bytes that the path holds",
        listens=True,
        link={"rtt_ms": 40, "rate_mbit": 50},
    ),
    "send-buffer": Case(
        ("tcp_nodelay_server", "-w", "1", "-s", "579200", "0", "4"),
        (),
        _answers_soon,
        f"At most {_OLDER_BYTES:,} bytes of older records left before each answer, and the path"
        " was full",
        link={"rtt_ms": 50, "rate_mbit": 10, "aqm": "codel"},
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
    """Compile a lesson's program and run it on its host, with the course's program on the other.

    Args:
        network: a Lab, or Loopback.
        slug: the lesson's.
        *arguments: after the address and the port.
        source: another C file.

    Raises:
        ParameterError: it does not compile.
        LabError: it failed or hung.
    """
    case = CASES[slug]
    with temporary_folder() as directory:
        program = compile_source(source or path_of(slug), Path(directory))
        with network.client.capture(snaplen=2048) as capture:
            pair = _run_server if case.listens else _run_client
            commands, output = pair(network, program, arguments, case.peer)
        with capture:
            return Ran(commands, output.strip(), capture.segments, stream_of(capture))


def _run_client(
    network: Network, program: Path, arguments: Sequence[str], peer: Sequence[str]
) -> tuple[Sequence[str], str]:
    """The commands on both hosts, and the program's output."""
    server = [*peer, "--deadline=5", "--json", "--bind", network.server.address]
    with Running(network.server, server) as listener:
        words = [network.server.address, str(listener.port()), *arguments]
        with Running(network.client, [str(program), *words]) as client:
            output = client.output(_TIMEOUT_S)
    return (
        f"{network.server.name}$ {' '.join(server[:-4])}",
        f"{network.client.name}$ ./{' '.join([program.name, *words])}",
    ), output


def _run_server(
    network: Network, program: Path, arguments: Sequence[str], peer: Sequence[str]
) -> tuple[Sequence[str], str]:
    """The same for a program that listens, on a port of our choice."""
    words = [network.server.address, str(_PORT), *arguments]
    client = [*peer, "-p", str(_PORT), network.server.address]
    with Running(network.server, [str(program), *words]) as listener:
        if not await_listener(network.server, _PORT, listener.ended, _TIMEOUT_S / 4):
            why = listener.failure() or f"{program.name} does not listen on port {_PORT}"
            raise LabError(why)
        with Running(network.client, [*client, "--deadline=5"]) as connector:
            try:
                connector.output(_TIMEOUT_S)
            except LabError as error:
                raise LabError(listener.failure(0.5) or str(error)) from None
        output = listener.output(_TIMEOUT_S / 4)
    return (
        f"{network.server.name}$ ./{' '.join([program.name, *words])}",
        f"{network.client.name}$ {' '.join(client)}",
    ), output


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
        with Lab(**case.link) as lab:
            ran = run(lab, slug, *case.arguments, source=path)
    except (ParameterError, LabError) as error:
        return Verdict(slug, False, f"{error}.", {})
    complaint = case.complaint(ran)
    counts = {"segments": len(ran.sizes), "bytes": len(ran.stream)}
    return Verdict(slug, not complaint, f"{complaint or case.success}.", counts)
