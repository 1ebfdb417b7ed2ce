"""Test how retransmissions and reordering are classified in recordings of both ends."""

import pytest
from tests.support import wireshark
from tests.support.segments.captures import WIRES, transfer

pytestmark = pytest.mark.needs_lab


@pytest.mark.parametrize("wire", WIRES)
def test_nothing_is_out_of_order_where_it_is_sent(wire: str) -> None:
    """tshark calls a retransmission out of order if new data left within an RTT. We do not."""
    sent = transfer(wire)[0].segments
    assert not sent["is_out_of_order"].any()
    if wire in ("loss", "short-queue"):
        assert sent["is_retransmission"].any()
    if wire == "clean":
        assert sent["is_retransmission"].mean() < 0.05  # a few, if the wire waited for its CPU


@pytest.mark.parametrize("wire", ["loss", "short-queue", "reordering"])
def test_the_receiver_is_judged_as_the_sender_knows_it(wire: str) -> None:
    """An arrival must be judged a retransmission if it is one in the sender's capture."""
    wrong, late = judged_wrongly(wire)
    # On a busy machine a rare order of events leaves the receiver without evidence.
    assert len(wrong) <= 0.3 * late, wrong
    if wire == "reordering":
        assert transfer(wire)[1].segments["is_out_of_order"].any()


def judged_wrongly(wire: str) -> tuple[list[tuple[int, int]], int]:
    """Return the misjudged arrivals, and the number of all arrivals that came after newer data."""
    sent, arrived = (capture.segments for capture in transfer(wire))
    data = sent.data("client")
    again = {(int(row["seq"]), int(row["ts_val"])) for row in data[data["is_retransmission"]]}
    first = {(int(row["seq"]), int(row["ts_val"])) for row in data[~data["is_retransmission"]]}
    newest, wrong, late = 0, [], 0
    for row in arrived.data("client"):
        key = (int(row["seq"]), int(row["ts_val"]))
        # Two cases cannot be decided: a segment sent twice within a tick of the sender's clock, and
        # the end of a window that was lost as a whole, so that the receiver saw nothing newer.
        unknown = key in again & first or (key in again and key[0] >= newest)
        if not unknown and bool(row["is_retransmission"]) != (key in again):
            wrong.append(key)
        late += key[0] < newest
        newest = max(newest, wireshark.end_of(row))
    return wrong, late
