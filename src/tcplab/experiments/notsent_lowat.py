"""Measure how old data is when it arrives, with options that limit the sender's queue.

TCP_NOTSENT_LOWAT (tcp(7)) limits the unsent data of a socket. SO_SNDBUF also limits the data in
flight. By Little's law, the time from write() to the ACK is the data that the sender holds divided
by the rate. The data arrives half a round trip before the ACK.
"""

import socket
import statistics
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Annotated, Final, Literal, get_args

from tcplab.errors import LabError
from tcplab.experiments import Between, Result, Variant, column, derived, experiment
from tcplab.experiments.parameters import DurationS, RttsMs
from tcplab.experiments.progress import in_labs
from tcplab.experiments.sockets import connection
from tcplab.lab import Lab
from tcplab.timeline.sockets import sampling

Option = Literal["left to the kernel", "SO_SNDBUF", "TCP_NOTSENT_LOWAT"]

_RECORD: Final = "d1016x"  # the time of the write, and padding
_RECORD_BYTES: Final = struct.calcsize(_RECORD)
_SAMPLE_MS: Final = 50
_TCP_NOTSENT_LOWAT: Final = 25  # linux/tcp.h


class Aged(Variant, key=("option", "rtt_ms"), label="{0.option}, {0.rtt_ms:g} ms"):
    """Records written as fast as the socket takes them, measured in the second half of the run."""

    option: Option = column("sender's queue limit")
    rtt_ms: float = column("RTT (ms)", "g")
    mbit: float = column("Mbit/s", ".2f")
    unsent_bytes: float = column("unsent (bytes)", ",.0f")  #: median
    in_flight_bytes: float = column("in flight (bytes)", ",.0f")  #: median
    age_ms: float = column("age at arrival (ms)", ".0f")  #: median time from write() to the reader
    most_age_ms: float = column("95th percentile (ms)", ".0f")

    @derived("model (ms)", ".0f")
    def model_age_ms(self) -> float:
        """The age by Little's law."""
        return 8 * (self.unsent_bytes + self.in_flight_bytes) / self.mbit / 1e3 - self.rtt_ms / 2


@experiment(
    "notsent-lowat",
    figure=("age_ms", "unsent_bytes", "mbit"),
    finding="At an RTT of 200 ms, data left to the kernel is {age_ms[left to the "
    "kernel, 200 ms/TCP_NOTSENT_LOWAT, 200 ms]} times as old as with TCP_NOTSENT_LOWAT",
)
def measure(
    options: Annotated[Sequence[Option], "what limits the sender's queue"] = get_args(Option),
    rtts_ms: Annotated[RttsMs, Between(1, 500, "ms")] = (20, 200),
    limit_bytes: Annotated[int, Between(2048, 1 << 22, "bytes"), "value of the option"] = 16_384,
    duration_s: Annotated[DurationS, Between(2, 30, "s")] = 5.0,
) -> Result[Aged]:
    """Measure how old data is when it arrives, and how much waits in the sender's own queue.

    The link has a rate of 10 Mbit/s and a queue that CoDel manages.
    """
    keys = [(option, rtt_ms) for option in options for rtt_ms in rtts_ms]
    variants, origin = in_labs(
        duration_s,
        keys,
        lambda key: {"rtt_ms": key[1], "rate_mbit": 10.0, "aqm": "codel"},
        lambda lab, key: _aged(lab, key[0], limit_bytes, duration_s),
    )
    return Result(variants, origin)


def _aged(lab: Lab, option: Option, limit_bytes: int, duration_s: float) -> Aged:
    with connection(lab) as (sender, receiver):
        if option == "SO_SNDBUF":
            sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, limit_bytes)
        elif option == "TCP_NOTSENT_LOWAT":
            sender.setsockopt(socket.IPPROTO_TCP, _TCP_NOTSENT_LOWAT, limit_bytes)
        half_s = time.monotonic() + duration_s / 2
        writer = threading.Thread(target=_write, args=(sender, half_s + duration_s / 2))
        with sampling(sender, _SAMPLE_MS) as samples:
            writer.start()
            arrived = [(at_s, age_ms) for at_s, age_ms in _arrivals(receiver) if at_s >= half_s]
            writer.join()
    if not arrived:
        raise LabError("no record arrived in the second half of the run; run it for longer")
    late = samples[len(samples) // 2 :]
    unsent = statistics.median(info["notsent_bytes"] for info in late)
    in_flight = statistics.median(
        info["bytes_sent"] - info["bytes_retrans"] - info["bytes_acked"] for info in late
    )
    ages_ms = sorted(age_ms for _at_s, age_ms in arrived)
    took_s = arrived[-1][0] - arrived[0][0]
    mbit = 8 * _RECORD_BYTES * (len(arrived) - 1) / took_s / 1e6
    age_ms, most_age_ms = statistics.median(ages_ms), ages_ms[int(0.95 * len(ages_ms))]
    return Aged(option, lab.rtt_ms, mbit, unsent, in_flight, age_ms, most_age_ms)


def _write(sender: socket.socket, end_s: float) -> None:
    while (now_s := time.monotonic()) < end_s:
        sender.sendall(struct.pack(_RECORD, now_s))
    sender.shutdown(socket.SHUT_WR)


def _arrivals(receiver: socket.socket) -> Iterator[tuple[float, float]]:
    """Read records until EOF; yield the time in s and the age in ms of each."""
    rest = b""
    while data := receiver.recv(1 << 16):
        now_s = time.monotonic()
        rest += data
        whole = len(rest) // _RECORD_BYTES * _RECORD_BYTES
        for (written_s,) in struct.iter_unpack(_RECORD, rest[:whole]):
            yield now_s, 1e3 * (now_s - written_s)
        rest = rest[whole:]
