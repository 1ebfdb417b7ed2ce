"""`tcplab explain`: any command, or a capture, explained.

For the command line: with_command takes a command from behind "--", add_arguments declares the
options, run does what they say.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import shlex
import shutil
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tcplab.explain import explain_command
from tcplab.explain.answer import Explanation, explained
from tcplab.explain.here import record_here
from tcplab.explain.recording import Recorded
from tcplab.programs import CallLog, Event, read_log
from tcplab.segments import TCP, from_file
from tcplab.timeline import Exchange, Timeline, explain
from tcplab.timeline.timeline import missing_evidence, waiting

if TYPE_CHECKING:
    from tcplab.figures import Picture

SUMMARY: Final = (
    "why a command that talks TCP takes as long as it does: tcplab explain [OPTION]... -- COMMAND;"
    " or what a capture shows of that: tcplab explain [OPTION]... CAPTURE"
)


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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `tcplab explain`."""
    parser.usage = (
        "tcplab explain [OPTION]... -- COMMAND [ARGUMENT]...\n"
        "       tcplab explain [OPTION]... CAPTURE"
    )
    parser.epilog = (
        'The server\'s name is "server"; {server} and {port} in COMMAND become its address and the'
        " port on which it listens. It has to listen on all addresses, not only on localhost."
    )
    parser.add_argument("capture", nargs="?", metavar="CAPTURE", help="a pcap or pcapng file")
    parser.add_argument("--json", action="store_true", help="print everything as one JSON object")
    lab = parser.add_argument_group("a command in a laboratory, client and server on two hosts")
    lab.add_argument("--server", metavar="CMD", help="the server's command, in quotes")
    lab.add_argument("--rtt-ms", type=float, metavar="MS", help="round-trip time (default 0)")
    lab.add_argument("--loss-percent", type=float, metavar="P", help="share of packets to drop")
    here = parser.add_argument_group("a command on this machine and its own network")
    text = "record the command as it runs on this machine, without a laboratory or a --server"
    here.add_argument("--here", action="store_true", help=text)
    text = "interface to record on (default: that of the default route)"
    here.add_argument("--interface", metavar="NAME", help=text)
    command = parser.add_argument_group("a command in either place")
    text = "end the command after this time, and explain what there is (default 60)"
    command.add_argument("--timeout-s", type=float, default=60.0, metavar="S", help=text)
    text = "save the capture, each reason as a comment that Wireshark shows with its packet"
    command.add_argument("--pcapng", metavar="FILE", help=text)
    command.add_argument("--output", action="store_true", help="print what the command printed")
    parser.add_argument("--rate-mbit", type=float, metavar="R", help="rate of the link, 10^6 bit/s")
    _add_recorded(parser.add_argument_group("a capture, made beside the sender"))
    _add_figures(parser)


def _add_recorded(group: Any) -> None:
    group.add_argument("--connection", type=int, metavar="N", help="which, if there are several")
    group.add_argument(
        "--sender", choices=("client", "server"), default="client", help="whose segments (client)"
    )
    group.add_argument("--log", metavar="FILE", help="the sender's log of the same run")
    group.add_argument("--peer-capture", metavar="FILE", help="made beside the peer")
    group.add_argument("--peer-log", metavar="FILE", help="the peer's log")
    group.add_argument("--nodelay", choices=("on", "off"), help="the sender's TCP_NODELAY")


#: Option -> function of tcplab.figures, the option that says which part of the run it draws, help.
_FIGURES: Final = {
    "--figure": ("timeline", "message", "lanes of application, kernel, wire and peer"),
    "--sequence": ("sequence", "message", "arrows between sender and peer"),
    "--time-sequence": ("time_sequence", "between", "byte by time, of the whole connection"),
    "--in-flight": ("in_flight", "between", "data in flight by time, of the whole connection"),
}
_KINDS: Final = (".png", ".svg", ".pdf")


def _add_figures(command: Any) -> None:
    figures = command.add_argument_group("figures, as .png, .svg or .pdf")
    for option, (name, _part, text) in _FIGURES.items():
        figures.add_argument(option, dest=name, metavar="FILE", type=_figure_file, help=text)
    text = "start and end of --time-sequence and --in-flight (default: the whole connection)"
    figures.add_argument("--between", nargs=2, type=float, metavar="MS", help=text)
    text = "number of the message for --figure and --sequence (default: a typical one)"
    figures.add_argument("--message", type=int, metavar="N", help=text)


def _figure_file(word: str) -> str:
    """Refuses before the run what could not be saved after it."""
    if Path(word).suffix.lower() not in _KINDS:
        raise argparse.ArgumentTypeError(f"{word}: the name must end in .png, .svg or .pdf")
    if not Path(word).parent.is_dir():
        raise argparse.ArgumentTypeError(f"{word}: there is no such directory")
    return word


# ---- the command ---------------------------------------------------------------------------------


def run(arguments: argparse.Namespace) -> int:
    """Explain, print and draw what the command line asks for; return the exit status.

    The status is 0 if there was something to explain, however the command ended.
    """
    wanted = {option: file for option in _FIGURES if (file := _asked(option, arguments))}
    for part, what in (("message", "message"), ("between", "time")):
        options = [option for option, (_name, its, _text) in _FIGURES.items() if its == part]
        if getattr(arguments, part) is not None and not wanted.keys() & options:
            raise ValueError(f"--{part} says which {what} {' and '.join(options)} draw: give one")
    if arguments.rate_mbit is not None and not 0 < arguments.rate_mbit <= 1e6:
        raise ValueError(f"--rate-mbit {arguments.rate_mbit:g}: give more than 0, up to 1000000")
    if arguments.capture is not None:
        if arguments.argv:
            raise ValueError(f"{arguments.capture}: give either a capture or a command behind --")
        return _run_capture(arguments, wanted)
    found = explain_arguments(arguments)
    try:
        if arguments.pcapng:
            found.save_pcapng(arguments.pcapng)
        for option, file in wanted.items():
            _draw(option, found.worst(), arguments).save(file)
    finally:  # what cannot be saved must not cost the answer
        if arguments.output:
            print(found.recorded.output, end="", file=sys.stderr)
        _print(found.as_json() if arguments.json else found.report())
    return 0


def _asked(option: str, arguments: argparse.Namespace) -> str | None:
    file: str | None = getattr(arguments, _FIGURES[option][0])
    return file


def _print(text: str) -> None:
    for line in text.splitlines():
        print(line if line.startswith("{") else "\n".join(_folded(line, 8)))


def explain_arguments(arguments: argparse.Namespace) -> Explanation:
    """Run and explain the command that the command line asks for.

    Raises:
        ValueError: there is no command, or options do not fit together.
        LabError: no laboratory can be made here, or the server does not listen.
    """
    if not arguments.argv:
        raise ValueError("no command: tcplab explain [OPTION]... -- COMMAND [ARGUMENT]...")
    if not 0 < arguments.timeout_s <= 86_400:
        raise ValueError(f"--timeout-s {arguments.timeout_s:g}: give more than 0, up to 86400")
    lab = ("server", "rtt_ms", "rate_mbit", "loss_percent")
    given = ["--" + name.replace("_", "-") for name in lab if getattr(arguments, name) is not None]
    if arguments.here:
        if given:
            raise ValueError(f"{' and '.join(given)}: only in a laboratory, not with --here")
        return explained(record_here(arguments.argv, arguments.interface, arguments.timeout_s))
    if arguments.interface:
        raise ValueError("--interface: only with --here")
    loss = arguments.loss_percent or 0.0
    if not 0 <= loss <= 100:
        raise ValueError(f"--loss-percent {loss:g}: give 0 to 100")
    return explain_command(
        arguments.argv,
        _words(arguments.server) if arguments.server else None,
        rtt_ms=arguments.rtt_ms or 0.0,
        rate_mbit=arguments.rate_mbit,
        loss=loss / 100,
        timeout_s=arguments.timeout_s,
    )


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError as error:
        raise ValueError(f"--server {command}: {str(error).lower()}") from None


def _draw(option: str, timeline: Timeline, arguments: argparse.Namespace) -> Picture:
    from tcplab import figures

    name, part, _text = _FIGURES[option]
    try:
        picture: Picture = getattr(figures, name)(timeline, getattr(arguments, part))
    except ValueError as error:
        raise ValueError(f"{option}: {error}") from None
    return picture


# ---- a capture -----------------------------------------------------------------------------------


def _run_capture(arguments: argparse.Namespace, wanted: dict[str, str]) -> int:
    """The verdict on all connections; the segments of one, if it is the only or the chosen one."""
    segments = from_file(arguments.capture)
    tcp = segments[segments["protocol"] == TCP]
    alone = arguments.connection is not None or len(set(tcp["connection"].tolist())) <= 1
    if not alone and not wanted:
        found = from_capture(arguments)
        _print(found.as_json() if arguments.json else found.report())
        return 0
    timeline = find(arguments)
    # Drawn before anything is printed: what cannot be drawn is a mistake in the options.
    pictures = [(_draw(option, timeline, arguments), file) for option, file in wanted.items()]
    if arguments.json:
        print(as_json(arguments.capture, timeline))
    else:
        if arguments.connection is None and arguments.log is None:
            _print(from_capture(arguments).report())
            print()
        print(report(timeline))
    for picture, file in pictures:
        picture.save(file)
    return 0


def from_capture(arguments: argparse.Namespace) -> Explanation:
    """The verdict on a capture, in which nobody's calls are recorded."""
    from tcplab.capture import open_capture

    near = open_capture(arguments.capture)
    times = near.segments["time_ns"]
    span = (int(times.min()), int(times.max())) if len(times) else (0, 0)
    far = open_capture(arguments.peer_capture) if arguments.peer_capture else None
    return explained(Recorded(CallLog(whole=True), None, near, far, span, arguments.rate_mbit))


def find(arguments: argparse.Namespace) -> Timeline:
    """The timeline of one sender in a capture.

    Raises:
        ValueError: the evidence does not belong together.
        CaptureError: a file is not a capture.
    """
    exchange = Exchange(
        None,
        _log(arguments.log),
        from_file(arguments.capture),
        _log(arguments.peer_log),
        from_file(arguments.peer_capture) if arguments.peer_capture else None,
        rate_mbit=arguments.rate_mbit,
        nodelay=None if arguments.nodelay is None else arguments.nodelay == "on",
    )
    return explain(exchange, connection=arguments.connection, sender=arguments.sender)


def _log(path: str | None) -> list[Event] | None:
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
    "the rate of the wire": "--rate-mbit",
}


def report(timeline: Timeline) -> str:
    """Return one line per segment, then the waits, then missing evidence and its option."""
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
    data = {
        "name": name,
        "connection": timeline.connection,
        "mss_bytes": timeline.mss_bytes,
        "rtt_ms": timeline.rtt_ms,
        "nodelay": timeline.nodelay,
        "start_ns": timeline.start_ns,
        "segments": timeline.rows(),
        "waits": [dataclasses.asdict(each) for each in timeline.merged_holds()],
        "acks": [dataclasses.asdict(each) for each in timeline.acks],
        "sentences": timeline.sentences(),
        "missing": missing_evidence(timeline),
    }
    return json.dumps(data)
