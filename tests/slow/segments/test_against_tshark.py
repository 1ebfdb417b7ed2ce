"""Compare every column with tshark's equivalent field; every difference must be explained."""

import functools
import re
from pathlib import Path

import pytest
from tests.fast.segments.test_foreign import refused_first, two_answers
from tests.support import wireshark
from tests.support.forge import Talk
from tests.support.needs import needs
from tests.support.nonempty import each
from tests.support.paths import ROOT
from tests.support.segments.captures import (
    FOREIGN,
    WIRES,
    WRITTEN,
    transfer,
    written,
)
from tests.support.wireshark import unexplained, without_reason

from tcplab.segments import from_file

pytestmark = needs("tshark")


# ---- foreign captures ----


@pytest.mark.parametrize("path", FOREIGN, ids=lambda path: path.name)
def test_foreign_captures_differ_only_for_known_reasons(path: Path) -> None:
    rows = from_file(path)
    assert unexplained(rows, path) == {}
    assert (rows["protocol"] == 6).sum() >= 3


# ---- written by hand ----


@pytest.mark.parametrize("name", WRITTEN)
def test_handwritten_conversations_differ_only_for_known_reasons(tmp_path: Path, name: str) -> None:
    path = written(name).save(tmp_path / "x.pcapng")
    assert unexplained(from_file(path), path) == {}


def test_only_tshark_calls_a_repeated_single_byte_a_keep_alive(tmp_path: Path) -> None:
    """tshark takes the byte for a keep-alive's garbage byte (RFC 9293, 3.8.4). We count it as a
    retransmission, since Linux's keep-alives have no data and many programs write single bytes."""
    path = written("byte sent again").save(tmp_path / "x.pcapng")
    differences = wireshark.differences(from_file(path), wireshark.dissect(path))
    assert differences == {"is_retransmission": [4]}


# ---- handshakes of tests/fast/segments/test_foreign.py ----


@pytest.mark.parametrize("made", [refused_first(), two_answers()], ids=["refused", "two answers"])
def test_odd_handshakes_differ_from_tshark_in_one_seq_only(tmp_path: Path, made: Talk) -> None:
    """tshark counts the packets before the valid SYN-ACK as another connection."""
    path = made.save(tmp_path / "x.pcapng")
    assert wireshark.differences(from_file(path), wireshark.dissect(path)) == {"seq": [1]}


# ---- our own recordings, and what we know of them ----


@functools.cache
def disagreements(wire: str, end: int) -> dict[str, list[int]]:
    capture = transfer(wire)[end]
    return wireshark.differences(capture.segments, wireshark.dissect(capture.path))


@pytest.mark.needs_lab
@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("end", [0, 1], ids=["sender", "receiver"])
def test_our_recordings_differ_only_for_known_reasons(wire: str, end: int) -> None:
    rows = transfer(wire)[end].segments
    assert without_reason(rows, disagreements(wire, end)) == {}


@pytest.mark.needs_lab
def test_differences_are_rare_and_only_in_the_judgement_columns() -> None:
    """The documentation of tcplab.segments states this."""
    for wire in WIRES:
        for end, capture in each(enumerate(transfer(wire))):
            differing = disagreements(wire, end)
            assert set(differing) <= {"is_retransmission", "is_out_of_order"}
            assert all(len(where) < 0.1 * len(capture.segments) for where in differing.values())


def test_comparison_detects_a_wrong_value_in_any_column(tmp_path: Path) -> None:
    path = written("losses").save(tmp_path / "x.pcapng")
    theirs = wireshark.dissect(path)
    for column in each(set(wireshark.FIELDS) - {"packet"}):
        rows = from_file(path)
        rows[column][4] = not rows[column][4] if rows[column].dtype == bool else 77
        assert column in wireshark.differences(rows, theirs)


def test_every_reason_is_documented() -> None:
    page = re.sub(r"\s+", " ", (ROOT / "docs/accuracy.md").read_text())
    for why in each(wireshark.REASONS):
        assert why in page
