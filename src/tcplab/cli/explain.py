"""`tcplab explain`: any command, or a capture, explained."""

from __future__ import annotations

import shlex
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from tcplab.checks.parameters import PythonOnly, Spelled
from tcplab.cli.loading import loading
from tcplab.errors import ParameterError

if TYPE_CHECKING:
    from tcplab.explain.answer import Explanation
    from tcplab.figures import Picture
    from tcplab.programs import Event
    from tcplab.timeline import Timeline

# ---- the options ---------------------------------------------------------------------------------


def with_command(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split a command line at "--": what `tcplab explain` is told, and the command to explain.

    The word "file" before a capture may be left out.
    """
    words, command = list(words), []
    if words[:1] == ["explain"] and "--" in words:
        at = words.index("--")
        words, command = words[:at], words[at + 1 :]
    if words[:2] == ["explain", "file"]:
        del words[1]
    return words, command


_KINDS: Final = (".png", ".svg", ".pdf")


def _figure_file(word: str) -> str:
    """Refuse before the run what could not be saved after it."""
    if Path(word).suffix.lower() not in _KINDS:
        raise ParameterError(f"{word}: the name must end in .png, .svg or .pdf")
    if not Path(word).parent.is_dir():
        raise ParameterError(f"{word}: there is no such directory")
    return word


File = Annotated[str, Spelled(str, "FILE")]
FigureFile = Annotated[str, Spelled(_figure_file, "FILE")]
Number = Annotated[int, Spelled(int, "N")]
Milliseconds = Annotated[float, Spelled(float, "MS")]


@dataclass(frozen=True, slots=True)
class InLab:
    """A command in a laboratory, client and server on two hosts.

    Args:
        server: the server's command, in quotes.
        rtt_ms: round-trip time (default 0).
        loss_percent: share of packets to drop.
    """

    server: Annotated[str | None, Spelled(str, "CMD")] = None
    rtt_ms: Milliseconds | None = None
    loss_percent: Annotated[float | None, Spelled(float, "P")] = None


@dataclass(frozen=True, slots=True)
class Here:
    """A command on this machine and its own network.

    Args:
        here: record the command as it runs on this machine, without a laboratory or a --server.
        interface: interface to record on (default: that of the default route).
    """

    here: bool = False
    interface: Annotated[str | None, Spelled(str, "NAME")] = None


@dataclass(frozen=True, slots=True)
class InEither:
    """A command in either place.

    Args:
        timeout_s: end the command after this time, and explain what there is (default 60).
        pcapng: save the capture, each reason as a comment that Wireshark shows with its packet.
        output: print what the command printed.
    """

    timeout_s: Annotated[float, Spelled(float, "S")] = 60.0
    pcapng: File | None = None
    output: bool = False


@dataclass(frozen=True, slots=True)
class Beside:
    """A capture, made beside the sender.

    Args:
        connection: which, if there are several.
        sender: whose segments (client).
        log: the sender's log of the same run.
        peer_capture: made beside the peer.
        peer_log: the peer's log.
        nodelay: the sender's TCP_NODELAY.
    """

    connection: Number | None = None
    sender: Literal["client", "server"] = "client"
    log: File | None = None
    peer_capture: File | None = None
    peer_log: File | None = None
    nodelay: Literal["on", "off"] | None = None


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures, as .png, .svg or .pdf.

    Args:
        figure: lanes of application, kernel, wire and peer.
        sequence: arrows between sender and peer.
        time_sequence: byte by time, of the whole connection.
        in_flight: data in flight by time, of the whole connection.
        between: start and end of --time-sequence and --in-flight (default: the whole connection).
        message: number of the message for --figure and --sequence (default: a typical one).
    """

    figure: FigureFile | None = None
    sequence: FigureFile | None = None
    time_sequence: FigureFile | None = None
    in_flight: FigureFile | None = None
    between: Annotated[tuple[float, float] | None, Spelled(float, "MS")] = None
    message: Number | None = None

    @property
    def wanted(self) -> bool:
        return any(getattr(self, name) for name in _PARTS)

    def check(self) -> None:
        """Refuse a part of the run that no figure draws."""
        for part, what in (("message", "message"), ("between", "time")):
            drawn_by = [name for name, its in _PARTS.items() if its == part]
            if getattr(self, part) is not None and not any(getattr(self, n) for n in drawn_by):
                options = " and ".join(map(_option, drawn_by))
                raise ValueError(f"--{part} says which {what} {options} draw: give one")

    def draw(self, timeline: Timeline) -> Iterator[tuple[Picture, str]]:
        """Draw each figure that was asked for, with the file to save it in."""
        from tcplab import figures

        for name, part in _PARTS.items():
            if file := getattr(self, name):
                drawn = getattr(figures, "timeline" if name == "figure" else name)
                try:
                    yield drawn(timeline, getattr(self, part)), file
                except ValueError as error:
                    raise ValueError(f"{_option(name)}: {error}") from None


#: The option that says which part of the run a figure draws.
_PARTS: Final = {
    "figure": "message",
    "sequence": "message",
    "time_sequence": "between",
    "in_flight": "between",
}


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


# ---- the command ---------------------------------------------------------------------------------


def explain(
    capture: Annotated[str | None, Spelled(str, "CAPTURE")] = None,
    *,
    json: bool = False,
    rate_mbit: Annotated[float | None, Spelled(float, "R")] = None,
    lab: InLab = InLab(),
    here: Here = Here(),
    either: InEither = InEither(),
    beside: Beside = Beside(),
    figures: Figures = Figures(),
    argv: Annotated[Sequence[str], PythonOnly()] = (),
) -> int:
    """Show why a command that talks TCP takes as long as it does, or what a capture shows of that.

    Usage:
        tcplab explain [OPTION]... -- COMMAND [ARGUMENT]...
        tcplab explain [OPTION]... CAPTURE

    Args:
        capture: a pcap or pcapng file.
        json: print everything as one JSON object.
        rate_mbit: rate of the link, 10^6 bit/s.

    The server's name is "server"; {server} and {port} in COMMAND become its address and the port
    on which it listens. It has to listen on all addresses, not only on localhost.

    Example: tcplab explain --server "redis-server --protected-mode no" -- redis-cli -h server ping
    """
    figures.check()
    if rate_mbit is not None and not 0 < rate_mbit <= 1e6:
        raise ValueError(f"--rate-mbit {rate_mbit:g}: give more than 0, up to 1000000")
    if capture is not None and argv:
        raise ValueError(f"{capture}: give either a capture or a command behind --")
    with loading():
        from tcplab.explain.answer import explained  # noqa: F401

    if capture is not None:
        return _explain_capture(capture, beside, rate_mbit, figures, json=json)
    found = explain_words(argv, lab, here, either.timeout_s, rate_mbit)
    try:
        if either.pcapng:
            found.save_pcapng(either.pcapng)
        for picture, file in figures.draw(found.worst()) if figures.wanted else ():
            picture.save(file)
    finally:  # what cannot be saved must not cost the answer
        if either.output:
            print(found.recorded.output, end="", file=sys.stderr)
        _print(found.as_json() if json else found.report())
    return 0


def _print(text: str) -> None:
    for line in text.splitlines():
        print(line if line.startswith("{") else "\n".join(_folded(line, 8)))


def explain_words(
    argv: Sequence[str], lab: InLab, here: Here, timeout_s: float, rate_mbit: float | None
) -> Explanation:
    """Run and explain a command.

    Raises:
        ValueError: there is no command, or options do not fit together.
        LabError: no laboratory can be made here, or the server does not listen.
    """
    from tcplab.explain import explain_command
    from tcplab.explain.answer import explained
    from tcplab.explain.here import record_here

    if not argv:
        raise ValueError("no command: tcplab explain [OPTION]... -- COMMAND [ARGUMENT]...")
    if not 0 < timeout_s <= 86_400:
        raise ValueError(f"--timeout-s {timeout_s:g}: give more than 0, up to 86400")
    if here.here:
        of_lab = {
            "server": lab.server,
            "rtt_ms": lab.rtt_ms,
            "rate_mbit": rate_mbit,
            "loss_percent": lab.loss_percent,
        }
        if given := [_option(name) for name, value in of_lab.items() if value is not None]:
            raise ValueError(f"{' and '.join(given)}: only in a laboratory, not with --here")
        return explained(record_here(argv, here.interface, timeout_s))
    if here.interface:
        raise ValueError("--interface: only with --here")
    loss = lab.loss_percent or 0.0
    if not 0 <= loss <= 100:
        raise ValueError(f"--loss-percent {loss:g}: give 0 to 100")
    return explain_command(
        argv,
        _words(lab.server) if lab.server else None,
        rtt_ms=lab.rtt_ms or 0.0,
        rate_mbit=rate_mbit,
        loss=loss / 100,
        timeout_s=timeout_s,
    )


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError as error:
        raise ValueError(f"--server {command}: {str(error).lower()}") from None


# ---- a capture -----------------------------------------------------------------------------------


def _explain_capture(
    capture: str, beside: Beside, rate_mbit: float | None, figures: Figures, *, json: bool
) -> int:
    """The verdict on all connections; the segments of one, if it is the only or the chosen one."""
    from tcplab.segments import TCP, from_file

    segments = from_file(capture)
    tcp = segments[segments["protocol"] == TCP]
    alone = beside.connection is not None or len(set(tcp["connection"].tolist())) <= 1
    if not alone and not figures.wanted:
        found = from_capture(capture, beside, rate_mbit)
        _print(found.as_json() if json else found.report())
        return 0
    timeline = find(capture, beside, rate_mbit)
    # Drawn before anything is printed: what cannot be drawn is a mistake in the options.
    pictures = list(figures.draw(timeline))
    if json:
        print(as_json(capture, timeline))
    else:
        if beside.connection is None and beside.log is None:
            _print(from_capture(capture, beside, rate_mbit).report())
            print()
        print(report(timeline))
    for picture, file in pictures:
        picture.save(file)
    return 0


def from_capture(capture: str, beside: Beside, rate_mbit: float | None = None) -> Explanation:
    """The verdict on a capture, in which nobody's calls are recorded."""
    from tcplab.capture import open_capture
    from tcplab.explain.answer import explained
    from tcplab.explain.recording import Recorded
    from tcplab.programs import CallLog

    near = open_capture(capture)
    times = near.segments["time_ns"]
    span = (int(times.min()), int(times.max())) if len(times) else (0, 0)
    far = open_capture(beside.peer_capture) if beside.peer_capture else None
    return explained(Recorded(CallLog(whole=True), None, near, far, span, rate_mbit))


def find(capture: str, beside: Beside, rate_mbit: float | None = None) -> Timeline:
    """The timeline of one sender in a capture.

    Raises:
        ValueError: the evidence does not belong together.
        CaptureError: a file is not a capture.
    """
    from tcplab import timeline
    from tcplab.segments import from_file

    exchange = timeline.Exchange(
        None,
        _log(beside.log),
        from_file(capture),
        _log(beside.peer_log),
        from_file(beside.peer_capture) if beside.peer_capture else None,
        rate_mbit=rate_mbit,
        nodelay=None if beside.nodelay is None else beside.nodelay == "on",
    )
    return timeline.explain(exchange, connection=beside.connection, sender=beside.sender)


def _log(path: str | None) -> list[Event] | None:
    from tcplab.programs import read_log

    if path is None:
        return None
    try:
        return read_log(path)
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    except (ValueError, UnicodeDecodeError):
        raise ValueError(
            f"{path} is no log: each line has to be TIME_NS EVENT BYTES, as --log writes it"
        ) from None


# ---- what is printed -----------------------------------------------------------------------------


#: How the evidence that is missing begins, and the option that gives it.
_TOLD_BY: Final = {
    "the application's log": "--log",
    "the socket's options": "--nodelay",
    "a capture at the peer": "--peer-capture",
    "the rate of the link": "--rate-mbit",
}


def report(timeline: Timeline) -> str:
    """Return one line per segment, then the waits, then missing evidence and its option."""
    from tcplab.timeline.timeline import waiting

    lines = [*_folded(_heading(timeline), 0), ""]
    sentences = timeline.sentences()
    start = timeline.start_ns
    for segment, sentence in zip(timeline.segments, sentences, strict=False):
        lines += _folded(f"{(segment.time_ns - start) / 1e6:12.3f} ms  {sentence}", 17)
    for sentence in sentences[len(timeline.segments) :]:
        lines += _folded(f"{'':17}{sentence}", 17)
    if not sentences:
        lines.append("no data segment of this sender is in the capture")
    for title, items in (
        ("Waits:", waiting(timeline)),
        ("Not told by the record:", _missing(timeline)),
    ):
        if items:
            lines += ["", title]
            for item in items:
                lines += _folded(f"  {item}", 4)
    return "\n".join(lines)


def _folded(line: str, indent: int) -> list[str]:
    """A line in as many lines as the terminal needs; in a pipe as it is."""
    width = shutil.get_terminal_size((sys.maxsize, 24)).columns
    if len(line) <= width:
        return [line]
    # A path that is longer than the terminal is wide stays whole: the line is there to be copied.
    return textwrap.wrap(
        line, width, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False
    )


def _missing(timeline: Timeline) -> list[str]:
    from tcplab.timeline.timeline import missing_evidence

    items = missing_evidence(timeline)
    options = [
        next((o for start, o in _TOLD_BY.items() if item.startswith(start)), None) for item in items
    ]
    return [
        f"{item} ({option})" if option else item
        for item, option in zip(items, options, strict=True)
    ]


def _heading(timeline: Timeline) -> str:
    options = {None: "not known", True: "on", False: "off"}[timeline.nodelay]
    mss = "not known" if timeline.mss_bytes is None else f"{timeline.mss_bytes} bytes"
    rtt = "not known" if timeline.rtt_ms is None else f"{timeline.rtt_ms:.3g} ms"
    return f"{timeline.connection}: MSS {mss}, smallest RTT {rtt}, TCP_NODELAY {options}"


def as_json(name: str, timeline: Timeline) -> str:
    """One JSON object: the timeline's segments, waits, ACKs and what was missing.

    The key "name" holds what was explained; times are ns of CLOCK_REALTIME, or ms since the first
    event where the key ends in "_ms".
    """
    from tcplab.timeline.timeline import missing_evidence

    data = {
        "name": name,
        "connection": timeline.connection,
        "mss_bytes": timeline.mss_bytes,
        "rtt_ms": timeline.rtt_ms,
        "nodelay": timeline.nodelay,
        "start_ns": timeline.start_ns,
        "segments": timeline.rows(),
        "waits": [asdict(each) for each in timeline.merged_holds()],
        "acks": [asdict(each) for each in timeline.acks],
        "sentences": timeline.sentences(),
        "missing": missing_evidence(timeline),
    }
    return dumps(data)
