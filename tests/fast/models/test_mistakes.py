"""The models name a bad argument in one line."""

import pytest

from tcplab.models import (
    Call,
    NetworkPath,
    Peer,
    chain_cost,
    jain_index,
    message_calls,
    message_cost,
    receive_buffer_grant,
    segment_sizes,
    simulate,
    slow_start_flights,
    window_from_buffer,
)
from tcplab.models.acks import DelayedAckReceiver
from tcplab.models.kernel import Clock
from tcplab.models.nagle import NagleSender


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: NagleSender().write(0, 0.0), "size_bytes=0"),
        (lambda: NagleSender().write(1, -1.0), "at_ms=-1.0"),
        (lambda: NagleSender().ack(5, 0.0), "upto=5"),
        (lambda: DelayedAckReceiver().accept(5, 1, 0.0), "seq=5"),
        (lambda: Clock(0), "hz=0"),
        (lambda: segment_sizes([]), "writes=[]"),
        (lambda: segment_sizes([1], "telepathy"), "default, no_delay"),
        (lambda: Call("jump"), "write, more, read"),  # type: ignore[arg-type]
        *((lambda kind=kind: Call(kind, 1), kind) for kind in ("shutdown", "sndbuf")),
        (lambda: simulate([Call("write", 70_000)], peer=Peer(reads=False)), "at most 65160 bytes"),
        (lambda: Call("write", 0), "value=0"),
        (lambda: Call("cork", 2), "value=2"),
        (lambda: Call("write", 1, -1.0), "delay_ms=-1.0"),
        (lambda: Peer(quickack="maybe"), "on, off, always"),
        (lambda: NetworkPath(rtt_ms=-1), "rtt_ms=-1"),
        (lambda: message_calls([], "cork"), "writes=[]"),
        (lambda: message_cost([1], messages=0), "messages=0"),
        (lambda: receive_buffer_grant(-1, 1), "requested_bytes=-1"),
        (lambda: receive_buffer_grant(2**31, 1), "requested_bytes=2147483648"),
        (lambda: window_from_buffer(100, payload_bytes=3000), "payload_bytes=3000"),
        (lambda: chain_cost(), "stages=()"),
        (lambda: chain_cost("dd"), "dd /dev/zero"),
        (lambda: slow_start_flights(-1), "segments=-1 must be"),
        (lambda: jain_index(()), "number of rates=0"),
        (lambda: jain_index((0, 0)), "rates"),
        (lambda: jain_index((1, -1)), "rates=-1"),
    ],
)
def test_a_bad_argument_is_named_in_one_line(call: object, message: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the line is what is tested
        call()  # type: ignore[operator]
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
