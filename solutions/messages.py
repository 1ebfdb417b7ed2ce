"""Record a client that sends messages in pieces, with the log of its calls, for several scenes."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from tcplab import Lab
from tcplab.grading.captures import record_connection
from tcplab.programs.logs import Event

REPLY = b"ok"
_HEADING = "# CLOCK_REALTIME in ns, call, bytes (or the option's value)"


class CaptureLog:
    """A list of the calls of a recorded program, with times on the capture's clock."""

    def __init__(self) -> None:
        self.calls: list[Event] = []

    def note(self, name: str, value: int) -> None:
        """Add a call that is being made now."""
        self.calls.append(Event(time.time_ns(), name, value))

    def save(self, path: Path) -> None:
        """Write the calls in the format that calls_of() reads."""
        lines = [_HEADING, *(f"{at} {name} {value}" for at, name, value in self.calls)]
        path.write_text("\n".join(lines) + "\n")


def send_messages(connection: socket.socket, messages: Sequence[str], log: CaptureLog) -> None:
    """Act as a client that sends messages and reads the reply to each.

    A message lists its calls: a size to write, "cork=1", "cork=0", or "sleep=SECONDS", which is not
    logged.
    """
    for message in messages:
        for call in message.split():
            name, _, value = call.rpartition("=")
            if name == "sleep":
                time.sleep(float(value))
            elif name == "cork":
                log.note("cork", int(value))
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, int(value))
            else:
                log.note("write", int(value))
                connection.sendall(b"m" * int(value))
        log.note("read", len(REPLY))
        connection.recv(len(REPLY), socket.MSG_WAITALL)


def reply_to_messages(connection: socket.socket, messages: Sequence[str]) -> None:
    """Act as the server that replies to each message once all of it has arrived."""
    for message in messages:
        size = sum(int(call) for call in message.split() if call.isdecimal())
        connection.recv(size, socket.MSG_WAITALL)
        connection.sendall(REPLY)


def record_messages(path: Path, messages: Sequence[str], *, rtt_ms: float) -> None:
    """Record a client that sends these messages, and save the log of its calls with the capture."""
    log = CaptureLog()
    client = partial(send_messages, messages=messages, log=log)
    with Lab(rtt_ms=rtt_ms) as lab:
        record_connection(lab, path, client, partial(reply_to_messages, messages=messages))
    log.save(path.with_suffix(".log"))
