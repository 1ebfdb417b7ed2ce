"""The short C program of a lesson: shown whole, run on two hosts, changed, and checked on the wire.

A lesson's program is `lessons/c/SLUG.c`, a client with plain sockets. `copy` puts it beside the
notebook, where the learner changes it. Every function takes the copy if there is one.
"""

from __future__ import annotations

import os
import shutil
import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tcplab.checks import choice
from tcplab.errors import LabError, ParameterError
from tcplab.experiments.diagnosis.repair import Verdict
from tcplab.experiments.diagnosis.run import compile_source, stream_of
from tcplab.experiments.mode import mode
from tcplab.lab import Lab, Network, why_no_lab
from tcplab.lab.scratch import temporary_folder
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
    stream: bytes  #: all bytes that the client sent; none of programs that run together
    beside: Ran | None = None  #: the original, which ran on a second client meanwhile

    @property
    def sizes(self) -> list[int]:
        """Bytes of each data segment from the client, in order, without retransmissions."""
        return list(self.segments.data("client", retransmissions=False)["payload_bytes"].tolist())

    @property
    def in_flight(self) -> list[int]:
        """Bytes sent and not acknowledged when each data segment left, itself among them."""
        rows = self.segments
        mine = rows.from_client & rows.carries_data
        ends = np.where(mine, rows["seq"] + rows["payload_bytes"], 1)
        acks = np.where(rows.from_server, rows["ack"], 1)
        unacknowledged = np.maximum.accumulate(ends) - np.maximum.accumulate(acks)
        return list(unacknowledged[mine].tolist())

    def __str__(self) -> str:
        return "\n".join([*self.commands, self.output])


@dataclass(frozen=True, slots=True)
class Case:
    """A lesson's program: its peer, and the judgement of what left its host."""

    server: Sequence[str]  #: the course's program that listens
    arguments: Sequence[str]  #: with which a changed program is checked
    complaint: Callable[[Ran], str]  #: what is wrong with a run, in one sentence, or ""
    success: str
    lab: Mapping[str, Any] = field(default_factory=dict)  #: parameters of the lab of the check
    beside: str = ""  #: arguments of the original, if it runs on a second client meanwhile


def _one_segment_each(ran: Ran) -> str:
    expected = 10 * b"fifteen pieces of two bytes..."
    if ran.stream != expected:
        return f"The {len(ran.stream)} bytes sent are not the {len(expected)} of the original"
    if set(ran.sizes) != {30}:
        first = ", ".join(map(str, ran.sizes[:6]))
        return f"10 messages left in {len(ran.sizes)} segments ({first}, … bytes), not in 10"
    return ""


def _a_short_queue(ran: Ran) -> str:
    if ran.stream != bytes(2_000_000):
        return f"The {len(ran.stream):,} bytes sent are not the 2,000,000 of the original"
    if (usual := statistics.median(ran.in_flight)) > 50_000:
        return f"Half of the segments left with {usual:,.0f} bytes or more in flight, not 50,000"
    # A few may be the machine's: it woke the program too late.
    if (idle := sum(flight <= 1448 for flight in ran.in_flight)) > 20:
        return f"{idle} times the program sent only when nothing was in flight: the line was idle"
    return ""


def _more_than_half(ran: Ran) -> str:
    assert ran.beside is not None
    both = [each.segments.data("client", retransmissions=False) for each in (ran, ran.beside)]
    if not all(rows.size for rows in both):
        return "One of the two programs sent no data"
    first_ns = max(rows["time_ns"].min() for rows in both)
    last_ns = min(rows["time_ns"].max() for rows in both)
    mine, other = (
        int(
            rows["payload_bytes"][
                (first_ns <= rows["time_ns"]) & (rows["time_ns"] <= last_ns)
            ].sum()
        )
        for rows in both
    )
    share = 100 * mine / max(mine + other, 1)
    if share < 60:
        return f"While both programs sent, yours got {share:.0f} % of the bytes, not 60 %"
    return ""


CASES: Final[Mapping[str, Case]] = {
    "small-writes": Case(
        ("tcp_nodelay_server", "0", "10"),
        ("send",),
        _one_segment_each,
        "10 messages left in 10 segments of 30 bytes",
    ),
    "queues": Case(
        ("tcpsink", "-b", "auto", "-p", "0"),
        ("2000",),
        _a_short_queue,
        "2,000,000 bytes kept the line busy, mostly with at most 50,000 of them in flight",
        {"rtt_ms": 20, "rate_mbit": 10, "congestion": "reno"},
    ),
    "sharing": Case(
        ("writepattern_peer", "--port=0"),
        ("cubic", "3"),
        _more_than_half,
        "While both programs sent, yours got at least 60 % of the bytes",
        {"clients": [20, 20], "rate_mbit": 10, "queue_packets": 100, "aqm": "fq_codel"},
        "cubic 3",
    ),
}


def path_of(slug: str) -> Path:
    """The learner's copy of a lesson's program in the working directory, else the original.

    Raises:
        ParameterError: the lesson has no program.
    """
    choice("slug", slug, list(CASES))
    mine = Path(f"{slug}.c")
    return mine if mine.is_file() else _original(slug)


def _original(slug: str) -> Path:
    return course_folder() / f"lessons/c/{slug}.c"


def show(slug: str) -> Code:
    """The whole program, coloured in a notebook."""
    from IPython.display import Code

    return Code(path_of(slug).read_text(), language="c")  # type: ignore[no-untyped-call]


def copy(slug: str, folder: str | os.PathLike[str] = ".") -> Path:
    """Copy a lesson's program into a folder, to be changed there; keep a file that is there."""
    choice("slug", slug, list(CASES))
    path = Path(folder) / f"{slug}.c"
    if not path.exists():
        shutil.copyfile(_original(slug), path)
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


def run_together(lab: Lab, slug: str, *cases: str, source: Path | None = None) -> list[Ran]:
    """Run a lesson's program on each client of a lab at the same time, against one server.

    Args:
        lab: with as many clients.
        slug: the lesson's.
        *cases: the arguments of each client after the address and the port, as "reno 5".
        source: another C file for the first client; the others then run the original.

    Raises:
        ParameterError: it does not compile.
        LabError: a program failed or hung.
    """
    server = [*CASES[slug].server, f"--deadline={_TIMEOUT_S:g}", "--json", "--bind"]
    with temporary_folder() as directory, ExitStack() as stack:
        mine, others = (Path(directory) / each for each in ("mine", "others"))
        mine.mkdir()
        others.mkdir()
        first = compile_source(source or path_of(slug), mine)
        rest = compile_source(_original(slug), others) if source else first
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
        outputs = [each.output(_TIMEOUT_S).strip() for each in running]
        found = []
        for host, line, output, capture in zip(lab.clients, lines, outputs, captures, strict=True):
            command = f"{host.name}$ ./{' '.join([slug, *line[1:]])}"
            found.append((command, output, capture))
    ran = []
    for command, output, capture in found:
        with capture:
            ran.append(Ran((command,), output, capture.segments, b""))
    return ran


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
        with Lab(**case.lab) as lab:
            if case.beside:
                arguments = " ".join(case.arguments)
                ran, other = run_together(lab, slug, arguments, case.beside, source=path)
                ran = replace(ran, beside=other)
            else:
                ran = run(lab, slug, *case.arguments, source=path)
    except (ParameterError, LabError) as error:
        return Verdict(slug, False, f"{error}.", {})
    complaint = case.complaint(ran)
    counts = {"segments": len(ran.sizes), "bytes": sum(ran.sizes)}
    return Verdict(slug, not complaint, f"{complaint or case.success}.", counts)
