"""Test the comments that explain adds to the packets of a capture."""

from __future__ import annotations

from tests.support import forge
from tests.support.forge import Frame

from tcplab.explain.comments import commented
from tcplab.segments.pcap import blocks, packets_in


def test_capture_whose_last_block_is_cut_keeps_what_it_has() -> None:
    whole = forge.pcapng([Frame(bytes(60)), Frame(bytes(61))])
    *_earlier, (last, _order, _kind, _block) = blocks(whole)
    cut = whole[: last + 20]
    made = commented(cut, {0: "why it left"})
    assert made.endswith(whole[last : last + 20])
    assert b"why it left" in made
    assert len(packets_in(made, "made")) == len(packets_in(cut, "cut")) == 1
