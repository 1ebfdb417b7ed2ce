"""The short C program of a lesson: shown whole, run on two hosts, changed, and checked on the wire.

A lesson's program is `lessons/c/SLUG.c`, a client with plain sockets. `copy` puts it beside the
notebook, where the learner changes it. Every function takes the copy if there is one.
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
    #: made to the lab in which a changed program is checked
    prepare: Callable[[Lab], object] = lambda _lab: None
    lab: Mapping[str, Any] = field(default_factory=dict)  #: parameters of this lab


def _one_segment_each(ran: Ran) -> str:
    expected = 10 * b"fifteen pieces of two bytes..."
    if ran.stream != expected:
        return f"The {len(ran.stream)} bytes sent are not the {len(expected)} of the original"
    if set(ran.sizes) != {30}:
        first = ", ".join(map(str, ran.sizes[:6]))
        return f"10 messages left in {len(ran.sizes)} segments ({first}, … bytes), not in 10"
    return ""


def _fills_a_tunnel(ran: Ran) -> str:
    sent, longest = len(ran.stream), max(ran.sizes, default=0) + 52
    if sent != 100_000:
        return f"{sent} bytes were sent, not the 100000 of the original"
    if longest > 1420:
        return f"The longest packet has {longest} bytes, and the tunnel takes 1420"
    if longest < 1420:
        return f"No packet is longer than {longest} bytes, and the tunnel takes 1420"
    return ""


def narrow(lab: Lab) -> None:
    """Let the path to the server take packets of 1200 bytes, and send no ICMP about longer ones."""
    lab.link.update("client->server", mtu=1200, icmp="off")


def _all_acknowledged(ran: Ran) -> str:
    if (sent := len(ran.stream)) != 2100:
        return f"{sent} bytes were sent, not the 2100 of the original"
    acknowledged = int(max(ran.segments.acks("server")["ack"], default=1)) - 1
    if acknowledged < sent:
        return f"{sent} bytes were sent over the narrow path, and {acknowledged} acknowledged"
    return ""


def _in_few_packets(ran: Ran) -> str:
    data = ran.segments.data("client")
    sent = int(data["payload_bytes"].sum())
    if sent != 900 * 1440:
        return f"{sent} bytes were sent, not the {900 * 1440} of the original"
    if (data["payload_bytes"] > data["wire_bytes"]).any():
        return "A datagram is too long for the path, so IP has cut it into fragments"
    if len(data) > 45:
        return f"The blocks made {len(data)} trips through the kernel, not at most 45"
    return ""


CASES: Final[Mapping[str, Case]] = {
    "small-writes": Case(
        ("tcp_nodelay_server", "0", "10"),
        ("send",),
        _one_segment_each,
        "10 messages left in 10 segments of 30 bytes",
    ),
    "segments": Case(
        ("tcpsink", "-p", "0", "-b", "auto"),
        ("100000",),
        _fills_a_tunnel,
        "The longest packets have 1420 bytes, as many as the tunnel takes",
    ),
    "path-mtu": Case(
        ("tcpsink", "-p", "0", "-b", "auto"),
        ("100", "2000"),
        _all_acknowledged,
        "All 2100 bytes were acknowledged over the narrow path",
        narrow,
    ),
    "tcp-vs-udp": Case(
        ("udpsink", "-p", "0"),
        ("udp",),
        _in_few_packets,
        "The blocks made at most 45 trips through the kernel",
        lab={"offload": True},
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
    server: Sequence[str] = (),
) -> Ran:
    """Compile a lesson's program and run it on the client against the course's server.

    Args:
        network: a Lab, or Loopback.
        slug: the lesson's.
        *arguments: after the address and the port.
        source: another C file.
        server: another of the course's programs that listens.

    Raises:
        ParameterError: it does not compile.
        LabError: it failed or hung.
    """
    listen = [
        *(server or CASES[slug].server),
        "--deadline=5",
        "--json",
        "--bind",
        network.server.address,
    ]
    with temporary_folder() as directory:
        program = compile_source(source or path_of(slug), Path(directory))
        with (
            network.client.capture(snaplen=1 << 17) as capture,
            Running(network.server, listen) as listener,
        ):
            port = str(listener.port())
            words = [str(program), network.server.address, port, *arguments]
            with Running(network.client, words) as client:
                output = client.output(_TIMEOUT_S)
        commands = (
            f"{network.server.name}$ {' '.join(listen[:-4])}",
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
        with Lab(**case.lab) as lab:
            case.prepare(lab)
            ran = run(lab, slug, *case.arguments, source=path)
    except (ParameterError, LabError) as error:
        return Verdict(slug, False, f"{error}.", {})
    complaint = case.complaint(ran)
    counts = {"segments": len(ran.sizes), "bytes": len(ran.stream)}
    return Verdict(slug, not complaint, f"{complaint or case.success}.", counts)
