"""`tcplab explain`: explain the time of any command, or of a capture."""

from __future__ import annotations

import logging
import shlex
import shutil
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from tcplab.checks.parameters import PythonOnly, Spelled
from tcplab.cli.loading import loading
from tcplab.errors import ParameterError

if TYPE_CHECKING:
    from tcplab.explain.answer import Explanation
    from tcplab.programs import Event
    from tcplab.timeline import Timeline

# ---- the options ---------------------------------------------------------------------------------


def with_command(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split a command line at "--" into tcplab's own arguments and the command to explain."""
    words = list(arguments)
    if words[:1] == ["explain"] and "--" in words:
        at = words.index("--")
        return words[:at], words[at + 1 :]
    if words[:1] == ["explain"]:
        _check_dashes(words[1:])
    return words, []


#: Exit statuses from here on are signals.
_SIGNALLED: Final = 128
#: Options without a value.
_FLAGS: Final = ("--json", "--here", "--output", "--help", "-h")


def _check_dashes(arguments: Sequence[str]) -> None:
    """Raise ValueError if the command to explain does not follow "--"."""
    for at, word in enumerate(arguments):
        before = arguments[at - 1] if at else ""
        if word.startswith("-") or (before.startswith("--") and before not in _FLAGS):
            continue
        if not Path(word).exists() and shutil.which(word):
            options = shlex.join([*arguments[:at], "--", *arguments[at:]])
            raise ValueError(f"write -- before the command: tcplab explain {options}")
        return


_KINDS: Final = (".png", ".svg", ".pdf")


def _figure_file(word: str) -> str:
    """Check a figure's file name before the run, so that a wrong name does not waste the run."""
    if Path(word).suffix.lower() not in _KINDS:
        raise ParameterError(f"{word}: the name must end in .png, .svg or .pdf")
    if not Path(word).parent.is_dir():
        raise ParameterError(f"{word}: no such directory")
    return word


File = Annotated[str, Spelled(str, "FILE")]
FigureFile = Annotated[str, Spelled(_figure_file, "FILE")]
Number = Annotated[int, Spelled(int, "N")]
Milliseconds = Annotated[float, Spelled(float, "MS")]


@dataclass(frozen=True, slots=True)
class InLab:
    """Run the command in a laboratory, with client and server on two hosts.

    Args:
        server: command that starts the server, in quotes.
        rtt_ms: round-trip time of the link in ms (default 0).
        loss_percent: percentage of packets to drop.
    """

    server: Annotated[str | None, Spelled(str, "CMD")] = None
    rtt_ms: Milliseconds | None = None
    loss_percent: Annotated[float | None, Spelled(float, "P")] = None


@dataclass(frozen=True, slots=True)
class Here:
    """Run the command on this machine and its real network.

    Args:
        here: run and record the command on this machine, without a laboratory or --server.
        interface: interface to record on (default: that of the default route).
    """

    here: bool = False
    interface: Annotated[str | None, Spelled(str, "NAME")] = None


@dataclass(frozen=True, slots=True)
class InEither:
    """Options for a command, in a laboratory or on this machine.

    Args:
        timeout_s: end the command after S seconds (default 60) and explain what was recorded.
        pcapng: save the capture, with each reason as a packet comment that Wireshark shows.
        output: also print the command's own output.
    """

    timeout_s: Annotated[float, Spelled(float, "S")] = 60.0
    pcapng: File | None = None
    output: bool = False


@dataclass(frozen=True, slots=True)
class OfCapture:
    """Explain a capture that was recorded at the sender.

    Args:
        connection: number of the connection to explain, if there are several.
        sender: the side whose segments to explain (default: client).
        log: read the sender's log of the same run.
        peer_capture: read the capture recorded at the peer.
        nodelay: the sender's TCP_NODELAY setting, if no log shows it.
    """

    connection: Number | None = None
    sender: Literal["client", "server"] = "client"
    log: File | None = None
    peer_capture: File | None = None
    nodelay: Literal["on", "off"] | None = None

    @property
    def of_one_sender(self) -> bool:
        """True if an option asks for the segments of one sender."""
        return self != OfCapture(peer_capture=self.peer_capture)


# ---- the command ---------------------------------------------------------------------------------


def explain(
    capture: Annotated[str | None, Spelled(str, "CAPTURE")] = None,
    *,
    json: bool = False,
    rate_mbit: Annotated[float | None, Spelled(float, "R")] = None,
    figure: FigureFile | None = None,
    lab: InLab = InLab(),
    here: Here = Here(),
    either: InEither = InEither(),
    evidence: OfCapture = OfCapture(),
    argv: Annotated[Sequence[str], PythonOnly()] = (),
) -> int:
    """Explain why a command that uses TCP takes as long as it does, or explain a capture.

    Usage:
        tcplab explain [OPTION]... -- COMMAND [ARGUMENT]...
        tcplab explain [OPTION]... CAPTURE

    Args:
        capture: pcap or pcapng file to explain.
        json: print everything as one JSON object.
        rate_mbit: rate of the link in Mbit/s.
        figure: draw a message's timeline (.png, .svg or .pdf), from the sender that waited longest.

    The server's host name is "server". In COMMAND, {server} and {port} are replaced by its address
    and the port on which it listens. The server must listen on all addresses, not only localhost.

    Example: tcplab explain --server "redis-server --protected-mode no" -- redis-cli -h server ping
    """
    if rate_mbit is not None and not 0 < rate_mbit <= 1e6:
        raise ValueError(f"--rate-mbit {rate_mbit:g}: must be more than 0 and at most 1000000")
    if capture is not None and argv:
        raise ValueError(f"{capture}: give either a capture, or a command after --, but not both")
    with loading():
        from tcplab.explain.answer import explained  # noqa: F401

        if figure:  # before anything is recorded, since an extra may be missing
            from tcplab import figures

    if capture is not None and json:
        if evidence.of_one_sender or figure:
            raise ValueError("--json: only --peer-capture and --rate-mbit can be given with it")
        print(from_capture(capture, evidence, rate_mbit).as_json())
        return 0
    if capture is not None:
        return _explain_capture(capture, evidence, rate_mbit, figure)
    explanation = explain_words(argv, lab, here, either.timeout_s, rate_mbit)
    try:
        if either.pcapng:
            explanation.save_pcapng(either.pcapng)
        if figure:
            figures.timeline(explanation.worst()).save(figure)
    finally:  # print the answer even if a file could not be saved
        if either.output:
            print(explanation.recorded.output, end="", file=sys.stderr)
        _print(explanation.as_json() if json else explanation.report())
    # A signal's number comes from --timeout-s or Ctrl-C, after which the answer counts.
    return int(0 < (explanation.recorded.client.exit_status or 0) < _SIGNALLED)


def _print(text: str) -> None:
    for line in text.splitlines():
        print(line if line.startswith("{") else "\n".join(_folded(line, 8)))


def explain_words(
    argv: Sequence[str], lab: InLab, here: Here, timeout_s: float, rate_mbit: float | None
) -> Explanation:
    """Run and explain a command, in a laboratory or, with --here, on this machine."""
    from tcplab.explain import explain_command
    from tcplab.explain.answer import explained
    from tcplab.explain.here import record_here

    logging.basicConfig(
        format="tcplab: %(message)s", level=logging.INFO if sys.stderr.isatty() else logging.WARNING
    )
    if not argv:
        raise ValueError("no command: tcplab explain [OPTION]... -- COMMAND [ARGUMENT]...")
    if not 0 < timeout_s <= 86_400:
        raise ValueError(f"--timeout-s {timeout_s:g}: must be more than 0 and at most 86400")
    if here.here:
        of_lab = asdict(lab) | {"rate_mbit": rate_mbit}
        given = ["--" + name.replace("_", "-") for name, value in of_lab.items() if value]
        if given:
            raise ValueError(f"{' and '.join(given)}: cannot be combined with --here")
        return explained(record_here(argv, here.interface, timeout_s))
    if here.interface:
        raise ValueError("--interface: works only with --here")
    loss = lab.loss_percent or 0.0
    if not 0 <= loss <= 100:
        raise ValueError(f"--loss-percent {loss:g}: must be from 0 to 100")
    try:
        server = shlex.split(lab.server) if lab.server else None
    except ValueError as error:
        raise ValueError(f"--server {lab.server}: {str(error).lower()}") from None
    rtt_ms, loss = lab.rtt_ms or 0.0, loss / 100
    return explain_command(
        argv, server, rtt_ms=rtt_ms, rate_mbit=rate_mbit, loss=loss, timeout_s=timeout_s
    )


#: The segments of a capture are listed if there are at most this many, or if an option asks for it.
MOST_LISTED: Final = 20_000

# ---- a capture -----------------------------------------------------------------------------------


def _explain_capture(
    capture: str, evidence: OfCapture, rate_mbit: float | None, figure: str | None
) -> int:
    """Print the verdict on a capture, the segments of one connection, or both; save the figure."""
    import numpy as np

    from tcplab.segments import from_file
    from tcplab.timeline.evidence import of_tcp

    tcp = of_tcp(from_file(capture))
    numbers = np.unique(tcp["connection"]).tolist()
    listed = len(tcp) <= MOST_LISTED or evidence.of_one_sender
    if evidence.connection is None and not figure and not (len(numbers) <= 1 and listed):
        _print(from_capture(capture, evidence, rate_mbit).report())
        which = str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"
        print(f"\nTo list the segments of one connection, add --connection N ({which}).")
        return 0
    timeline = find(capture, evidence, rate_mbit)
    # Draw before printing anything, because a figure that cannot be drawn means wrong options.
    picture = None
    if figure:
        from tcplab import figures

        picture = figures.timeline(timeline)
    if evidence.connection is None and evidence.log is None:
        _print(from_capture(capture, evidence, rate_mbit).report())
        print()
    print(report(timeline))
    if picture and figure:
        picture.save(figure)
    return 0


def from_capture(capture: str, evidence: OfCapture, rate_mbit: float | None = None) -> Explanation:
    """Return the verdict on a capture, for which no socket calls were recorded."""
    from tcplab.capture import open_capture
    from tcplab.explain.answer import explained
    from tcplab.explain.recording import CommandExchange
    from tcplab.programs import CallLog
    from tcplab.timeline.evidence import of_tcp

    near = open_capture(capture)
    of_tcp(near.segments)
    times = near.segments["time_ns"]
    span = int(times.min()), int(times.max())
    far = open_capture(evidence.peer_capture) if evidence.peer_capture else None
    return explained(CommandExchange(CallLog(whole=True), None, near, far, span, rate_mbit))


def find(capture: str, evidence: OfCapture, rate_mbit: float | None = None) -> Timeline:
    """Return the timeline of one sender in a capture."""
    from tcplab import timeline
    from tcplab.segments import from_file

    exchange = timeline.Exchange(
        None,
        _log(evidence.log) if evidence.log else None,
        from_file(capture),
        peer_segments=from_file(evidence.peer_capture) if evidence.peer_capture else None,
        rate_mbit=rate_mbit,
        nodelay={"on": True, "off": False}.get(evidence.nodelay or ""),
    )
    return timeline.explain(exchange, connection=evidence.connection, sender=evidence.sender)


def _log(path: str) -> list[Event]:
    from tcplab.programs import read_log

    try:
        return read_log(path)
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    except (ValueError, UnicodeDecodeError):
        raise ValueError(
            f"{path} is not a log: each line must be TIME_NS EVENT BYTES, as --log writes it"
        ) from None


# ---- what is printed -----------------------------------------------------------------------------


def report(timeline: Timeline) -> str:
    """Return one line per segment, then the waits, then missing evidence."""
    from tcplab.timeline.timeline import missing_evidence, waiting

    option = {None: "not known", True: "on", False: "off"}[timeline.nodelay]
    mss = "not known" if timeline.mss_bytes is None else f"{timeline.mss_bytes} bytes"
    rtt = "not known" if timeline.rtt_ms is None else f"{timeline.rtt_ms:.3g} ms"
    heading = f"{timeline.connection}: MSS {mss}, smallest RTT {rtt}, TCP_NODELAY {option}"
    sentences, start = timeline.sentences(), timeline.start_ns
    times = [f"{(segment.time_ns - start) / 1e6:12.3f} ms" for segment in timeline.segments]
    lines = [*_folded(heading, 0), ""]
    for time_ms, sentence in zip_longest(times, sentences, fillvalue=""):
        lines += _folded(f"{time_ms:15}  {sentence}", 17)
    if not sentences:
        lines.append("no data segment of this sender is in the capture")
    for title, items in (
        ("Waits:", waiting(timeline)),
        ("Missing from the record:", missing_evidence(timeline)),
    ):
        lines += ["", title] * bool(items)
        for item in items:
            lines += _folded(f"  {item}", 4)
    return "\n".join(lines)


def _folded(line: str, indent: int) -> list[str]:
    """Wrap a line to the terminal's width; without a terminal, do not wrap it."""
    width = shutil.get_terminal_size((sys.maxsize, 24)).columns
    if len(line) <= width:
        return [line]
    # Do not break a path that is wider than the terminal, so that it can be copied.
    return textwrap.wrap(
        line, width, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False
    )
