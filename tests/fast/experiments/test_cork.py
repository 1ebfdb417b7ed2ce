"""Check lesson cork against its recordings, beyond the bounds of claims."""

from tcplab.experiments import Result, cork
from tcplab.experiments.cork import Message
from tcplab.models import Reason


def sizes(result: Result[Message]) -> dict[str, tuple[int, ...]]:
    return {message.mode: message.usual_sizes for message in result.variants}


def test_small_header_costs_default_a_round_trip() -> None:
    web = cork.measure([200, 3000, 20], messages=10, rtt_ms=20)
    assert sizes(web)["default"] == (200, 1448, 1448, 124)
    assert sizes(web)["cork"] == sizes(web)["msg_more"] == (1448, 1448, 324)
    times = {message.mode: message.ms_per_message for message in web.variants}
    assert times.pop("default") > 1.9 * max(times.values())
    holds = {
        mode: {hold.reason for hold in web[mode].timeline().holds}
        for mode in ("default", "cork", "msg_more")
    }
    assert Reason.HELD_BY_NAGLE in holds["default"] - holds["cork"]
    assert Reason.CORKED in holds["cork"] - holds["default"]
    assert Reason.MSG_MORE in holds["msg_more"]


def test_an_ack_releases_what_msg_more_held_and_not_a_cork() -> None:
    """Check the answer to the question in the lesson's section "Try it"."""
    more, corked = cork.measure_scenarios(
        ["write 10, more 20", "write 10, cork on, write 20"], rtt_ms=40
    ).variants
    assert more.sent()[1].reason is Reason.RELEASED_BY_ACK
    assert corked.sent()[1].reason is Reason.CORK_TIMEOUT
    assert corked.left_ms[1] > 4 * more.left_ms[1]


def test_script_is_parsed_into_calls() -> None:
    calls = cork.parse_script("cork on, write 100, wait 30, wait 10,more 5, cork off")
    assert [(call.kind, call.value, call.delay_ms) for call in calls] == [
        ("cork", 1, 0),
        ("write", 100, 0),
        ("more", 5, 40),
        ("cork", 0, 0),
    ]
