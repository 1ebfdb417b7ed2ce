"""`tcplab explain`: why each segment left when it did, of a live run or of recorded files.

For the command line: add_arguments declares the options, timelines does the work, report and
as_json print it.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, cast, get_args

from tcplab.lab import Lab
from tcplab.programs import Event, QuickAck, SmallWritesMode, read_log, small_writes
from tcplab.segments import from_file
from tcplab.timeline import Timeline, explain
from tcplab.timeline.words import missing_evidence, waiting

__all__ = ["SUMMARY", "add_arguments", "as_json", "report", "timelines"]

SUMMARY: Final = "why each segment left when it did: of the small-writes programs, or of a capture"
_MODES: Final = cast(tuple[SmallWritesMode, ...], get_args(SmallWritesMode))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `tcplab explain`."""
    parser.add_argument(
        "what",
        nargs="*",
        default=["default"],
        metavar="MODE|CAPTURE",
        help=f"run these modes of the small-writes programs ({', '.join(_MODES)}) in a lab of their"
        " own, or read one capture file, made beside the sender",
    )
    parser.add_argument("--json", action="store_true", help="segments, waits and ACKs as JSON")
    live = parser.add_argument_group("running the programs")
    live.add_argument("--messages", type=int, default=3, help="a mode (default 3)")
    live.add_argument("--writes", type=int, default=15, help="in a message (default 15)")
    live.add_argument("--size", type=int, default=2, help="bytes in a write (default 2)")
    live.add_argument("--rtt-ms", type=float, default=0.0, help="of the wire (default 0)")
    live.add_argument("--quickack", choices=get_args(QuickAck), default="on", help="server's")
    recorded = parser.add_argument_group("reading a capture")
    recorded.add_argument("--log", metavar="FILE", help="the sender's log of this very run")
    recorded.add_argument("--peer-log", metavar="FILE", help="the peer's log")
    recorded.add_argument("--peer-capture", metavar="FILE", help="made beside the peer")
    recorded.add_argument("--nodelay", choices=("on", "off"), help="the sender's TCP_NODELAY")
    recorded.add_argument("--sender", choices=("client", "server"), help="whose segments (client)")
    recorded.add_argument("--connection", type=int, metavar="N", help="if there are several")
    recorded.add_argument("--rate-mbit", type=float, metavar="R", help="of the wire, if known")


def timelines(arguments: argparse.Namespace) -> list[tuple[str, Timeline]]:
    """What to explain, each with its name: a mode, or the capture's path.

    Raises:
        ValueError: a file and a mode are mixed up, or the evidence does not belong together.
        CaptureError: a file is not a capture.
        LabError: no laboratory can be made here, or a program failed.
    """
    words = list(arguments.what)
    unknown = [word for word in words if word not in _MODES]
    if not unknown:
        return list(_live(arguments, cast(list[SmallWritesMode], words)))
    if len(words) > 1 or not Path(words[0]).exists():
        raise ValueError(
            f"{unknown[0]!r} is neither a capture file alone nor one of {', '.join(_MODES)}"
        )
    return [(words[0], _recorded(arguments, words[0]))]


def _live(
    arguments: argparse.Namespace, modes: list[SmallWritesMode]
) -> Iterator[tuple[str, Timeline]]:
    with (
        Lab(rtt_ms=arguments.rtt_ms) as lab,
        tempfile.TemporaryDirectory(prefix="tcplab-") as directory,
    ):
        log, server_log = Path(directory) / "client.log", Path(directory) / "server.log"
        for mode in modes:
            with lab.client.capture() as capture, lab.server.capture() as peer_capture:
                result = small_writes(
                    lab,
                    mode,
                    arguments.messages,
                    writes=arguments.writes,
                    size_bytes=arguments.size,
                    quickack=arguments.quickack,
                    log=log,
                    server_log=server_log,
                )
            yield (
                mode,
                explain(
                    read_log(log),
                    capture.segments,
                    result.options,
                    peer_log=read_log(server_log),
                    peer_segments=peer_capture.segments,
                    tcp_info=result.tcp_info,
                ),
            )


def _recorded(arguments: argparse.Namespace, path: str) -> Timeline:
    return explain(
        _log(arguments.log),
        from_file(path),
        peer_log=_log(arguments.peer_log),
        peer_segments=from_file(arguments.peer_capture) if arguments.peer_capture else None,
        rate_mbit=arguments.rate_mbit,
        connection=arguments.connection,
        sender=arguments.sender,
        nodelay=None if arguments.nodelay is None else arguments.nodelay == "on",
    )


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


def report(timeline: Timeline) -> str:
    """The timeline in words: one line a segment, then the waits, then what was missing."""
    lines = [_heading(timeline), ""]
    sentences = timeline.sentences()
    start = timeline.start_ns
    for segment, sentence in zip(timeline.segments, sentences, strict=False):
        lines.append(f"{(segment.time_ns - start) / 1e6:12.3f} ms  {sentence}")
    lines += [f"{'':15}  {sentence}" for sentence in sentences[len(timeline.segments) :]]
    for title, items in (
        ("Waits:", waiting(timeline)),
        ("Not told by the record:", missing_evidence(timeline)),
    ):
        if items:
            lines += ["", title, *(f"  {item}" for item in items)]
    return "\n".join(lines)


def _heading(timeline: Timeline) -> str:
    options = {None: "not known", True: "on", False: "off"}[timeline.nodelay]
    mss = "not known" if timeline.mss_bytes is None else f"{timeline.mss_bytes} bytes"
    rtt = "not known" if timeline.rtt_ms is None else f"{timeline.rtt_ms:.3g} ms"
    return f"{timeline.connection}: MSS {mss}, smallest RTT {rtt}, TCP_NODELAY {options}"


def as_json(named: list[tuple[str, Timeline]]) -> str:
    """One JSON object a timeline, in a list: its segments, waits, ACKs and what was missing."""
    return json.dumps([{"name": name, **_data(timeline)} for name, timeline in named])


def _data(timeline: Timeline) -> dict[str, Any]:
    return {
        "connection": timeline.connection,
        "mss_bytes": timeline.mss_bytes,
        "rtt_ms": timeline.rtt_ms,
        "nodelay": timeline.nodelay,
        "segments": timeline.rows(),
        "waits": [dataclasses.asdict(each) for each in timeline.stretches()],
        "acks": [dataclasses.asdict(each) for each in timeline.acks],
        "sentences": timeline.sentences(),
        "missing": missing_evidence(timeline),
    }
