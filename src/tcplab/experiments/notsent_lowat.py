"""Measure how old data is when it arrives, with options that limit the sender's queue.

TCP_NOTSENT_LOWAT (tcp(7)) limits the unsent data of a socket. SO_SNDBUF also limits the data in
flight. By Little's law, the time from write() to the ACK is the data that the sender holds divided
by the rate. The data arrives half a round trip before the ACK.
"""

from __future__ import annotations

import fcntl
import socket
import statistics
import struct
import termios
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Final, Literal, TypeAlias, get_args

from tcplab.errors import LabError
from tcplab.experiments import Between, Result, Variant, column, experiment
from tcplab.experiments.bottleneck.bufferbloat import Aqm
from tcplab.experiments.parameters import DurationS, RateMbit
from tcplab.experiments.progress import in_labs
from tcplab.experiments.sockets import connection
from tcplab.lab import Lab

Option = Literal["left to the kernel", "SO_SNDBUF", "TCP_NOTSENT_LOWAT"]

_RECORD_BYTES: Final = 1024  # the time of the write, and padding
_SAMPLE_S: Final = 0.05
_TCP_NOTSENT_LOWAT: Final = 25  # linux/tcp.h
_SIOCOUTQNSD: Final = 0x894B  # linux/sockios.h


class Aged(Variant, key=("option", "rtt_ms"), label="{0.option}, {0.rtt_ms:g} ms"):
    """Records written as fast as the socket takes them, measured in the second half of the run."""

    option: Option = column("sender's queue limit")
    rtt_ms: float = column("RTT (ms)", "g")
    mbit: float = column("Mbit/s", ".2f")
    unsent_bytes: float = column("unsent (bytes)", ",.0f")  #: median
    in_flight_bytes: float = column("in flight (bytes)", ",.0f")  #: median
    age_ms: float = column("age at arrival (ms)", ".0f")  #: median time from write() to the reader
    most_age_ms: float = column("95th percentile (ms)", ".0f")
    model_age_ms: float = column("model (ms)", ".0f")  #: prediction by Little's law


Ages: TypeAlias = Result[Aged]


@experiment("notsent-lowat")
def measure(
    options: Annotated[Sequence[Option], "what limits the sender's queue"] = get_args(Option),
    rtts_ms: Annotated[Sequence[float], Between(1, 500, "ms")] = (20, 200),
    limit_bytes: Annotated[int, Between(2048, 1 << 22, "bytes"), "value of the option"] = 16_384,
    aqm: Annotated[Aqm, "queue management of the bottleneck"] = "codel",
    rate_mbit: Annotated[RateMbit, Between(1, 50, "Mbit/s")] = 10.0,
    duration_s: Annotated[DurationS, Between(2, 30, "s")] = 5.0,
) -> Ages:
    """Measure how old data is when it arrives, and how much waits in the sender's own queue.

    Args:
        rtts_ms: round-trip times of the idle path
    """
    keys = [(option, rtt_ms) for option in options for rtt_ms in rtts_ms]
    variants, origins = in_labs(
        "notsent-lowat",
        duration_s,
        keys,
        lambda key: {"rtt_ms": key[1], "rate_mbit": rate_mbit, "aqm": aqm},
        lambda lab, key: _aged(lab, key[0], limit_bytes, duration_s),
    )
    return Result(variants, origins[0])


def _aged(lab: Lab, option: Option, limit_bytes: int, duration_s: float) -> Aged:
    arrived: list[tuple[float, float]] = []
    held: list[tuple[int, int]] = []
    with connection(lab) as (sender, receiver):
        if option == "SO_SNDBUF":
            sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, limit_bytes)
        elif option == "TCP_NOTSENT_LOWAT":
            sender.setsockopt(socket.IPPROTO_TCP, _TCP_NOTSENT_LOWAT, limit_bytes)
        end_s = time.monotonic() + duration_s
        with _writing(sender, end_s):
            _read(receiver, sender, end_s - duration_s / 2, arrived, held)
    if not arrived:
        raise LabError("no record arrived in the second half of the run; run it for longer")
    took_s = arrived[-1][0] - arrived[0][0]
    ages_ms = sorted(age_ms for _time, age_ms in arrived)
    unsent = statistics.median(unsent for unsent, _flight in held)
    in_flight = statistics.median(flight for _unsent, flight in held)
    mbit = 8 * _RECORD_BYTES * (len(arrived) - 1) / took_s / 1e6
    return Aged(
        option=option,
        rtt_ms=lab.rtt_ms,
        mbit=mbit,
        age_ms=statistics.median(ages_ms),
        most_age_ms=ages_ms[int(0.95 * len(ages_ms))],
        unsent_bytes=unsent,
        in_flight_bytes=in_flight,
        model_age_ms=8 * (unsent + in_flight) / mbit / 1e3 - lab.rtt_ms / 2,
    )


@contextmanager
def _writing(sender: socket.socket, end_s: float) -> Iterator[None]:

    def write() -> None:
        while (now_s := time.monotonic()) < end_s:
            sender.sendall(struct.pack("d", now_s).ljust(_RECORD_BYTES, b"."))
        sender.shutdown(socket.SHUT_WR)

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    yield
    thread.join()


def _read(
    receiver: socket.socket,
    sender: socket.socket,
    from_s: float,
    arrived: list[tuple[float, float]],
    held: list[tuple[int, int]],
) -> None:
    """Read records until EOF.

    Once the clock reaches `from_s`, append (time in s, age in ms) of each record to `arrived`, and
    every _SAMPLE_S seconds the sender's numbers of bytes (unsent, in flight) to `held`.
    """
    rest, due_s = b"", from_s
    while data := receiver.recv(1 << 16):
        now_s = time.monotonic()
        rest += data
        whole = len(rest) // _RECORD_BYTES * _RECORD_BYTES
        for at in range(0, whole, _RECORD_BYTES):
            (written_s,) = struct.unpack_from("d", rest, at)
            if now_s >= from_s:
                arrived.append((now_s, 1e3 * (now_s - written_s)))
        rest = rest[whole:]
        if now_s >= due_s:
            due_s = now_s + _SAMPLE_S
            unsent, held_bytes = _asked(sender, _SIOCOUTQNSD), _asked(sender, termios.TIOCOUTQ)
            held.append((unsent, max(held_bytes - unsent, 0)))


def _asked(sender: Any, request: int) -> int:
    (size,) = struct.unpack("i", fcntl.ioctl(sender, request, bytes(4)))
    return int(size)
