"""Record the conversations that the timeline's tests explain.

    python -m tests.support.timeline.record [NAME]...

A conversation is three small files in tests/data/conversations. They hold the headers that both
ends saw, and what the programs and the client's kernel recorded. They are not kept if a packet was
late on the link, which may cause a pause. Read the printed explanation before you commit them.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from tests.support.timeline.recorded import FOLDER, load

from tcplab import Lab
from tcplab.capture import Capture
from tcplab.experiments.interface_settings import put_token_bucket
from tcplab.programs import Event
from tcplab.programs.counters import tcp_counters
from tcplab.timeline.sockets import read_options, read_tcp_info, sampling

TCP: Final = socket.IPPROTO_TCP
MSS: Final = 1448
#: A packet that is later than this on the link would be another cause of a pause.
MOST_LATE_MS: Final = 1.0
#: Fields of TCP_INFO that explain() reads.
SAMPLED: Final = (
    *("time_ns", "unacked", "sacked", "lost", "retrans", "snd_cwnd"),
    *("notsent_bytes", "snd_wnd_bytes"),
)
REPORTED: Final = ("snd_ssthresh", "snd_mss_bytes")


class Conversation:
    """A client that sends and a server that reads on request, with a log of each call."""

    def __init__(self, lab: Lab, client: socket.socket, server: socket.socket) -> None:
        self.lab = lab
        self.client = client
        self.server = server
        self.log: list[Event] = []
        self.peer_log: list[Event] = []
        self._reader: threading.Thread | None = None

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
        """Let the server read `size` bytes."""
        while size > 0:
            got = len(self.server.recv(size))
            assert got, "the client closed early"
            self.peer_log.append(Event(time.time_ns(), "read", got))
            size -= got

    def answer(self, size: int = 2) -> None:
        """Let the server answer, and the client wait for the answer."""
        self.peer_log.append(Event(time.time_ns(), "reply", size))
        self.server.sendall(b"y" * size)
        got = self.client.recv(size, socket.MSG_WAITALL)
        self.note("reply", len(got))

    def read_and_answer(self, size: int) -> None:
        self.read_all(size)
        self.answer()

    def exchange(self, *sizes: int) -> None:
        """Make writes of these sizes, then wait for the answer, as a client does."""
        self.write(*sizes)
        self.read_and_answer(sum(sizes))

    def become_interactive(self) -> None:
        """Exchange messages until the server sees an interactive connection and delays its ACKs."""
        for _ in range(3):
            self.exchange(10)

    def reader(self) -> None:
        """Let the server read everything until the end of the stream, in a thread."""

        def work() -> None:
            while got := self.server.recv(1 << 20):
                self.peer_log.append(Event(time.time_ns(), "read", len(got)))

        self._reader = threading.Thread(target=work, daemon=True)
        self._reader.start()

    def lose(self, *sizes: int) -> None:
        """Make these writes while the link drops every packet from the client."""
        self.lab.link.update("client->server", loss=1.0)
        self.write(*sizes)
        time.sleep(0.02)
        self.lab.link.update("client->server", loss=0.0)

    def finish(self) -> None:
        self.client.shutdown(socket.SHUT_WR)
        if self._reader is not None:
            self._reader.join(timeout=20)
            assert not self._reader.is_alive()
        else:
            while self.server.recv(1 << 20):
                pass


# ---- scenarios -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scenario:
    """A conversation to record, and its link."""

    play: Callable[[Conversation], None]
    link: dict[str, Any] = field(default_factory=lambda: {"rtt_ms": 4.0})
    nodelay: bool = False
    sndbuf_bytes: int | None = None
    rcvbuf_bytes: int | None = None
    sample_ms: float | None = None
    #: whether packets wait for a 1 Mbit/s token bucket before they leave the client
    slow_interface: bool = False


def forgotten_cork(talk: Conversation) -> None:
    talk.cork()
    talk.write(10, 20)
    talk.read_all(30)
    talk.uncork()
    talk.answer()


def full_segment_in_a_cork(talk: Conversation) -> None:
    talk.cork()
    talk.write(1000, 1000)
    talk.read_all(MSS)
    talk.uncork()
    talk.read_and_answer(2000 - MSS)


def msg_more(talk: Conversation) -> None:
    talk.write(10, 20, more=True)
    talk.exchange(5)


def forgotten_msg_more(talk: Conversation) -> None:
    talk.write(10, 20, more=True)
    talk.read_and_answer(30)


def nodelay_set(talk: Conversation) -> None:
    talk.become_interactive()
    talk.write(10, 11)
    talk.option(socket.TCP_NODELAY, 1, "nodelay")
    talk.read_and_answer(21)


def writes(*sizes: int) -> Scenario:
    def play(talk: Conversation) -> None:
        talk.become_interactive()
        talk.exchange(*sizes)

    return Scenario(play)


def small_receive_window(talk: Conversation) -> None:
    talk.write(10_000)
    time.sleep(0.1)
    talk.read_and_answer(10_000)


def read_meanwhile(*sizes: int, pause_s: float) -> Callable[[Conversation], None]:
    def play(talk: Conversation) -> None:
        talk.reader()
        for size in sizes:
            talk.write(size)
            time.sleep(pause_s)

    return play


def two_exchanges(talk: Conversation) -> None:
    talk.exchange(10)
    talk.exchange(10)


def lost(*sizes: int, then: tuple[int, ...] = ()) -> Callable[[Conversation], None]:
    def play(talk: Conversation) -> None:
        talk.exchange(10)
        talk.lose(*sizes)
        talk.write(*then)
        talk.read_and_answer(sum(sizes) + sum(then))

    return play


def deferred_burst(talk: Conversation) -> None:
    """Send 10 segments at once while one awaits its delayed ACK, so that only 8 of them leave."""
    talk.become_interactive()
    talk.write(115)
    time.sleep(0.018)
    talk.write(10 * MSS)
    talk.read_and_answer(115 + 10 * MSS)


def autocorking(talk: Conversation) -> None:
    """Let small data wait behind a full segment that waits for the interface."""
    time.sleep(0.02)  # the bucket is full again after the handshake
    talk.exchange(2 * MSS, 100, 100, 100, 100)


SCENARIOS: Final[dict[str, Scenario]] = {
    "forgotten-cork": Scenario(forgotten_cork),
    "full-segment-in-a-cork": Scenario(full_segment_in_a_cork),
    "msg-more": Scenario(msg_more),
    "forgotten-msg-more": Scenario(forgotten_msg_more),
    "nodelay-set": Scenario(nodelay_set),
    "4+100": writes(4, 100),
    "1448+100": writes(MSS, 100),
    "2896+100": writes(2 * MSS, 100),
    "1449+100": writes(MSS + 1, 100),
    "1548": writes(MSS + 100),
    "receive-window": Scenario(small_receive_window, rcvbuf_bytes=4096),
    "initial-window": Scenario(read_meanwhile(14 * MSS, pause_s=0.05)),
    "send-buffer": Scenario(
        read_meanwhile(100_000, pause_s=0.05), {"rtt_ms": 20}, sndbuf_bytes=16_384, sample_ms=2
    ),
    "pause": Scenario(read_meanwhile(100, 100, pause_s=0.06)),
    "two-exchanges": Scenario(two_exchanges),
    "slow-link": Scenario(read_meanwhile(10 * MSS, pause_s=0.1), {"rtt_ms": 4, "rate_mbit": 5}),
    "lost": Scenario(lost(50)),
    "lost-and-more": Scenario(lost(50, then=(60, 70, 80, 90)), nodelay=True),
    "lost-two": Scenario(lost(50, 60)),
    "one-exchange": Scenario(lambda talk: talk.exchange(MSS + 10)),
    "deferred-burst": Scenario(deferred_burst, {"rtt_ms": 10}, nodelay=True),
    "autocorking": Scenario(autocorking, {}, nodelay=True, slow_interface=True),
}


# ---- recording -----------------------------------------------------------------------------------


def record(name: str, scenario: Scenario) -> str:
    """Play a scenario and keep its conversation; return why it was not kept, or ""."""
    with Lab(**scenario.link) as lab:
        if scenario.slow_interface:
            put_token_bucket(lab.client, rate="1mbit", burst=1600, latency="200ms")
        # The first connection of a laboratory meets cold caches, so it is not recorded.
        with _connected(lab, Scenario(two_exchanges)) as (talk, _known):
            two_exchanges(talk)
        lab.link.command("reset")
        before = tcp_counters(lab.client)
        with lab.client.capture(snaplen=94) as near, lab.server.capture(snaplen=94) as far:
            with _connected(lab, scenario) as (talk, known):
                scenario.play(talk)
            time.sleep(0.02)  # until packets in flight have arrived
        known["counters"] = dict(tcp_counters(lab.client) - before)
        late_ms = max(way["late_ns"]["max"] for way in lab.link.counters().values()) / 1e6
    assert near.drops == far.drops == 0
    if late_ms > MOST_LATE_MS:
        return f"the link was {late_ms:.1f} ms late with a packet"
    _save(name, known | {"log": talk.log, "peer_log": talk.peer_log}, near, far)
    return ""


@contextmanager
def _connected(lab: Lab, scenario: Scenario) -> Iterator[tuple[Conversation, dict[str, Any]]]:
    """Yield a connection and its client's kernel state; close it at the end."""
    with lab.server.socket() as listener, lab.client.socket() as client:
        if scenario.rcvbuf_bytes:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, scenario.rcvbuf_bytes)
        if scenario.sndbuf_bytes:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, scenario.sndbuf_bytes)
        listener.bind((lab.server.address, 0))
        listener.listen(1)
        for endpoint in (listener, client):
            endpoint.settimeout(20)
        client.setsockopt(TCP, socket.TCP_CONGESTION, b"reno")
        client.setsockopt(TCP, socket.TCP_NODELAY, int(scenario.nodelay))
        client.connect(listener.getsockname())
        server, _address = listener.accept()
        with server:
            server.settimeout(20)
            talk = Conversation(lab, client, server)
            known: dict[str, Any] = {"options": asdict(read_options(client))}
            if scenario.sample_ms is None:
                yield talk, known
            else:
                with sampling(client, scenario.sample_ms) as samples:
                    yield talk, known
                known["samples"] = [{name: sample[name] for name in SAMPLED} for sample in samples]
            info = read_tcp_info(client)
            known["tcp_info"] = {name: info[name] for name in REPORTED}
            talk.finish()


def _save(name: str, known: dict[str, Any], near: Capture, far: Capture) -> None:
    FOLDER.mkdir(exist_ok=True)
    near.save(FOLDER / f"{name}.client.pcapng")
    far.save(FOLDER / f"{name}.server.pcapng")
    lines = ",\n".join(f'"{key}": {json.dumps(value)}' for key, value in known.items())
    (FOLDER / f"{name}.json").write_text(f"{{\n{lines}\n}}\n")


def main() -> None:
    for name in sys.argv[1:] or SCENARIOS:
        why = record(name, SCENARIOS[name])
        print(f"{name}: {why or 'kept'}")
        if not why:
            print("\n".join(f"    {sentence}" for sentence in load(name).timeline().sentences()))


if __name__ == "__main__":
    main()
