"""Record captures for learners in a Lab, and compute facts about them for a judge.

tcplab.grading.drawing makes `captures.zip` from what an assignment's `hidden/scenes.py` records,
and `hidden/captures.json`, which names the cause of each capture. A judge counts the segments in
the capture that was handed out (:func:`facts_of`). Only the cause comes from the file that drawing
wrote (:func:`cause_of`).
"""

from __future__ import annotations

import json
import math
import random
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tcplab.errors import LabError
from tcplab.grading.archive import Stored
from tcplab.grading.checks import Hint, Verdict, count, number
from tcplab.lab import Lab
from tcplab.programs.logs import Event, events_in

if TYPE_CHECKING:
    from tcplab.segments import SegmentArray

#: A client that has not connected within this time has failed.
_ACCEPT_S: Final = 60.0
#: The recording continues for this time, so that the last ACKs are in the capture.
_AFTERWARDS_S: Final = 0.1


# ---- reading -------------------------------------------------------------------------------------


def cause_of(capture: Stored) -> str:
    """Return the cause that a capture shows, or raise KeyError if captures.json lacks it."""
    path = capture.folder / "hidden" / "captures.json"
    causes: dict[str, str] = json.loads(path.read_text())
    return causes[Path(capture.name).name]


def calls_of(capture: Stored) -> list[Event]:
    """Return the calls of the application in order, from the log of a capture."""
    return events_in(capture.log())


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts about a capture of one connection in which the client sends data."""

    rows: SegmentArray  #: all segments
    data: SegmentArray  #: the client's data segments, including retransmissions
    payload_bytes: int  #: payload of the client, including retransmissions
    longest_pause_ms: float  #: longest time between two of these segments, or 0 if there is one
    first_to_last_ms: float  #: time from the client's first data segment to its last
    cause: str  #: the cause that the capture shows, from hidden/captures.json


@lru_cache(maxsize=256)
def facts_of(capture: Stored) -> Facts:
    """Return the facts about a capture, computed once per process for all submissions.

    Raise KeyError if the capture has no known cause, and ValueError if its client sends no data.
    """
    rows = capture.segments()
    data = rows.data("client")
    if not len(data):
        raise ValueError(f"{capture}: its client sends no data, so there is nothing to find")
    return Facts(
        rows=rows,
        data=data,
        payload_bytes=int(data["payload_bytes"].sum()),
        longest_pause_ms=max(pauses_ms(data), default=0.0),
        first_to_last_ms=float(data["time_ns"][-1] - data["time_ns"][0]) / 1e6,
        cause=cause_of(capture),
    )


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits that no right answer about a capture exceeds, for public checks."""

    segments: int  #: number of segments
    payload_bytes: int  #: payload of all segments
    lasts_ms: float  #: time from the first segment to the last


@lru_cache(maxsize=256)
def bounds_of(capture: Stored) -> Bounds:
    """Return the limits for answers about a capture."""
    rows = capture.segments()
    lasts_ns = int(rows["time_ns"][-1] - rows["time_ns"][0])
    return Bounds(len(rows), int(rows["payload_bytes"].sum()), lasts_ns / 1e6)


def pauses_ms(rows: SegmentArray) -> list[float]:
    """Return the times between consecutive segments in ms, one fewer than there are segments."""
    between = rows["time_ns"][1:] - rows["time_ns"][:-1]
    return [float(pause_ns) / 1e6 for pause_ns in between]


def data_segments(
    value: object, facts: Facts, *, name: str, wrong: str = "From the client, and with payload."
) -> Verdict:
    """Check an answer that is the number of the client's data segments."""
    rows, of_client = facts.rows, len(facts.rows.sent_by("client"))
    return count(
        value,
        len(facts.data),
        name=name,
        hints=[
            Hint(len(rows), "these are all segments, both ways, handshake and ACKs too."),
            Hint(of_client, "the client's SYN, ACKs and FIN are among them.", 0.5),
            Hint(len(rows.data()), "the server's data segments are among them.", 0.5),
        ],
        wrong=wrong,
    )


def longest_pause(value: object, facts: Facts, *, name: str) -> Verdict:
    """Check an answer that is the longest pause, in ms, between data segments of the client."""
    return number(
        value,
        facts.longest_pause_ms,
        name=name,
        unit="ms",
        within=0.005,
        hints=[
            Hint(facts.longest_pause_ms / 1e3, "this is in seconds.", 0.5),
            Hint(facts.first_to_last_ms, "this is from the first data segment to the last.", 0.5),
        ],
        wrong="Take the client's data segments alone, and the largest difference between the times"
        " of two consecutive ones.",
    )


# ---- making --------------------------------------------------------------------------------------


def small_talk(
    messages: int = 16,
    bulk_bytes: int = 16_000,
    longest_s: float = 0.56,
    last_s: Sequence[float] = (),
) -> list[tuple[float, int]]:
    """Draw messages for a server to send before the client's part, as (pause in s, bytes).

    They hide the cause of a capture. Without them, a nearest-neighbour classifier could guess the
    cause from how long a connection lasts, how much it carries and where it pauses. The pauses of
    up to `longest_s` are like those of the client's part, and `last_s` imitates other causes.
    """
    rng = random.SystemRandom()
    often = rng.random()
    few, longest = range(rng.randrange(2, 14)), math.log10(longest_s)
    pauses_s = [
        10 ** rng.uniform(-3, -1.2) if rng.random() < often else 0.0
        for _ in range(rng.randrange(messages))
    ]
    pauses_s += [10 ** rng.uniform(-1.9, longest) for _ in few]
    rng.shuffle(pauses_s)
    talk = [(pause_s, rng.randrange(2, 600)) for pause_s in [*pauses_s, *last_s]]
    talk.insert(len(pauses_s), (0.0, rng.randrange(1, bulk_bytes)))
    return talk


def finish(connection: socket.socket) -> None:
    """Shut down our direction, and read until the peer has shut down its direction."""
    connection.shutdown(socket.SHUT_WR)
    while connection.recv(65536):
        pass


def record_connection(
    lab: Lab,
    path: Path,
    client: Callable[[socket.socket], None],
    server: Callable[[socket.socket], None],
    *,
    prepare: Callable[[socket.socket, socket.socket], None] | None = None,
    port: int = 5001,
    snaplen: int = 80,
    talk: Sequence[tuple[float, int]] | None = None,
    patience_s: float = 60.0,
) -> None:
    """Record one connection at the client's interface, and save the capture.

    `prepare` gets the listening and the client's socket before they are used. After `talk`, which
    the server sends, `client` and `server` are called at the same time with their sockets, and
    their exceptions propagate. The client's socket is closed when its function returns. Raise
    LabError if the recorder lost packets, or the server did not end in `patience_s` after that.
    """
    with lab.server.socket() as listener, lab.client.socket() as connection:
        if prepare is not None:
            prepare(listener, connection)
        listener.bind(("", port))
        listener.listen()
        listener.settimeout(_ACCEPT_S)

        talk = small_talk() if talk is None else talk
        failures: list[Exception] = []
        arguments = (listener, server, talk, failures)
        serving = threading.Thread(target=_serve, args=arguments, daemon=True)
        with lab.client.capture(snaplen=snaplen) as capture:
            serving.start()
            try:
                connection.connect((lab.server.address, port))
                left = sum(size for _, size in talk)
                while left and (block := connection.recv(left)):
                    left -= len(block)
                client(connection)
            finally:
                connection.close()  # the server must see the end of the stream in any case
            serving.join(patience_s)
            if serving.is_alive():
                raise LabError(f"{path.name}: the server does not end within {patience_s:g} s")
            if failures:
                raise failures[0]
            time.sleep(_AFTERWARDS_S)
        if capture.drops:
            raise LabError(f"the recorder lost {capture.drops} packets of {path.name}; try again")
        capture.save(path)


def _serve(
    listener: socket.socket,
    server: Callable[[socket.socket], None],
    talk: Sequence[tuple[float, int]],
    failures: list[Exception],
) -> None:
    try:
        accepted, _ = listener.accept()
        with accepted:
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for pause_s, size in talk:
                time.sleep(pause_s)
                accepted.sendall(bytes(size))
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)
            server(accepted)
    except Exception as error:
        failures.append(error)
