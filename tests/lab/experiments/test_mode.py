"""Experiments and a lesson's own lines run live, and are replayed from their recordings."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tcplab.errors import LabError
from tcplab.experiments import on_lab, recordings, small_writes
from tcplab.programs import small_writes as write_small

Seen = list[tuple[str, int, str]]


def three_messages(lab: Any) -> Any:
    with lab.client.capture() as recorded, lab.client.sniff() as live:
        write_small(lab, messages=3)
    return live, len(recorded)


def of(packets: Any) -> Seen:
    return [(str(p["TCP"].flags), len(p["TCP"].payload), str(p.time)) for p in packets]


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use a temporary directory for recording calls and for replaying them."""
    monkeypatch.setenv("TCPLAB_MODE", "live")
    monkeypatch.setenv("TCPLAB_RECORD", str(tmp_path))
    monkeypatch.setattr(recordings, "DIRECTORY", tmp_path)
    return tmp_path


@pytest.mark.needs_lab
def test_a_real_result_comes_back_whole(monkeypatch: pytest.MonkeyPatch, kept: Path) -> None:
    live = small_writes.measure(messages=3, variants=["no_delay", "default"])
    monkeypatch.setenv("TCPLAB_MODE", "recorded")
    shown = small_writes.measure(messages=3, variants=["no_delay", "default"])
    assert shown.rows() == live.rows()
    for then, now in zip(live.variants, shown.variants, strict=True):
        before, after = then.exchange.captured, now.exchange.captured
        assert np.array_equal(before, after)
        assert before.connections == after.connections
        assert now.timeline().sentences() == then.timeline().sentences()
    (file,) = kept.iterdir()
    assert file.stat().st_size < 50_000


@pytest.mark.needs_lab
@pytest.mark.usefixtures("kept")
def test_recorded_packets_are_the_ones_that_were_sniffed(monkeypatch: pytest.MonkeyPatch) -> None:
    live, recorded = on_lab(three_messages, rtt_ms=1)
    assert len(live.packets) == recorded
    monkeypatch.setenv("TCPLAB_MODE", "recorded")
    shown, count = on_lab(three_messages, rtt_ms=1)
    assert count == recorded
    assert shown.drops == 0
    assert of(shown.packets) == of(live.packets)
    assert [p.wirelen for p in shown.packets] == [p.wirelen for p in live.packets]
    assert shown.packets[0].layers() == live.packets[0].layers()


@pytest.mark.needs_lab
@pytest.mark.usefixtures("kept")
def test_recording_of_other_lines_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def mine(lab: Any) -> int:
        return len(lab.client.address)

    said = list[str]()
    monkeypatch.setitem(on_lab.__globals__, "announce", said.append)
    monkeypatch.setitem(on_lab.__globals__, "was_busy", lambda _found: True)
    assert (on_lab(mine), len(said)) == (len("10.0.0.1"), 1)

    def mine(lab: Any) -> int:  # type: ignore[no-redef]
        return len(lab.server.name)

    monkeypatch.setenv("TCPLAB_MODE", "recorded")
    with pytest.raises(LabError, match=r"no recording of mine\(\) with these lines"):
        on_lab(mine)
    with pytest.raises(LabError, match=r"no recording of three_messages\(\)"):
        on_lab(three_messages)


def test_plain_loopback_is_no_laboratory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCPLAB_MODE", "loopback")
    with pytest.raises(LabError, match="plain loopback cannot do this"):
        on_lab(three_messages)
