"""Test the whole path once on a live lab: programs, recorders and timeline.

The causes are asserted on recorded conversations: tests/fast/timeline/test_causes.py.
"""

from itertools import pairwise

import pytest

from tcplab import Lab
from tcplab.experiments.exchange import record_exchange
from tcplab.programs import small_writes
from tcplab.timeline import Reason

pytestmark = pytest.mark.needs_lab


def test_each_byte_of_an_exchange_has_left_for_a_known_reason() -> None:
    with Lab(rtt_ms=10) as lab:
        timeline = record_exchange(lab, small_writes, "default", 3).timeline()
    assert not timeline.missing
    assert Reason.UNKNOWN not in {segment.reason for segment in timeline.segments}
    # Leave out waits on the wire, which a busy machine may add without a known reason.
    holds = [hold for hold in timeline.holds if hold.where != "wire"]
    waited_for = {hold.reason for hold in holds} - {Reason.RETRANSMISSION}
    assert waited_for == {Reason.HELD_BY_NAGLE, Reason.APPLICATION_IDLE}
    new = [segment for segment in timeline.segments if segment.reason is not Reason.RETRANSMISSION]
    assert sum(segment.payload_bytes for segment in new) == 3 * 15 * 2
    assert [write for segment in new for write in segment.writes] == list(range(1, 3 * 15 + 1))
    # The waits follow each other, and together they are not longer than the exchange.
    assert all(one.end_ns <= other.start_ns for one, other in pairwise(holds))
    elapsed_ms = (holds[-1].end_ns - timeline.writes[0].time_ns) / 1e6
    assert 0 < sum(timeline.waited_ms("kernel", "application").values()) <= elapsed_ms
