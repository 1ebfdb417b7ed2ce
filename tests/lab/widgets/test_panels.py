"""Test panels without a browser: runs, failures and Stop. Each panel has a separate process."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scapy.utils import rdpcap
from tests.support.bare import bare_path
from tests.support.lifetime import processes_with, until

from tcplab import widgets
from tcplab.capture import open_capture
from tcplab.experiments.exclusive import exclusive
from tcplab.segments import SegmentArray
from tcplab.widgets import process
from tcplab.widgets.panel import Panel
from tcplab.widgets.spec import KEPT_RUNS

pytestmark = [
    pytest.mark.needs_lab,
    pytest.mark.timeout(240),
]  # on a busy machine, a new worker's imports take seconds


@pytest.fixture(scope="module")
def panel(mark: str) -> Iterator[Panel]:
    """Yield a panel for all tests, since its worker takes seconds to start on a busy machine."""
    del mark
    panel = widgets.small_writes()
    yield panel
    panel.close()


class Watcher:
    """A substitute for the browser's view."""

    def __init__(self, panel: Panel) -> None:
        self.panel = panel
        self.shown: list[tuple[str, str]] = []
        self.samples: list[Any] = []
        panel._view = self  # type: ignore[assignment]

    def refresh(self) -> None:
        self.shown.append((self.panel.phase, self.panel.message))

    def add(self, sample: Any) -> None:
        self.samples.append(sample)


# ---- a run ----


def test_run_shows_picture_numbers_and_provenance(panel: Panel) -> None:
    watcher = Watcher(panel)
    panel.set(variant="cork", writes=15, write_bytes=2).predict(10).start().wait()
    assert panel.phase == "done", panel.message
    run = panel.runs[-1]
    assert "1 segment, " in run["figure"]
    assert "cork" in run["table"]
    assert run["prediction"] == 10
    assert run["provenance"]["kernel"] == os.uname().release
    assert run["headline"] > 0
    assert run["seconds"].keys() >= {"overhead", "picture"}
    stages = [message for _phase, message in watcher.shown]
    assert "Measuring …" in stages
    assert "Drawing …" in stages


def test_packets_can_be_saved_and_say_why_they_left(panel: Panel, tmp_path: Path) -> None:
    panel.set(variant="default", writes=15, write_bytes=2).start().wait()
    rows = check_reasons(panel, tmp_path / "run.pcapng")
    assert sum(rows["payload_bytes"].tolist()) % 30 == 0


def check_reasons(panel: Panel, path: Path) -> SegmentArray:
    """Check that the last run's packets name their writes; return the client's data segments."""
    path.write_bytes(panel.runs[-1]["capture"])
    with open_capture(path) as capture:
        data = capture.segments.data("client", retransmissions=False)
    why = [packet.comment.decode() for packet in rdpcap(str(path)) if packet.comment]
    assert len(why) >= len(data) > 1
    assert all(re.search(r"\d bytes of writes? \d", sentence) for sentence in why)
    return data


def test_code_repeats_the_run(panel: Panel, capsys: pytest.CaptureFixture[str]) -> None:
    panel.set(variant="writev", writes=4)
    names: dict[str, Any] = {}
    exec(panel.spec.measurement.code(panel.values), names)
    (variant,) = names["result"].variants
    assert (variant.mode, variant.result.writes) == ("writev", 4)
    assert "ms/message" in capsys.readouterr().out


def test_one_worker_serves_all_runs_of_which_three_are_kept(panel: Panel) -> None:
    panel.set(variant="cork", writes=2).start().wait()
    worker, before = panel._worker, panel._number
    for _ in range(KEPT_RUNS):
        panel.start().start().start().wait()  # during a run another start does nothing
    assert panel._worker is worker
    numbers = [run["number"] for run in panel.runs]
    assert numbers == [before + 1, before + 2, before + 3]
    assert all(run["capture"] for run in panel.runs)


# ---- what goes wrong ----


def start_and_reach_measuring(panel: Panel) -> None:
    panel.start()
    until(lambda: panel.message == "Measuring …" or panel.phase != "running")
    assert panel.phase == "running", panel.message


def test_missing_program_shows_a_recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    why = "curl is not installed: apt install curl"
    monkeypatch.setenv("PATH", bare_path(tmp_path))
    with contextlib.closing(widgets.real_programs()) as panel:
        panel.start().wait()
        assert panel.runs[-1]["provenance"]["recorded"]["why"] == why
        panel.set(rtt_ms=7).start().wait()
        assert panel.phase == "failed"
        assert panel.message.startswith(f"{why}, and there is no recording of any-command with ")


def test_killed_program_is_reported_in_one_line(panel: Panel, mark: str) -> None:
    before = list(panel.runs)
    start_and_reach_measuring(panel.set(variant="default", rtt_ms=200))
    clients = until(lambda: [p for p, name in processes_with(mark) if name == "tcp_nodelay_cli"])
    os.kill(clients[0], signal.SIGKILL)
    panel.wait()
    assert panel.phase == "failed"
    assert "SIGKILL" in panel.message
    assert "\n" not in panel.message
    assert panel.runs == before


def test_killed_worker_is_reported_and_replaced(panel: Panel) -> None:
    start_and_reach_measuring(panel.set(rtt_ms=200))
    assert panel._worker is not None
    os.kill(panel._worker.pid, signal.SIGKILL)
    panel.wait()
    assert panel.phase == "failed"
    assert "ended by SIGKILL; press Run to try again" in panel.message
    panel.set(rtt_ms=0).start().wait()
    assert panel.message.startswith("Done")


def test_fault_of_the_panel_ends_the_wait(panel: Panel, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(panel, "_keep", lambda message: message["no such"])
        panel.set(rtt_ms=0).start().wait()
    assert panel.phase == "failed"
    assert "KeyError: 'no such'); press Run to try again" in panel.message
    panel.start().wait()
    assert panel.message.startswith("Done")


def test_waiting_for_a_turn_is_no_run_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCPLAB_INSTRUMENT", str(tmp_path))
    waiting = widgets.small_writes(writes=2, write_bytes=2)
    try:
        with exclusive(lambda: None):
            waiting.start()
            until(lambda: waiting._is_queued or waiting.phase != "running")
            assert waiting.message.startswith("Waiting for another measurement")
            waited = threading.Thread(target=waiting.wait, args=[0.5])
            waited.start()
            waited.join(1.5)
            assert waited.is_alive()
            assert waiting.phase == "running"
        # The time spent waiting for a turn does not count towards the time limit.
        waited.join(60)
        assert not waited.is_alive()
        assert not waiting._is_queued
    finally:
        waiting.close()


def test_stop_ends_the_run_and_its_laboratory(panel: Panel, mark: str) -> None:
    before = list(panel.runs)
    start_and_reach_measuring(panel.set(rtt_ms=200))  # 10 messages take 444 ms each
    until(lambda: len(processes_with(mark)) > 4)  # worker, process 1, wire, programs, …
    panel.stop().wait()
    assert panel.phase == "stopped"
    assert panel.runs == before
    until(lambda: not processes_with(mark))
    panel.stop()  # nothing runs, so nothing happens
    assert panel.phase == "stopped"


def test_nothing_is_left_when_the_owner_is_killed(panel: Panel, mark: str) -> None:
    panel.close()  # the fixture's worker also carries the mark, and must not be counted
    code = (
        "import time\nfrom tcplab import widgets\npanel = widgets.small_writes(rtt_ms=200).start()"
        "\nwhile panel.message == 'Starting …': time.sleep(0.05)\nprint(panel.message, flush=True)"
        "\ntime.sleep(600)"
    )
    owner = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    with owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "Measuring …\n"
        owner.kill()
    until(lambda: not processes_with(mark))


def test_truncated_message_is_dropped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    worker = tmp_path / "worker"
    worker.write_text("""#!/bin/sh\nprintf '{"ready": true}\\n{"sta'; kill -9 $$\n""")
    worker.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(worker))
    messages: list[dict[str, Any]] = []
    process.Worker(messages.append)._thread.join(60)
    assert messages == [{"ready": True}, {"ended": -9}]


# ---- live ----


@pytest.fixture(scope="module")
def wire(panel: Panel) -> Iterator[tuple[Panel, Watcher]]:
    panel.close()  # otherwise its worker would be counted
    live = widgets.wire(rtt_ms=10, rate_mbit=20)
    yield live, Watcher(live)
    live.close()


def reach_readings(panel: Panel, watcher: Watcher, count: int) -> None:
    watcher.samples.clear()
    panel.start()
    until(lambda: len(watcher.samples) >= count or panel.phase == "failed")
    assert panel.phase == "running", panel.message


def test_wire_changes_during_the_transfer(wire: tuple[Panel, Watcher]) -> None:
    panel, watcher = wire
    reach_readings(panel.set(seconds=120), watcher, 5)
    panel.set(rtt_ms=120)
    # The smoothed RTT lags behind and includes the queue, but 110 ms more cannot be missed.
    until(lambda: watcher.samples[-1]["rtt_ms"] > 100)
    samples = watcher.samples
    assert {"t", "throughput_mbit", "cwnd_segments", "rtt_ms", "queue_packets"} <= set(samples[0])
    times = [sample["t"] for sample in samples]
    assert times == sorted(times)
    assert panel._worker is not None
    os.kill(panel._worker.pid, signal.SIGSTOP)  # a busy machine must not break Stop
    panel.stop()
    time.sleep(1)
    os.kill(panel._worker.pid, signal.SIGCONT)
    panel.wait()
    assert panel.phase == "done", panel.message
    assert panel.runs[-1]["label"].endswith("then 1 change")


def test_stop_of_a_live_run_ends_its_laboratory(wire: tuple[Panel, Watcher], mark: str) -> None:
    panel, watcher = wire
    before = len(panel.runs)
    reach_readings(panel.set(seconds=300), watcher, 3)
    panel.stop().wait()
    assert panel.phase == "done", panel.message
    assert len(panel.runs) - before == 1
    until(lambda: len(processes_with(mark)) <= 1)  # the worker waits for the next run
    panel.close()
    until(lambda: not processes_with(mark))
