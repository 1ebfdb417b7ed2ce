"""Compare our counts with tcptrace's; every difference must be explained here and in the docs."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support import tcptrace, wireshark
from tests.support.forge import Talk
from tests.support.needs import needs
from tests.support.nonempty import each
from tests.support.paths import ROOT
from tests.support.segments.captures import FOREIGN, WIRES, WRITTEN, losses, transfer

from tcplab.segments import from_file

pytestmark = needs("tcptrace")
PAGE = ROOT / "docs/accuracy.md"


@pytest.mark.parametrize("path", FOREIGN, ids=lambda path: path.name)
def test_foreign_captures_differ_only_for_known_reasons(path: Path) -> None:
    assert tcptrace.unexplained(from_file(path), path) == {}


@pytest.mark.parametrize("write", WRITTEN, ids=lambda write: write.__name__)
def test_handwritten_conversations_differ_only_for_known_reasons(
    tmp_path: Path, write: Callable[[], Talk]
) -> None:
    path = write().save(tmp_path / "x.pcapng")
    assert tcptrace.unexplained(from_file(path), path) == {}


@pytest.mark.needs_lab
@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("end", [0, 1], ids=["sender", "receiver"])
def test_our_recordings_differ_only_for_known_reasons(wire: str, end: int) -> None:
    capture = transfer(wire)[end]
    assert tcptrace.unexplained(capture.segments, capture.path) == {}


def test_most_captures_need_no_reason(tmp_path: Path) -> None:
    """If most counts needed a reason, the reasons would prove nothing."""
    path = losses().save(tmp_path / "x.pcapng")
    assert tcptrace.differences(from_file(path), path) == {}
    equal = [p for p in FOREIGN if not tcptrace.differences(from_file(p), p)]
    assert len(equal) >= 10


def test_comparison_detects_a_wrong_value(tmp_path: Path) -> None:
    path = losses().save(tmp_path / "x.pcapng")
    rows = from_file(path)
    rows["payload_bytes"][4] += 7
    columns = {column for _number, _sender, column in tcptrace.unexplained(rows, path)}
    assert {"actual_data_bytes", "max_segm_size"} <= columns


def test_every_reason_occurs_and_is_documented(tmp_path: Path) -> None:
    reasons: set[str] = set()
    paths = [*FOREIGN]
    for write in WRITTEN:
        paths.append(write().save(tmp_path / f"{write.__name__}.pcapng"))
    for path in each(paths):
        rows = from_file(path)
        for where, counts in tcptrace.differences(rows, path).items():
            reasons.update(tcptrace.reasons_of(where, counts, rows))
    assert reasons == set(tcptrace.REASONS)
    page = re.sub(r"\s+", " ", PAGE.read_text())
    for why in each([*tcptrace.REASONS, *wireshark.REASONS]):
        assert why in page
