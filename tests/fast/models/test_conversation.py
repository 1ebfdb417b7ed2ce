"""Test both ends together: delayed ACKs, whole conversations and the cost of a message."""

import doctest

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.models.outcomes import outcomes

import tcplab.models.messages
import tcplab.models.nagle
from tcplab.models import Call, NetworkPath, Peer, message_cost, simulate
from tcplab.models.acks import DelayedAckReceiver
from tcplab.models.kernel import Clock
from tcplab.models.messages import OPTIONS

RED_HAT = [2] * 15


@pytest.mark.parametrize("module", [tcplab.models.nagle, tcplab.models.messages])
def test_the_examples_in_the_docstrings(module: object) -> None:
    results = doctest.testmod(module)  # type: ignore[arg-type]
    assert results.attempted
    assert not results.failed


# ---- the receiver alone ----


def segment(receiver: DelayedAckReceiver, size: int, at_ms: float) -> bool:
    """Let a segment arrive while the receiver sends no data."""
    receiver.accept(receiver.next_seq, size, at_ms)
    return receiver.check(at_ms)


def test_the_first_sixteen_are_acknowledged_at_once() -> None:
    receiver = DelayedAckReceiver()
    acks = [segment(receiver, 10, float(i)) for i in range(20)]
    assert acks == [True] * 16 + [False] * 4
    assert receiver.next_timer_ms is not None
    assert 16 + 40 <= receiver.next_timer_ms <= 16 + 44
    assert receiver.timer(receiver.next_timer_ms)


def test_reading_without_an_answer_sends_an_ack() -> None:
    receiver = _tired()
    assert not segment(receiver, 10, 30.0)
    assert receiver.read(30.1)


def test_interactive_receiver_waits_to_piggyback_the_ack() -> None:
    receiver = _tired()
    receiver.data_sent(31.0)
    assert not segment(receiver, 10, 32.0)
    assert not receiver.read(32.1)
    receiver.data_sent(32.2)
    assert not receiver.check(32.3)
    assert receiver.next_timer_ms is None


def test_a_delayed_ack_that_nothing_carried_ends_the_interactive_mode() -> None:
    receiver = _tired()
    receiver.set_quickack(False, 30.0)
    segment(receiver, 10, 30.0)
    receiver.read(30.1)
    assert receiver.timer(80.0)
    # The next segment is read and acknowledged at once: "This flag is not permanent" (tcp(7)).
    assert not segment(receiver, 10, 81.0)
    assert receiver.read(81.1)


def test_every_second_full_segment_is_acknowledged() -> None:
    receiver = _tired(size=1448, count=40)
    receiver.set_quickack(False, 60.0)
    acks = []
    for i in range(6):
        assert not segment(receiver, 1448, 60.0 + i)
        acks.append(receiver.read(60.1 + i))
    assert acks == [False, True] * 3


def _tired(size: int = 10, count: int = 16) -> DelayedAckReceiver:
    """Return a receiver that has no quick ACKs left."""
    receiver = DelayedAckReceiver()
    for i in range(count):
        segment(receiver, size, float(i))
        receiver.read(float(i))
    return receiver


# ---- conversations ----


def test_write_write_read_takes_one_delayed_ack_per_message() -> None:
    """A loop in step with the timer tick waits 44 ms at 250 Hz and 41 ms at 1000 Hz."""
    slow = message_cost(RED_HAT)
    assert slow.ms_per_message == pytest.approx(44, abs=0.5)
    assert slow.data_segments_per_message == 2
    fine = message_cost(RED_HAT, path=NetworkPath(clock=Clock(1000)))
    assert fine.ms_per_message == pytest.approx(41, abs=0.5)


def test_every_option_but_a_forgotten_cork_avoids_the_stall() -> None:
    slow = message_cost(RED_HAT)
    for option in OPTIONS[1:-1]:
        fixed = message_cost(RED_HAT, option)
        assert fixed.ms_per_message < slow.ms_per_message / 50
        expected = 15 if option == "no_delay" else 1
        assert fixed.data_segments_per_message == expected
    assert message_cost(RED_HAT, "forgotten").ms_per_message > 200
    quick = message_cost(RED_HAT, path=NetworkPath(rtt_ms=20), peer=Peer(quickack="always"))
    assert quick.ms_per_message == pytest.approx(40, abs=1)


@pytest.mark.parametrize("rtt_ms", [5, 60])
def test_stall_takes_two_round_trips_plus_40_ms(rtt_ms: float) -> None:
    cost = message_cost(RED_HAT, path=NetworkPath(rtt_ms=rtt_ms))
    assert 2 * rtt_ms + 40 <= cost.ms_per_message <= 2 * rtt_ms + 48
    one = message_cost(RED_HAT, "writev", path=NetworkPath(rtt_ms=rtt_ms))
    assert one.ms_per_message == pytest.approx(rtt_ms, abs=1)


def test_late_acks_stall_every_second_request_on_another_connection() -> None:
    """The quotes use another connection, so no data carries the ACKs of the requests."""
    assert message_cost([100], reply_bytes=0).ms_per_message < 1
    linux = message_cost([10], reply_bytes=50, peer=Peer(other_connection=True))
    assert linux.ms_per_message < 1
    # We measured 45 per second.
    delaying = message_cost([10], reply_bytes=50, peer=Peer(quickack="off", other_connection=True))
    assert 1000 / delaying.ms_per_message == pytest.approx(45, rel=0.1)


def test_a_race_has_several_outcomes_and_a_settled_case_one() -> None:
    path = NetworkPath(rtt_ms=10)
    assert len(outcomes([Call("write", 10), Call("write", 10)], path)) == 1
    race = [Call("write", 10), Call("write", 10), Call("write", 10, 10.0)]
    assert len(outcomes(race, path)) > 1


@settings(max_examples=60)
@given(
    st.lists(
        st.builds(
            Call,
            st.sampled_from(["write", "more"]),
            st.integers(1, 20_000),
            st.sampled_from([0.0, 0.0, 3.0, 60.0, 400.0]),
        ),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from([0.0, 7.0, 90.0]),
    st.sampled_from(["on", "off", "always"]),
    st.booleans(),
)
def test_all_written_bytes_arrive(
    calls: list[Call], rtt_ms: float, quickack: str, nodelay: bool
) -> None:
    peer = Peer(quickack=quickack)
    predicted = simulate(calls, NetworkPath(rtt_ms=rtt_ms), peer, nodelay=nodelay)
    assert sum(predicted.boundaries) == sum(call.value for call in calls)
    assert [p.time_ms for p in predicted.packets] == sorted(p.time_ms for p in predicted.packets)
    assert len(predicted.call_ms) == len(calls)
