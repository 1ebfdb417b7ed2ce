"""`tcplab explain`: any command, one of the course's programs, or recorded files, explained.

For the command line: with_command takes a command from behind "--", add_arguments declares the
options, run does what they say. The course's programs are recorded as experiments record theirs.
"""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import json
import shlex
import shutil
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

from tcplab.checks import whole
from tcplab.errors import LabError
from tcplab.experiments.exchange import record_exchange
from tcplab.explain import explain_command
from tcplab.explain.answer import Explanation, explained
from tcplab.explain.here import record_here
from tcplab.lab import Lab
from tcplab.programs import (
    Event,
    QuickAck,
    SmallWritesMode,
    quotes,
    read_log,
    records,
    small_writes,
)
from tcplab.segments import from_file
from tcplab.timeline import Exchange, Timeline, explain
from tcplab.timeline.sentences import missing_evidence, waiting

if TYPE_CHECKING:
    from tcplab.figures import Picture

SUMMARY: Final = (
    "why a command takes as long as it does: tcplab explain [OPTION]... -- COMMAND;"
    " or one of the course's programs, or a capture"
)

_COMMAND: Final = "any command, behind --; the word `command` may be left out except before --help"

_MODES: Final[Mapping[SmallWritesMode, str]] = {
    "default": "small messages in 15 writes each, as they come",
    "no_delay": "small messages in 15 writes each, with TCP_NODELAY",
    "cork": "small messages in 15 writes each, between cork and uncork",
    "msg_more": "small messages in 15 writes each, all but the last with MSG_MORE",
    "writev": "small messages in one call of writev() each",
}

#: The largest values of options; the least is 1.
_MOST: Final = {
    "messages": 10_000,
    "writes": 1024,
    "write_bytes": 1 << 20,
    "count": 10_000,
    "batch": 1000,
}


# ---- the options ---------------------------------------------------------------------------------


def with_command(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The command line without the command to explain, and that command.

    `tcplab explain --rtt-ms 20 -- curl URL` is short for `tcplab explain command --rtt-ms 20` and
    the words "curl URL".
    """
    if list(words[:1]) != ["explain"] or "--" not in words:
        return list(words), []
    at = list(words).index("--")
    options = list(words[1:at])
    named = options[:1] == ["command"]
    return ["explain", *([] if named else ["command"]), *options], list(words[at + 1 :])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `tcplab explain`: a command of its own for each thing to explain."""
    kinds = parser.add_subparsers(
        title="what to explain", dest="what", required=True, metavar="WHAT"
    )

    def add(name: str, summary: str, program: Callable[..., Any] | None) -> Any:
        command = kinds.add_parser(name, help=summary, description=summary)
        command.add_argument("--json", action="store_true", help="segments, waits, ACKs as JSON")
        _add_figures(command)
        command.set_defaults(program=program)
        return command

    _add_command(add("command", _COMMAND, None))
    for mode, summary in _MODES.items():
        command = add(mode, summary, small_writes)
        command.set_defaults(mode=mode)
        _add_number(command, "--messages", 5, "number of messages")
        _add_number(command, "--writes", 15, "writes per message")
        _add_number(command, "--write-bytes", 2, "bytes per write")
        _add_lab(command)
    command = add("records", "many small records to a server that never answers", records)
    _add_number(command, "--count", 40, "number of records")
    command.add_argument("--nodelay", action="store_true", help="TCP_NODELAY on the source")
    command.add_argument("--unbuffered", action="store_true", help="await the ACK of each send")
    command.add_argument("--batch", type=int, metavar="K", help="K records per send")
    _add_lab(command)
    command = add("quotes", "requests, each awaiting its quote", quotes)
    _add_number(command, "--count", 20, "number of quotes")
    command.add_argument("--single", action="store_true", help="one connection, not two")
    command.add_argument("--nodelay", action="store_true", help="TCP_NODELAY on both ends")
    command.add_argument("--batch", type=int, default=1, metavar="K", help="K requests per send")
    _add_lab(command)
    _add_recorded(add("file", "a capture made beside the sender, and the sender's log", None))


def _add_command(command: Any) -> None:
    command.usage = "tcplab explain [OPTION]... -- COMMAND [ARGUMENT]..."
    lab = command.add_argument_group("in a laboratory, client and server on two hosts")
    lab.add_argument("--server", metavar="CMD", help="the server's command, in quotes")
    lab.add_argument("--rtt-ms", type=float, metavar="MS", help="round-trip time (default 0)")
    lab.add_argument("--rate-mbit", type=float, metavar="R", help="rate in 10^6 bit/s")
    lab.add_argument("--loss-percent", type=float, metavar="P", help="packets that are dropped")
    here = command.add_argument_group("on this machine and its own network")
    text = "record the command as it runs on this machine, without a laboratory or a --server"
    here.add_argument("--here", action="store_true", help=text)
    here.add_argument("--interface", metavar="NAME", help="to record on (default: to the world)")
    text = "end the command after this time, and explain what there is (default 60)"
    command.add_argument("--timeout-s", type=float, default=60.0, metavar="S", help=text)
    text = "save the capture, each reason as a comment that Wireshark shows with its packet"
    command.add_argument("--pcapng", metavar="FILE", help=text)
    command.add_argument("--output", action="store_true", help="print what the command printed")
    command.epilog = (
        'The server\'s name is "server"; {server} and {port} in COMMAND become its address and the'
        " port on which it listens. It has to listen on all addresses, not on localhost only."
        ' Example: tcplab explain --server "python3 -m http.server 8000 -p HTTP/1.1" --'
        " curl http://server:8000/"
    )


def _add_number(command: Any, option: str, default: int, meaning: str) -> None:
    text = f"{meaning} (default {default})"
    command.add_argument(option, type=int, metavar="N", default=default, help=text)


def _add_lab(command: Any) -> None:
    command.add_argument(
        "--rtt-ms",
        type=float,
        metavar="MS",
        default=0.0,
        help="round-trip time of the wire (default 0)",
    )
    command.add_argument(
        "--quickack",
        choices=get_args(QuickAck),
        default="on",
        help="when the server acknowledges: as its kernel likes (on, the default), as late as it"
        " may (off), at once (always)",
    )


def _add_recorded(command: Any) -> None:
    command.add_argument("capture", metavar="CAPTURE", help="pcap or pcapng")
    command.add_argument("--log", metavar="FILE", help="the sender's log of the same run")
    command.add_argument("--peer-capture", metavar="FILE", help="made beside the peer")
    command.add_argument("--peer-log", metavar="FILE", help="the peer's log")
    command.add_argument("--nodelay", choices=("on", "off"), help="the sender's TCP_NODELAY")
    command.add_argument(
        "--sender", choices=("client", "server"), default="client", help="whose segments (client)"
    )
    command.add_argument("--connection", type=int, metavar="N", help="if there are several")
    command.add_argument("--rate-mbit", type=float, metavar="R", help="of the wire, if known")


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
    """Explains, prints and draws what the command line asks for; returns the exit status."""
    wanted = {each: file for each in _FIGURES if (file := getattr(arguments, _FIGURES[each][0]))}
    for part, what in (("message", "message"), ("between", "time")):
        options = [option for option, (_name, its, _text) in _FIGURES.items() if its == part]
        if getattr(arguments, part) is not None and not wanted.keys() & options:
            raise ValueError(f"--{part} says which {what} {' and '.join(options)} draw: give one")
    if arguments.what == "command":
        return _run_command(arguments, wanted)
    name, timeline = find(arguments)
    # Drawn before anything is printed: what cannot be drawn is a mistake in the options.
    pictures = [(_draw(option, timeline, arguments), file) for option, file in wanted.items()]
    if arguments.json:
        print(as_json(name, timeline))
    else:
        print(report(timeline, recorded=arguments.program is None))
    for picture, file in pictures:
        picture.save(file)
    return 0


def _run_command(arguments: argparse.Namespace, wanted: Mapping[str, str]) -> int:
    """The exit status is 0 if the command could be explained, however it ended."""
    found = explain_arguments(arguments)
    try:
        if arguments.pcapng:
            found.save_pcapng(arguments.pcapng)
        for option, file in wanted.items():
            _draw(option, found.worst(), arguments).save(file)
    finally:  # what cannot be saved must not cost the answer
        _print_answer(found, arguments)
    return 0


def _print_answer(found: Explanation, arguments: argparse.Namespace) -> None:
    if arguments.output:
        print(found.recorded.output, end="", file=sys.stderr)
    if arguments.json:
        print(found.as_json())
        return
    for line in found.report().splitlines():
        print("\n".join(_folded(line, 8)))


def explain_arguments(arguments: argparse.Namespace) -> Explanation:
    """Runs and explains the command that the command line asks for.

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
        shlex.split(arguments.server) if arguments.server else None,
        rtt_ms=arguments.rtt_ms or 0.0,
        rate_mbit=arguments.rate_mbit,
        loss=loss / 100,
        timeout_s=arguments.timeout_s,
    )


def _draw(option: str, timeline: Timeline, arguments: argparse.Namespace) -> Picture:
    from tcplab import figures

    name, part, _text = _FIGURES[option]
    try:
        picture: Picture = getattr(figures, name)(timeline, getattr(arguments, part))
    except ValueError as error:
        raise ValueError(f"{option}: {error}") from None
    return picture


def find(arguments: argparse.Namespace) -> tuple[str, Timeline]:
    """The timeline that the command line asks for, and its name: kind of run, or capture's path.

    Raises:
        ValueError: a number is out of range, or the evidence does not belong together.
        CaptureError: a file is not a capture.
        LabError: no laboratory can be made here, or a program failed.
    """
    for option, most in _MOST.items():
        if (value := getattr(arguments, option, None)) is not None:
            whole("--" + option.replace("_", "-"), value, 1, most)
    if arguments.program is None:
        return arguments.capture, _recorded(arguments)
    return arguments.what, _live(arguments)


# ---- live ----------------------------------------------------------------------------------------


def _live(arguments: argparse.Namespace) -> Timeline:
    """Records a pair of programs in a laboratory of their own; options have parameters' names."""
    known = inspect.signature(arguments.program).parameters
    chosen = {name: value for name, value in vars(arguments).items() if name in known}
    try:
        lab = Lab(rtt_ms=arguments.rtt_ms)
    except LabError as error:
        raise LabError(f"{error} (`tcplab explain file CAPTURE` needs no laboratory)") from None
    with lab:
        return record_exchange(lab, arguments.program, **chosen).timeline()


# ---- recorded ------------------------------------------------------------------------------------


def _recorded(arguments: argparse.Namespace) -> Timeline:
    if arguments.rate_mbit is not None and not 0 < arguments.rate_mbit <= 1e6:
        raise ValueError(f"--rate-mbit {arguments.rate_mbit:g}: give more than 0, up to 1000000")
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


def report(timeline: Timeline, *, recorded: bool = False) -> str:
    """The timeline as text: one line per segment, then the waits, then missing evidence.

    Args:
        timeline: what to say.
        recorded: name the options of `tcplab explain file` that supply missing evidence.
    """
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
        ("Not told by the record:", _missing(timeline, recorded)),
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


def _missing(timeline: Timeline, recorded: bool) -> list[str]:
    items = missing_evidence(timeline)
    if not recorded:
        return items
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
