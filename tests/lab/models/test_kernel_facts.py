"""Test facts about this kernel's TCP, on the kernel and in the model.

Each test compares the times of events in one recording. Their order is certain as long as no call,
packet or timer is more than LATE_MS late, which is much less than the time between the events. If
the recording shows a longer delay, undisturbed() repeats the run.
"""

import socket
import statistics
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from tests.support.models.playground import (
    LINK_LATE,
    SYSCTLS,
    Played,
    kernel_clock,
    play,
)
from tests.support.needs import need_token_bucket
from tests.support.nonempty import each
from tests.support.undisturbed import undisturbed

from tcplab.experiments.interface_settings import put_token_bucket
from tcplab.experiments.sockets import connection, read_all, sending
from tcplab.lab import Lab
from tcplab.models import (
    Call,
    NetworkPath,
    Peer,
    Reason,
    message_calls,
    message_cost,
    receive_buffer_grant,
    receive_window,
    send_buffer_grant,
    simulate,
    window_from_buffer,
)
from tcplab.models.conversation import Simulation
from tcplab.models.kernel import Clock
from tcplab.models.messages import MessageCost

pytestmark = [
    pytest.mark.needs_lab,
    pytest.mark.timeout(300),
]

CLOCK: Final = kernel_clock()
RTT_MS: Final = 50.0
LATE_MS: Final = 10.0
SETTLE_MS: Final = 60.0
END: Final = Call("quickack", 1, 700.0)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab(rtt_ms=RTT_MS, sysctls=SYSCTLS) as made:
        yield made


@pytest.fixture(scope="module")
def short_lab() -> Iterator[Lab]:
    """Return a Lab whose loss probe (2 RTT + 2 ms) comes long before a delayed ACK (40 ms)."""
    with Lab(rtt_ms=12, sysctls=SYSCTLS) as made:
        yield made


def all_of(lab: Lab, peer: Peer, *schedules: Sequence[Call]) -> list[tuple[Played, Simulation]]:
    """Play each schedule on the kernel and in the model, until both ends are idle."""
    # Leave out the first connection, because cold caches make its handshake slow.
    settled: list[tuple[Call, ...]] = [(END,)]
    for first, *rest in schedules:
        settled.append((replace(first, delay_ms=first.delay_ms + SETTLE_MS), *rest, END))
    played = undisturbed(lambda: play(lab, settled, peer, stagger_ms=50)[1:], disturbance)
    path = NetworkPath(rtt_ms=lab.rtt_ms, clock=CLOCK)
    return [(one, simulate(one.since_connect, path, peer)) for one in played]


def disturbance(played: list[Played]) -> str:
    if max(one.link_late_ms for one in played) > LATE_MS:
        return LINK_LATE
    if max(one.calls_late_ms for one in played) > LATE_MS:
        return "a program was late with a call"
    return ""


def both(lab: Lab, peer: Peer, *calls: Call) -> tuple[Played, Simulation]:
    """Play one schedule on the kernel and in the model, as all_of() does."""
    (result,) = all_of(lab, peer, calls)
    return result


def reasons(predicted: Simulation) -> list[Reason]:
    return [segment.reason for segment in predicted.data]


# ---- when a cork comes out -----------------------------------------------------------------------


def test_a_forgotten_cork_comes_out_after_the_retransmission_timeout() -> None:
    """tcp(7) mentions a ceiling of 200 ms, but it is RTT + 200 ms, and at first at least 3 RTT."""
    waited: dict[int, list[float]] = {}
    for rtt_ms in (10, 150):
        with Lab(rtt_ms=rtt_ms, sysctls=SYSCTLS) as lab:
            corked = all_of(
                lab, Peer(), (Call("cork", 1), Call("write", 100)), (Call("more", 100),)
            )
        for played, predicted in each(corked):
            assert played.boundaries == predicted.boundaries == (100,)
            assert reasons(predicted) == [Reason.CORK_TIMEOUT]
            *_, end_ms, _shutdown_ms = played.starts_ms
            assert played.data[0].time_ms < end_ms
        waited[rtt_ms] = [played.data[0].time_ms for played, _predicted in corked]
        # A timer may expire up to one tick early, but no earlier.
        assert min(waited[rtt_ms]) >= max(rtt_ms + 200, 3 * rtt_ms) - CLOCK.tick_ms
    assert min(waited[150]) > 1.5 * max(waited[10])


def test_an_ack_releases_what_msg_more_held_but_not_a_cork(lab: Lab) -> None:
    write = Call("write", 10)
    more, corked = all_of(
        lab, Peer(), (write, Call("more", 20)), (write, Call("cork", 1), Call("write", 20))
    )
    after_ack_ms = []
    for (played, predicted), reason in (
        (more, Reason.RELEASED_BY_ACK),
        (corked, Reason.CORK_TIMEOUT),
    ):
        assert played.boundaries == predicted.boundaries == (10, 20)
        assert reasons(predicted)[1] == reason
        after_ack_ms.append(played.data[1].time_ms - played.acked_ms(10))
    assert after_ack_ms[0] > 0
    assert after_ack_ms[1] > 4 * after_ack_ms[0]
    assert corked[0].data[1].time_ms > 200


def test_setting_nodelay_sends_what_is_corked_and_leaves_the_cork(lab: Lab) -> None:
    played, predicted = both(
        lab,
        Peer(),
        Call("cork", 1),
        Call("write", 100),
        Call("nodelay", 1, 80),
        Call("write", 200, 80),
    )
    assert played.boundaries == predicted.boundaries == (100, 200)
    assert reasons(predicted) == [Reason.NODELAY_SET, Reason.CORK_TIMEOUT]
    _, _, nodelay_ms, write_ms, *_ = played.starts_ms
    corked, alone = (segment.time_ms for segment in played.data)
    assert nodelay_ms < corked < write_ms  # only that call can have sent it
    assert alone - write_ms > 200


def test_a_cork_holds_what_nodelay_would_send_but_no_full_segment(lab: Lab) -> None:
    cork, uncork = Call("cork", 1), Call("cork", 0, 80)
    (small, small_model), (large, large_model) = all_of(
        lab,
        Peer(),
        (Call("nodelay", 1), cork, Call("write", 100), Call("write", 200, 80), uncork),
        (cork, Call("write", 1000), Call("write", 1000, 80), uncork),
    )
    assert small.boundaries == small_model.boundaries == (300,)
    assert large.boundaries == large_model.boundaries == (1448, 552)
    assert reasons(small_model) == [Reason.UNCORKED]
    assert reasons(large_model) == [Reason.FULL_SIZED, Reason.UNCORKED]
    assert small.data[0].time_ms > small.starts_ms[4]
    assert large.starts_ms[2] < large.data[0].time_ms < large.starts_ms[3] < large.data[1].time_ms


def test_pulling_the_cork_does_not_override_nagle(lab: Lab) -> None:
    calls = (Call("write", 10), Call("cork", 1), Call("write", 20), Call("cork", 0))
    set_nodelay = Call("nodelay", 1)
    burst = (set_nodelay, Call("write", 115), Call("write", 10 * 1448, 60))
    (nagle, nagle_model), (nodelay, nodelay_model), (deferred, _model) = all_of(
        lab, Peer(quickack="off", reads=False), calls, (set_nodelay, *calls), burst
    )
    assert nagle.boundaries == nagle_model.boundaries == (10, 20)
    assert nodelay.boundaries == nodelay_model.boundaries == (10, 20)
    assert reasons(nagle_model)[1] == Reason.RELEASED_BY_ACK
    assert reasons(nodelay_model)[1] == Reason.UNCORKED
    assert nagle.starts_ms[3] < nagle.acked_ms(10) < nagle.data[1].time_ms
    assert nodelay.starts_ms[4] < nodelay.data[1].time_ms < nodelay.acked_ms(10)
    # The end of a burst waits for an ACK that is due, which the model leaves out.
    assert deferred.boundaries == (115, *(1448,) * 10)
    assert deferred.data[8].time_ms < deferred.acked_ms(115) < deferred.data[9].time_ms


def test_a_tail_loss_probe_pulls_a_cork(short_lab: Lab) -> None:
    """With two segments unacknowledged, the corked data leaves after 2 RTT + 2 ms."""
    two = (Call("nodelay", 1), Call("write", 10), Call("write", 11))
    (played, predicted), (idle, idle_model) = all_of(
        short_lab,
        Peer(quickack="off", reads=False),
        (*two, Call("cork", 1), Call("write", 12)),
        two,
    )
    # Without new data, the probe sends the last segment again although nothing was lost.
    again = [s for s in idle_model.data if s.reason == Reason.RETRANSMISSION]
    for resent in (again, idle.resent):
        assert [(s.seq, s.payload_bytes) for s in resent] == [(10, 11)]
    assert played.boundaries == predicted.boundaries == (10, 11, 12)
    assert reasons(predicted)[2] == Reason.TAIL_LOSS_PROBE
    assert played.starts_ms[4] < played.data[2].time_ms < played.acked_ms(1)


# ---- Minshall's rule -----------------------------------------------------------------------------


def test_a_small_tail_after_full_segments_is_not_held(lab: Lab) -> None:
    (free, free_model), (held, held_model), (more, more_model) = all_of(
        lab,
        Peer(),
        (Call("write", 2 * 1448), Call("write", 100)),
        (Call("write", 1448 + 1), Call("write", 100)),
        (Call("more", 2 * 1448), Call("more", 1448)),
    )
    assert free.boundaries == free_model.boundaries == (1448, 1448, 100)
    assert free.data[2].time_ms < free.acked_ms(1)
    # The rest of a write counts as small.
    assert held.boundaries == held_model.boundaries == (1448, 1, 100)
    assert held_model.data[2].waited_for == Reason.HELD_BY_NAGLE
    assert held.data[2].time_ms > held.acked_ms(1449)
    # A burst is pushed at its end, even with MSG_MORE.
    for burst in (more.data, more_model.data):
        assert [(s.payload_bytes, s.push) for s in burst] == [
            *((1448, False), (1448, True), (1448, False))
        ]


def test_autocorking_releases_msg_more_when_a_packet_leaves() -> None:
    """The second full segment waits 24 ms in the client, and the first ACK comes after 100 ms."""
    with Lab(rtt_ms=100, sysctls={"net.ipv4.tcp_autocorking": "1"}) as lab, need_token_bucket():
        put_token_bucket(lab.client, rate="500kbit", burst=1600, latency="1s")
        played, model = both(lab, Peer(), Call("write", 2 * 1448), Call("more", 100))
    assert played.boundaries == model.boundaries == (1448, 1448, 100)
    assert model.data[2].reason == Reason.RELEASED_BY_ACK
    assert played.data[2].time_ms < played.acked_ms(1)


# ---- who acknowledges when -----------------------------------------------------------------------


def test_sixteen_small_segments_are_acknowledged_at_once(lab: Lab) -> None:
    """The ACKs of later segments wait for the timer or for a second segment."""
    (small, predicted), (full, _model) = all_of(
        lab,
        Peer(reads=False),
        *((Call("nodelay", 1), *[Call("write", size, 15.0)] * 32) for size in (10, 1448)),
    )
    for played, size, least, most in ((small, 10, 16, 23), (full, 1448, 17, 31)):
        assert played.boundaries == (size,) * 32
        acked = {upto for _when, upto, _window in played.acks}
        # Full segments get more quick ACKs while the receive window grows.
        assert least <= next(n for n in range(33) if size * (n + 1) not in acked) <= most
    acked = {packet.ack for packet in predicted.packets if not packet.outgoing}
    assert next(n for n in range(33) if 10 * (n + 1) not in acked) == 16


# ---- buffers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("requested", [0, 1152, 65_536, 2**30])
def test_buffer_grants_are_as_predicted(lab: Lab, requested: int) -> None:
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


def test_window_of_a_buffer_is_as_predicted(short_lab: Lab) -> None:
    """tests/slow/models tries smaller and larger buffers."""
    check_window(short_lab, 65_536)


def check_window(short_lab: Lab, requested: int) -> None:
    """Check the largest window after full segments."""
    buffer = receive_buffer_grant(requested, int(_global_sysctl("net.core.rmem_max")))
    with (
        short_lab.client.capture(snaplen=128) as capture,
        connection(short_lab, before=requested) as (sender, receiver),
        sending(sender, 400_000, end=False),
    ):
        read_all(receiver, 400_000)
    rows = capture.segments
    model = receive_window(buffer)
    largest = int(rows[~rows.is_syn].sent_by("server")["window"].max())
    # A segment cut short by the window takes less of the buffer than a full one.
    assert 0.97 * model <= largest <= max(1.001 * model, window_from_buffer(buffer))


# ---- what a message costs ------------------------------------------------------------------------

WARM_UP: Final = 10
MEASURED: Final = 9


class Cost(NamedTuple):
    """A way to send a message, and a way to acknowledge it."""

    writes: tuple[int, ...]
    option: str
    quickack: str


COSTS: Final = [
    Cost((2,) * 15, "default", "on"),
    Cost((2,) * 15, "default", "off"),
    Cost((2,) * 15, "default", "always"),
    Cost((2,) * 15, "no_delay", "on"),
    Cost((2,) * 15, "cork", "on"),
    Cost((2,) * 15, "msg_more", "on"),
    Cost((2,) * 15, "writev", "on"),
    Cost((4, 100), "default", "on"),
    Cost((100,), "default", "off"),
    Cost((1448, 100), "default", "off"),
    Cost((2896, 100), "default", "on"),
    Cost((1000, 1000), "default", "on"),
    Cost((600, 600, 600), "no_delay", "off"),
    Cost((1447, 1, 1448), "cork", "on"),
]


@dataclass(frozen=True)
class Measured:
    """The times of consecutive messages, without the warm-up, and their segments."""

    times_ms: list[float]  # from the first call of a message to the first call of the next
    segments: float  # data segments of the median message


def _measure(lab: Lab, cost: Cost) -> Measured:
    body = (*message_calls(cost.writes, cost.option), Call("read", 2))
    setup = Call("nodelay", int(cost.option == "no_delay"), SETTLE_MS)
    size = sum(cost.writes)
    answering = Peer(quickack=cost.quickack, reply_every_bytes=size, reply_bytes=2)
    (played,) = play(lab, [(setup, *body * (WARM_UP + MEASURED + 1))], answering)
    starts = played.starts_ms[1 :: len(body)][WARM_UP : WARM_UP + MEASURED + 1]
    times = [later - earlier for earlier, later in pairwise(starts)]
    counts = [0] * (WARM_UP + MEASURED + 1)
    for segment in played.data:
        counts[segment.seq // size] += 1
    return Measured(times, statistics.median(counts[WARM_UP:-1]))


def predicted_cost(cost: Cost, rtt_ms: float, clock: Clock) -> MessageCost:
    return message_cost(
        cost.writes,
        cost.option,
        path=NetworkPath(rtt_ms=rtt_ms, clock=clock),
        peer=Peer(quickack=cost.quickack),
        messages=MEASURED,
    )


#: The times in ms of the median messages on a quiet machine with a tick of 4 ms, in order of COSTS.
_NEAR: Final = (44.0, 48.0, 0.1, 0.3, 0.1, 0.1, 0.1, 44.1, 0.1, 0.1, 0.1, 43.9, 0.1, 0.1)
_FAR: Final = (127, 125.6, 81.8, 40.8, 40.1, 40.2, 40.3, 125, 40.4, 41.5, 41.3, 124, 41.2, 41.2)


@pytest.mark.parametrize(("rtt_ms", "recorded_ms"), [(0, _NEAR), (40, _FAR)])
def test_recorded_messages_took_the_predicted_time(
    rtt_ms: int, recorded_ms: Sequence[float]
) -> None:
    for cost, ms in each(zip(COSTS, recorded_ms, strict=True)):
        model_ms = predicted_cost(cost, rtt_ms, Clock(250)).ms_per_message
        assert abs(ms - model_ms) <= max(5, 0.15 * ms), cost


def test_cost_of_a_message_is_as_predicted() -> None:
    check_costs(rtt_ms=40)


def check_costs(rtt_ms: int) -> None:
    """Segments must be as predicted, and so must the times that a busy machine cannot change."""
    stalled_ms, prompt_ms = [], []
    # Waiting for a round trip takes no CPU time, so several messages can wait together.
    with Lab(rtt_ms=rtt_ms, sysctls=SYSCTLS) as lab, ThreadPoolExecutor(7 if rtt_ms else 1) as pool:
        results = list(pool.map(lambda cost: _measure(lab, cost), COSTS))
    for cost, measured in each(zip(COSTS, results, strict=True)):
        model = predicted_cost(cost, rtt_ms, CLOCK)
        # Without a delay, ACKs that come at once race with the writes.
        if rtt_ms or cost.quickack != "always":
            assert measured.segments == model.data_segments_per_message, (cost, measured)
        typical_ms = statistics.median(measured.times_ms)
        expected_ms = model.ms_per_message
        assert typical_ms > min(expected_ms - 5, 0.85 * expected_ms), (cost, measured)
        if expected_ms > 25:
            stalled_ms.append(typical_ms)
        else:
            prompt_ms.append(min(measured.times_ms))
    assert rtt_ms or min(stalled_ms) > 2 * max(prompt_ms)
