"""Single facts, each on the kernel and in the model: what books say, and what this kernel does."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import pytest
from tests.support.models.playground import SYSCTLS, Played, kernel_clock, play
from tests.support.nonempty import each

from tcplab.lab import Lab
from tcplab.models import (
    Call,
    NetworkPath,
    Peer,
    Reason,
    Simulation,
    message_calls,
    message_cost,
    receive_buffer_grant,
    receive_window,
    send_buffer_grant,
    simulate,
)

pytestmark = [
    pytest.mark.needs_lab,
    pytest.mark.timeout(300),
]

CLOCK: Final = kernel_clock()
SETTLE_MS: Final = 60.0
END: Final = Call("quickack", 1, 700.0)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab(rtt_ms=10, sysctls=SYSCTLS) as made:
        yield made


def both(lab: Lab, peer: Peer, *calls: Call) -> tuple[Played, Simulation]:
    """The same calls on the kernel and in the model, once both ends have come to rest."""
    first, *rest = calls
    schedule = (replace(first, delay_ms=first.delay_ms + SETTLE_MS), *rest, END)
    # The first connection of a laboratory meets cold caches, and its handshake is slow.
    played = play(lab, [(END,), schedule], peer, stagger_ms=50)[1]
    return played, simulate(played.since_connect, NetworkPath(rtt_ms=lab.rtt_ms, clock=CLOCK), peer)


def reasons(predicted: Simulation) -> list[Reason]:
    return [segment.reason for segment in predicted.data]


# ---- when a cork comes out -----------------------------------------------------------------------


@pytest.mark.parametrize("hold", [Call("cork", 1), Call("nodelay", 0)])
def test_a_forgotten_cork_comes_out_after_the_retransmission_timeout(hold: Call) -> None:
    """tcp(7) speaks of a ceiling of 200 ms: it is RTT + 200 ms, and at first at least 3 RTT."""
    waited = {}
    for rtt_ms in (10, 150):
        with Lab(rtt_ms=rtt_ms, sysctls=SYSCTLS) as lab:
            piece = Call("write", 100) if hold.kind == "cork" else Call("more", 100)
            played, predicted = both(lab, Peer(), hold, piece)
        assert played.boundaries == predicted.boundaries == (100,)
        assert reasons(predicted) == [Reason.CORK_TIMEOUT]
        waited[rtt_ms] = played.data[0].time_ms
        model_ms = predicted.data[0].waited_ms
        assert abs(waited[rtt_ms] - model_ms) <= 0.15 * model_ms
        assert waited[rtt_ms] >= 200 + rtt_ms - CLOCK.tick_ms
    assert waited[150] > 1.5 * waited[10]


def test_an_ack_releases_what_msg_more_held_but_not_a_cork(lab: Lab) -> None:
    more, as_predicted = both(lab, Peer(), Call("write", 10), Call("more", 20))
    assert more.boundaries == as_predicted.boundaries == (10, 20)
    assert reasons(as_predicted)[1] == Reason.RELEASED_BY_ACK
    assert more.data[1].time_ms < 100 < 200

    cork, as_predicted = both(lab, Peer(), Call("write", 10), Call("cork", 1), Call("write", 20))
    assert cork.boundaries == as_predicted.boundaries == (10, 20)
    assert reasons(as_predicted)[1] == Reason.CORK_TIMEOUT
    assert cork.data[1].time_ms > 200


def test_setting_nodelay_sends_what_is_corked_and_leaves_the_cork(lab: Lab) -> None:
    played, predicted = both(
        lab,
        Peer(),
        Call("cork", 1),
        Call("write", 100),
        Call("nodelay", 1, 50),
        Call("write", 200, 50),
    )
    assert played.boundaries == predicted.boundaries == (100, 200)
    assert reasons(predicted) == [Reason.NODELAY_SET, Reason.CORK_TIMEOUT]
    _, _, nodelay_ms, write_ms, *_ = played.starts_ms
    corked, alone = (segment.time_ms for segment in played.data)
    assert nodelay_ms < corked < write_ms  # nothing else but that call can have sent it
    assert alone - write_ms > 200


def test_pulling_the_cork_does_not_override_nagle(lab: Lab) -> None:
    played, predicted = both(
        lab,
        Peer(quickack="off", reads=False),
        Call("write", 10),
        Call("cork", 1),
        Call("write", 20),
        Call("cork", 0),
    )
    assert played.boundaries == predicted.boundaries == (10, 20)
    assert predicted.data[1].reason == Reason.RELEASED_BY_ACK
    assert played.data[1].time_ms > 40


@pytest.fixture(scope="module")
def short_lab() -> Iterator[Lab]:
    """An RTT so short that a loss probe comes long before a delayed ACK."""
    with Lab(rtt_ms=2, sysctls=SYSCTLS) as made:
        yield made


def test_a_tail_loss_probe_pulls_a_cork(short_lab: Lab) -> None:
    """Two segments unacknowledged, the ACK delayed: after 2 RTT + 2 ms what is corked goes out."""
    played, predicted = both(
        short_lab,
        Peer(quickack="off", reads=False),
        Call("nodelay", 1),
        Call("write", 10),
        Call("write", 11),
        Call("cork", 1),
        Call("write", 12),
    )
    assert played.boundaries == predicted.boundaries == (10, 11, 12)
    assert reasons(predicted)[2] == Reason.TAIL_LOSS_PROBE
    first_ack_ms = min(when for when, upto, _window in played.acks if upto > 0)
    assert played.data[2].time_ms < first_ack_ms


def test_a_delayed_ack_makes_the_sender_repeat_itself(short_lab: Lab) -> None:
    """With nothing new to send, the probe resends the last segment though nothing was lost."""
    played, predicted = both(
        short_lab,
        Peer(quickack="off", reads=False),
        Call("nodelay", 1),
        Call("write", 10),
        Call("write", 11),
    )
    resent = [s for s in predicted.data if s.reason == Reason.RETRANSMISSION]
    assert [(s.seq, s.payload_bytes) for s in resent] == [(10, 11)]
    assert [(s.seq, s.payload_bytes) for s in played.resent] == [(10, 11)]


# ---- Minshall, and the letter of RFC 896 ---------------------------------------------------------


def test_a_small_tail_after_full_segments_is_not_held(lab: Lab) -> None:
    played, predicted = both(lab, Peer(), Call("write", 2 * 1448), Call("write", 100))
    assert played.boundaries == predicted.boundaries == (1448, 1448, 100)
    assert played.data[2].time_ms < 5
    by_the_letter = simulate(
        played.since_connect, NetworkPath(rtt_ms=10, nagle="rfc896", clock=CLOCK)
    )
    assert by_the_letter.data[2].reason == Reason.RELEASED_BY_ACK


def test_the_rest_of_a_write_counts_as_small(lab: Lab) -> None:
    played, predicted = both(lab, Peer(), Call("write", 1448 + 1), Call("write", 100))
    assert played.boundaries == predicted.boundaries == (1448, 1, 100)
    assert predicted.data[2].waited_for == Reason.HELD_BY_NAGLE
    assert played.data[2].time_ms > 9


# ---- who acknowledges when -----------------------------------------------------------------------


def own_acks(played: Played) -> list[int]:
    """ACKs between the first segment's and the shutdown's."""
    return [upto for when, upto, _window in played.acks if 0 < when < 600 and upto > 0]


def test_sixteen_small_segments_are_acknowledged_at_once(lab: Lab) -> None:
    writes = [Call("write", 10, 15.0) for _ in range(24)]
    played, predicted = both(lab, Peer(reads=False), Call("nodelay", 1), *writes)
    assert own_acks(played)[:16] == [10 * (i + 1) for i in range(16)]
    # From the seventeenth on they wait for the timer, and for company.
    assert len(own_acks(played)) <= 21
    model = [packet for packet in predicted.packets if packet.why.startswith("quick-ACK")]
    assert len(model) == 16


def test_full_segments_get_more_quick_acks_while_the_window_grows(lab: Lab) -> None:
    writes = [Call("write", 1448, 15.0) for _ in range(32)]
    played, predicted = both(lab, Peer(reads=False), Call("nodelay", 1), *writes)
    quick = [packet for packet in predicted.packets if packet.why.startswith("quick-ACK")]
    assert 16 < len(quick) < 32
    at_once = 0
    for upto in own_acks(played):
        if upto != 1448 * (at_once + 1):
            break
        at_once += 1
    assert 16 < at_once < 32


# ---- what the model leaves out, and says so ------------------------------------------------------


def test_a_thread_that_writes_to_two_sockets_by_turns_leaks_from_a_cork(lab: Lab) -> None:
    """A buffer has 17 fragments; writes of one thread to two sockets never share one."""
    sizes = {}
    for sockets in (1, 2):
        with lab.client.capture(snaplen=128) as capture:
            port = _write_by_turns(lab, sockets, writes=20)
        rows = capture.segments
        mine = rows.at_port(port).data("client")
        sizes[sockets] = mine["payload_bytes"].tolist()
    assert sizes == {1: [200], 2: [170, 30]}


def _write_by_turns(lab: Lab, sockets: int, writes: int) -> int:
    """Corked writes of 10 bytes to each socket by turns, from one thread; the first one's port."""
    with lab.server.socket() as listener:
        listener.bind((lab.server.address, 0))
        listener.listen()
        senders = [lab.client.socket() for _ in range(sockets)]
        try:
            for sender in senders:
                sender.connect(listener.getsockname())
                sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
            for _ in range(writes):
                for sender in senders:
                    sender.send(b"x" * 10)
            port: int = senders[0].getsockname()[1]
            return port
        finally:
            for sender in senders:
                sender.close()


# ---- buffers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("requested", [0, 1, 1152, 2304, 10_000, 65_536, 1_000_000, 2**30])
def test_buffer_grants(lab: Lab, requested: int) -> None:
    with lab.client.socket() as sender:
        for option, grant, limit in (
            (socket.SO_SNDBUF, send_buffer_grant, "net.core.wmem_max"),
            (socket.SO_RCVBUF, receive_buffer_grant, "net.core.rmem_max"),
        ):
            sender.setsockopt(socket.SOL_SOCKET, option, requested)
            maximum = int(_global_sysctl(limit))
            granted = sender.getsockopt(socket.SOL_SOCKET, option)
            assert granted == grant(requested, maximum)


def _global_sysctl(name: str) -> str:
    return Path("/proc/sys", *name.split(".")).read_text()


@pytest.mark.parametrize("requested", [None, 4096, 16_384, 65_536, 131_072, 200_000, 1_000_000])
def test_the_window_of_a_buffer(lab: Lab, requested: int | None) -> None:
    """The window in the SYN-ACK, its scale, and the largest one when full segments have come."""
    rmem_max = int(_global_sysctl("net.core.rmem_max"))
    buffer = 131_072
    with lab.client.capture(snaplen=128) as capture, lab.server.socket() as listener:
        if requested is not None:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, requested)
            buffer = receive_buffer_grant(requested, rmem_max)
        listener.bind((lab.server.address, 0))
        listener.listen()
        _transfer(lab, listener, 400_000)
    rows = capture.segments
    (syn_ack,) = rows[rows.is_syn & rows.has_ack]
    model = receive_window(
        buffer,
        autotuned=requested is None,
        tcp_rmem_max_bytes=6_291_456,
        rmem_max_bytes=rmem_max,
    )
    assert int(syn_ack["window"]) == model.syn_window_bytes
    assert int(syn_ack["wscale"]) == model.window_scale
    largest = int(rows.sent_by("server")["window"].max())
    if requested is None:
        assert largest > model.usable_bytes  # autotuning enlarged the buffer
    elif 65_536 <= requested <= 200_000:  # larger ones do not fill up in so short a transfer
        assert 0.9 * model.usable_bytes <= largest <= model.usable_bytes


def _transfer(lab: Lab, listener: socket.socket, size: int) -> None:
    """Sends so many bytes to a reader that reads them all."""
    with lab.client.socket() as sender:
        sender.connect(listener.getsockname())
        writer = threading.Thread(target=sender.sendall, args=(bytes(size),))
        writer.start()
        reader, _ = listener.accept()
        with reader:
            while size:
                size -= len(reader.recv(65_536))
        writer.join()


# ---- what a message costs ------------------------------------------------------------------------

MESSAGES: Final = 24
WARM_UP: Final = 10
MEASURED: Final = MESSAGES - WARM_UP - 1
COSTS: Final = [
    ((2,) * 15, "default", "on"),
    ((2,) * 15, "default", "off"),
    ((2,) * 15, "default", "always"),
    ((2,) * 15, "no_delay", "on"),
    ((2,) * 15, "cork", "on"),
    ((2,) * 15, "msg_more", "on"),
    ((2,) * 15, "writev", "on"),
    ((4, 100), "default", "on"),
    ((100,), "default", "off"),
    ((1448, 100), "default", "off"),
    ((2896, 100), "default", "on"),
    ((1000, 1000), "default", "on"),
    ((600, 600, 600), "no_delay", "off"),
    ((1447, 1, 1448), "cork", "on"),
]


@pytest.mark.parametrize("rtt_ms", [0, 40])
def test_the_cost_of_a_message(rtt_ms: int) -> None:
    """Segments a message exactly; its time within 15 % or 5 ms, of medians over the messages."""
    # Waiting for a round trip takes no CPU, so many can wait together.
    with Lab(rtt_ms=rtt_ms, sysctls=SYSCTLS) as lab, ThreadPoolExecutor(7 if rtt_ms else 1) as pool:
        measured = pool.map(lambda cost: _measure_messages(lab, *cost), COSTS)
        for (writes, option, quickack), (ms, segments) in each(zip(COSTS, measured, strict=True)):
            model = message_cost(
                writes,
                option,
                path=NetworkPath(rtt_ms=rtt_ms, clock=CLOCK),
                peer=Peer(quickack=quickack),
                warm_up=WARM_UP,
                messages=MEASURED,
            )
            name = f"{writes} {option}, ACKs {quickack}, RTT {rtt_ms} ms"
            # Without a delay, ACKs that come at once race with the writes.
            if rtt_ms or quickack != "always":
                assert segments == model.data_segments_per_message, name
            assert abs(ms - model.ms_per_message) <= max(5, 0.15 * ms), f"{name}: {ms} {model}"


def _measure_messages(
    lab: Lab, writes: tuple[int, ...], option: str, quickack: str
) -> tuple[float, float]:
    """Median time and data segments per message."""
    body = (*message_calls(writes, option), Call("read", 2))
    setup = Call("nodelay", int(option == "no_delay"), SETTLE_MS)
    answering = Peer(quickack=quickack, reply_every_bytes=sum(writes), reply_bytes=2)
    (played,) = play(lab, [(setup, *body * MESSAGES)], answering)
    starts = played.starts_ms[1 :: len(body)]
    begin, end = starts[WARM_UP], starts[WARM_UP + MEASURED]
    times = sorted(starts[i + 1] - starts[i] for i in range(WARM_UP, WARM_UP + MEASURED))
    count = sum(begin <= segment.time_ms < end for segment in played.data)
    return times[MEASURED // 2], count / MEASURED


# ---- bursts --------------------------------------------------------------------------------------


def test_a_burst_is_pushed_at_its_end_even_with_msg_more(lab: Lab) -> None:
    played, predicted = both(lab, Peer(), Call("more", 2 * 1448), Call("more", 1448))
    assert played.boundaries == predicted.boundaries == (1448,) * 3
    assert played.pushes == (False, True, False)
    assert tuple(s.push for s in predicted.data) == played.pushes


def test_the_end_of_a_burst_waits_for_an_ack_that_is_due(lab: Lab) -> None:
    """The first small segment's ACK is delayed, and so overdue; TCP_NODELAY changes nothing."""
    played, predicted = both(
        lab,
        Peer(quickack="off", reads=False),
        Call("nodelay", 1),
        Call("write", 115),
        Call("write", 10 * 1448, 18),
    )
    assert played.boundaries == predicted.boundaries == (115, *(1448,) * 10)
    new = [s for s in predicted.data if s.reason != Reason.RETRANSMISSION]
    waited = [s.waited_for for s in new]
    assert waited == [None] * 9 + [Reason.DEFERRED] * 2
    assert played.data[8].time_ms - played.data[1].time_ms < 5
    assert played.data[9].time_ms - played.data[1].time_ms > 9


def test_after_a_long_closed_window_ten_segments_go(lab: Lab) -> None:
    with lab.client.capture() as capture, lab.server.socket() as listener:
        listener.bind((lab.server.address, 0))
        listener.listen(1)
        with lab.client.socket() as client:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, lab.congestion.encode())
            client.connect(listener.getsockname())
            server, _address = listener.accept()
            with server, ThreadPoolExecutor(1) as pool:
                sending = pool.submit(client.sendall, bytes(400_000))
                time.sleep(1.0)  # the window closes, and the timeout (210 ms) passes many times
                rest = 400_000
                while rest:
                    rest -= len(server.recv(1 << 20))
                sending.result()
            time.sleep(0.1)
    rows = capture.segments
    closed = np.flatnonzero(rows["is_zero_window"])[-1]
    opened = closed + 1 + int(np.flatnonzero(~rows["is_zero_window"][closed + 1 :])[0])
    after = rows[opened:]
    first = after.data("client")
    before_acks = first[first["time_ns"] < first["time_ns"][0] + 8_000_000]  # RTT 10 ms
    assert before_acks["gso_count"].sum() == 10


@pytest.mark.parametrize("autocorking", ["0", "1"])
def test_packets_in_the_senders_own_queue_let_go_what_msg_more_held(
    autocorking: str, tool: Callable[[str], str]
) -> None:
    """Autocorking holds it until one of them has left, and then nobody remembers MSG_MORE.

    Neither a call nor an ACK (50 ms) nor a timer (250 ms) is near. The model leaves this out.
    """
    tc = tool("tc")
    with Lab(rtt_ms=50, sysctls={"net.ipv4.tcp_autocorking": autocorking}) as lab:
        bucket = ["tbf", "rate", "2mbit", "burst", "1600", "latency", "1s"]
        device = [tc, "qdisc", "add", "dev", lab.client.interface, "root"]
        lab.client.run([*device, *bucket], privileged=True)
        played, predicted = both(lab, Peer(), Call("write", 2 * 1448), Call("more", 100))
    assert played.boundaries == predicted.boundaries == (1448, 1448, 100)
    assert predicted.data[2].reason == Reason.RELEASED_BY_ACK
    first_ack_ms = min(when for when, upto, _window in played.acks if upto > 0)
    assert (played.data[2].time_ms < first_ack_ms - 20) == (autocorking == "1")
