"""The short C program of a lesson: shown whole, run on two hosts, changed, and checked on the wire.

A lesson's program is `lessons/c/SLUG.c`, a client or a server with plain sockets. `copy` puts it
beside the notebook, where the learner changes it. Every function takes the copy if there is one.
"""

from __future__ import annotations

import os
import shutil
import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tcplab.checks import choice
from tcplab.errors import LabError, ParameterError
from tcplab.experiments.diagnosis.repair import Verdict
from tcplab.experiments.diagnosis.run import compile_source, stream_of
from tcplab.experiments.mode import mode
from tcplab.experiments.short_transfer import flights
from tcplab.lab import Lab, Network, why_no_lab
from tcplab.lab.scratch import temporary_folder
from tcplab.programs.pair import Running, await_listener
from tcplab.programs.sources import course_folder
from tcplab.segments import ACK, SYN, SegmentArray

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
    stream: bytes  #: all bytes that the client sent; none of programs that run together
    beside: Ran | None = None  #: the original, which ran on a second client meanwhile

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

    peer: Sequence[str]  #: the course's program at the other end; {0} is the first argument
    arguments: Sequence[str]  #: with which a changed program is checked
    complaint: Callable[[Ran], str]  #: what is wrong with a run, in one sentence, or ""
    success: str
    listens: bool = False  #: the lesson's program is the server, and the peer connects to it
    link: Mapping[str, Any] = field(default_factory=dict)  #: parameters of the check's Lab
    script: str = ""  #: what its link does to the client's packets, see Link.script
    beside: str = ""  #: arguments of the original, if it runs on a second client meanwhile


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


def _one_connection(ran: Ran) -> str:
    opened = len(ran.segments.connections)
    if opened != 1:
        return f"The client opened {opened} connections for 5 uploads, not one"
    if ran.stream != bytes(5 * 43_440):
        return f"The {len(ran.stream):,} bytes sent are not the 217,200 of the original"
    parts = flights(ran.segments, CASES["slow-start"].link["rtt_ms"])
    if len(parts) >= 10:  # two for each new connection
        return f"The uploads left in {len(parts)} flights, as if each began with a new window"
    return ""


def _repaired_without_a_probe(ran: Ran) -> str:
    messages = b"".join(1000 * letter.encode() for letter in "abcdefgh")
    if not ran.stream.startswith(messages):
        return f"The {len(ran.stream):,} bytes sent do not begin with the 8 messages"
    if ran.sizes[:8] != [1000] * 8:
        first = ", ".join(map(str, ran.sizes[:8]))
        return f"The 8 messages left in segments of {first} bytes, not in 8 of 1000"
    if "receipt" not in ran.output:
        return "The client ended without the receipt"
    data = ran.segments.data("client")
    again = data[data["is_retransmission"]]["time_ns"][0]
    server = ran.segments.sent_by("server")
    if not (server["sack_blocks"][server["time_ns"] < again] > 0).any():
        return "Message 8 was lost and came back by a probe, because no ACK reported a gap before"
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
    "cork": Case(
        ("tcp_nodelay_server", "--writes=1", f"--write-bytes={sum(_FRAME)}", "0", "5"),
        ("broken",),
        _frames_at_once,
        "5 frames left in 3 segments each, and no end of a frame waited",
        link={"rtt_ms": 100},  # so that the calls of a frame take less than an ACK
    ),
    "buffers": Case(
        ("tcpsource", "-b", "auto", "-s", "65536", "-c", "40"),
        ("16384", "262144"),
        _window_fills_the_path,
        f"The windows on the wire grew beyond the {_PATH_BYTES:,} bytes that the path holds",
        listens=True,
        link={"rtt_ms": 40, "rate_mbit": 50},
    ),
    "slow-start": Case(
        ("writepattern_peer", "--reply-every={0}", "--reply-bytes=2", "--port=0"),
        ("43440",),
        _one_connection,
        "5 uploads went over one connection",
        link={"rtt_ms": 40, "rate_mbit": 50, "congestion": "reno"},
    ),
    "loss": Case(
        ("writepattern_peer", "--reply-every=8000", "--reply-bytes=2", "--port=0"),
        (),
        _repaired_without_a_probe,
        "message 8 was lost, and the server reported the gap before a probe was needed",
        link={"rtt_ms": 40, "rate_mbit": 50},
        script="drop data nth=8",
    ),
    "queues": Case(
        ("tcpsink", "-b", "auto", "-p", "0"),
        ("2000",),
        _a_short_queue,
        "2,000,000 bytes kept the line busy, mostly with at most 50,000 of them in flight",
        link={"rtt_ms": 20, "rate_mbit": 10, "congestion": "reno"},
    ),
    "sharing": Case(
        ("writepattern_peer", "--port=0"),
        ("reno", "3"),  # which every kernel allows to everybody
        _more_than_half,
        "While both programs sent, yours got at least 60 % of the bytes",
        link={"clients": [20, 20], "rate_mbit": 10, "queue_packets": 100, "aqm": "fq_codel"},
        beside="reno 3",
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
    peer = [word.format(*arguments) for word in case.peer]
    with temporary_folder() as directory:
        program = compile_source(source or path_of(slug), Path(directory))
        with network.client.capture(snaplen=2048) as capture:
            pair = _run_server if case.listens else _run_client
            commands, output = pair(network, program, arguments, peer)
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
    server = [*CASES[slug].peer, f"--deadline={_TIMEOUT_S:g}", "--json", "--bind"]
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
        with Lab(**case.link) as lab:
            if case.script:
                lab.link.script("client->server", case.script)
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
