"""A connection between the hosts of a laboratory, driven step by step, with a log of each call."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from tests.support.timeline.explained import explain_evidence

from tcplab import Lab
from tcplab.programs import Event, SocketOptions
from tcplab.segments import DTYPE, SegmentArray
from tcplab.timeline import Timeline
from tcplab.timeline.sockets import read_options, read_tcp_info, sampling

TCP = socket.IPPROTO_TCP
RECORDED = ("options", "log", "peer_log", "evidence", "segments", "peer_segments")


class Conversation:
    """The client sends, the server reads as it is told to; both ends are recorded."""

    def __init__(self, lab: Lab, client: socket.socket, server: socket.socket) -> None:
        self.lab = lab
        self.client = client
        self.server = server
        self.options: SocketOptions | None = None
        self.log: list[Event] = []
        self.peer_log: list[Event] = []
        self.evidence: dict[str, Any] = {}
        self.segments: SegmentArray = np.empty(0, DTYPE).view(SegmentArray)
        self.peer_segments: SegmentArray = np.empty(0, DTYPE).view(SegmentArray)
        self._reader: threading.Thread | None = None

    def recorded(self) -> dict[str, Any]:
        """Return the parts that Conversation.of reads."""
        return {name: getattr(self, name) for name in RECORDED}

    @classmethod
    def of(cls, stored: dict[str, Any]) -> Conversation:
        """A conversation that was recorded; nothing can be added to it."""
        talk = cls.__new__(cls)
        for name in RECORDED:
            setattr(talk, name, stored[name])
        return talk

    def note(self, name: str, size: int = 0) -> None:
        self.log.append(Event(time.time_ns(), name, size))

    def write(self, *sizes: int, more: bool = False) -> None:
        for size in sizes:
            self.note("more" if more else "write", size)
            self.client.sendall(b"x" * size, socket.MSG_MORE if more else 0)
            self.note("wrote", size)

    def option(self, option: int, value: int, name: str) -> None:
        self.note(name)
        self.client.setsockopt(TCP, option, value)

    def cork(self) -> None:
        self.option(socket.TCP_CORK, 1, "cork")

    def uncork(self) -> None:
        self.option(socket.TCP_CORK, 0, "uncork")

    def read_all(self, size: int) -> None:
        """The server reads so many bytes."""
        while size > 0:
            got = len(self.server.recv(size))
            assert got, "the client closed early"
            self.peer_log.append(Event(time.time_ns(), "read", got))
            size -= got

    def answer(self, size: int = 2) -> None:
        """The server answers, the client waits for it."""
        self.peer_log.append(Event(time.time_ns(), "reply", size))
        self.server.sendall(b"y" * size)
        got = self.client.recv(size, socket.MSG_WAITALL)
        self.note("reply", len(got))

    def exchange(self, *sizes: int) -> None:
        """Writes, then waits for the answer, as a client does."""
        self.write(*sizes)
        self.read_all(sum(sizes))
        self.answer()

    def become_interactive(self) -> None:
        """Until the server delays its ACKs: it answers, and then sees the next small segment."""
        for _ in range(3):
            self.exchange(10)

    def reader(self, pause_s: float = 0.0) -> None:
        """The server reads whatever comes, in a thread of its own, until the end."""

        def work() -> None:
            while got := self.server.recv(1 << 20):
                self.peer_log.append(Event(time.time_ns(), "read", len(got)))
                if pause_s:
                    time.sleep(pause_s)

        self._reader = threading.Thread(target=work, daemon=True)
        self._reader.start()

    def finish(self) -> None:
        self.evidence.setdefault("tcp_info", read_tcp_info(self.client))
        self.client.shutdown(socket.SHUT_WR)
        if self._reader is not None:
            self._reader.join(timeout=20)
            assert not self._reader.is_alive()
        else:
            while self.server.recv(1 << 20):
                pass

    def timeline(self, *without: str, **more: Any) -> Timeline:
        """Explained with all that was recorded, or without some of it."""
        evidence: dict[str, Any] = {
            "options": self.options,
            "peer_log": self.peer_log or None,
            "peer_segments": self.peer_segments,
            **self.evidence,
            **more,
        }
        log = None if "log" in without else self.log
        for name in without:
            evidence.pop(name, None)
        return explain_evidence(log, self.segments, **evidence)


@contextmanager
def conversation(
    lab: Lab,
    *,
    nodelay: bool = False,
    sndbuf_bytes: int | None = None,
    rcvbuf_bytes: int | None = None,
    sample_ms: float | None = None,
    congestion: str = "reno",
) -> Iterator[Conversation]:
    """Connects; after the body, closes, and the record is complete."""
    with lab.client.capture() as capture, lab.server.capture() as peer_capture:
        with lab.server.socket() as listener, lab.client.socket() as client:
            if rcvbuf_bytes:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf_bytes)
            if sndbuf_bytes:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, sndbuf_bytes)
            listener.bind((lab.server.address, 0))
            listener.listen(1)
            for each in (listener, client):
                each.settimeout(20)
            client.setsockopt(TCP, socket.TCP_CONGESTION, congestion.encode())
            client.setsockopt(TCP, socket.TCP_NODELAY, int(nodelay))
            client.connect(listener.getsockname())
            server, _address = listener.accept()
            with server:
                server.settimeout(20)
                talk = Conversation(lab, client, server)
                talk.options = read_options(client)
                if sample_ms is None:
                    yield talk
                else:
                    with sampling(client, sample_ms) as samples:
                        yield talk
                    talk.evidence["samples"] = samples
                talk.finish()
        # What is under way to the recorders arrives.
        time.sleep(0.02)
    assert capture.drops == 0
    talk.segments, talk.peer_segments = capture.segments, peer_capture.segments
