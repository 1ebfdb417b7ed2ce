"""A client that sends messages in pieces, and a server that replies to each complete message."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from tcplab import Lab
from tcplab.grading.captures import REPLY, CaptureLog, record_connection


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
