"""Test panels without a browser: runs, failures and Stop. Each run has a separate process."""

import os
import re
import signal
import subprocess
import sys
import time
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
from tcplab.widgets.panel import Panel
from tcplab.widgets.spec import KEPT_RUNS

pytestmark = [
    pytest.mark.needs_lab,
    pytest.mark.timeout(240),
]  # on a busy machine, a new process's imports take seconds


class Watcher:
    """A substitute for the browser's view."""

    def __init__(self, panel: Panel) -> None:
        self.panel = panel
        self.shown: list[str] = []
        self.samples: list[Any] = []
        panel._view = self  # type: ignore[assignment]

    def refresh(self) -> None:
        self.shown.append(self.panel.message)

    def add(self, sample: Any) -> None:
        self.samples.append(sample)


# ---- a run ----


def test_run_shows_picture_numbers_and_provenance() -> None:
    panel = widgets.small_writes(variant="cork", writes=15, write_bytes=2).predict(10)
    watcher = Watcher(panel)
    panel.start().start().wait()  # during a run another start does nothing
    assert panel.phase == "done", panel.message
    (run,) = panel.runs
    assert "1 segment, " in run["figure"]
    assert run["png"].startswith(b"\x89PNG")
    assert "cork" in run["table"]
    assert run["prediction"] == 10
    assert run["provenance"]["kernel"] == os.uname().release
    assert run["headline"] > 0
    assert {"Measuring …", "Drawing …"} <= set(watcher.shown)
    for _ in range(KEPT_RUNS):
        panel.start().wait()
    assert [run["number"] for run in panel.runs] == [2, 3, 4]


def test_packets_can_be_saved_and_say_why_they_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel = widgets.small_writes(variant="default", writes=15, write_bytes=2)
    keep = panel._keep

    def keep_late(*run: Any) -> None:
        time.sleep(0.5)
        keep(*run)

    monkeypatch.setattr(panel, "_keep", keep_late)
    panel.start().wait()
    rows = check_reasons(panel, tmp_path / "run.pcapng")
    assert sum(rows["payload_bytes"].tolist()) % 30 == 0


def check_reasons(panel: Panel, path: Path) -> SegmentArray:
    """Check that the last run's packets name their writes; return the client's data segments."""
    path.write_bytes(panel.runs[-1]["capture"])
    data = open_capture(path).segments.data("client", retransmissions=False)
    why = [packet.comment.decode() for packet in rdpcap(str(path)) if packet.comment]
    assert len(why) >= len(data) > 1
    assert all(re.search(r"\d bytes of writes? \d", sentence) for sentence in why)
    return data


def test_code_repeats_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    panel = widgets.small_writes(variant="writev", writes=4)
    names: dict[str, Any] = {}
    exec(panel.spec.measurement.code(panel.values), names)
    (variant,) = names["result"].variants
    assert (variant.mode, variant.result.writes) == ("writev", 4)
    assert "ms/message" in capsys.readouterr().out


# ---- what goes wrong ----


def start_and_reach_measuring(panel: Panel) -> None:
    panel.start()
    until(lambda: panel.message == "Measuring …" or panel.phase != "running")
    assert panel.phase == "running", panel.message


def test_missing_program_shows_a_recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    why = "curl is not installed: apt install curl"
    monkeypatch.setenv("PATH", bare_path(tmp_path))
    panel = widgets.real_programs().start().wait()
    assert panel.runs[-1]["provenance"]["recorded"]["why"] == why
    panel.set(rtt_ms=7, client="curl 'x").start().wait()
    assert (panel.phase, panel.message) == ("failed", "curl 'x: no closing quotation")


@pytest.mark.parametrize(
    ("victim", "message"),
    [("tcp_nodelay_cli", "SIGKILL"), ("", "ended by SIGKILL; press Run to try again")],
)
def test_killed_program_or_process_is_reported(mark: str, victim: str, message: str) -> None:
    panel = widgets.small_writes(rtt_ms=200)
    start_and_reach_measuring(panel)
    assert panel._process is not None
    pid = panel._process.pid
    if victim:
        pid = until(lambda: [p for p, name in processes_with(mark) if name == victim])[0]
    os.kill(pid, signal.SIGKILL)
    panel.wait()
    assert panel.phase == "failed"
    assert message in panel.message
    assert "\n" not in panel.message
    assert panel.runs == []
    panel.set(rtt_ms=0).start().wait()
    assert panel.message.startswith("Done")


def test_run_waits_for_another_measurement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCPLAB_INSTRUMENT", str(tmp_path))
    panel = widgets.small_writes(writes=2, write_bytes=2)
    with exclusive(lambda: None):
        panel.start()
        until(lambda: panel.message.startswith("Waiting") or panel.phase != "running")
        assert panel.message.startswith("Waiting for another measurement")
    assert panel.wait().phase == "done"


def test_stop_ends_the_run_and_its_laboratory(mark: str) -> None:
    panel = widgets.small_writes(rtt_ms=200)  # 10 messages take 444 ms each
    start_and_reach_measuring(panel)
    until(lambda: len(processes_with(mark)) > 4)  # the run's, process 1, wire, programs, …
    panel.stop().wait()
    assert (panel.phase, panel.runs) == ("stopped", [])
    until(lambda: not processes_with(mark))
    panel.stop()  # nothing runs, so nothing happens
    assert panel.phase == "stopped"


def test_nothing_is_left_when_the_owner_is_killed(mark: str) -> None:
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


# ---- live ----


def reach_readings(panel: Panel, count: int) -> Watcher:
    watcher = Watcher(panel)
    panel.start()
    until(lambda: len(watcher.samples) >= count or panel.phase == "failed")
    assert panel.phase == "running", panel.message
    return watcher


def test_wire_changes_during_the_transfer_and_stop_shows_it(mark: str) -> None:
    panel = widgets.wire(rtt_ms=10, rate_mbit=20, seconds=120)
    watcher = reach_readings(panel, 5)
    panel.set(rtt_ms=120)
    # The smoothed RTT lags behind and includes the queue, but 110 ms more cannot be missed.
    until(lambda: watcher.samples[-1]["rtt_ms"] > 100)
    samples = watcher.samples
    assert {"t", "throughput_mbit", "cwnd_segments", "rtt_ms", "queue_packets"} <= set(samples[0])
    times = [sample["t"] for sample in samples]
    assert times == sorted(times)
    assert panel._process is not None
    os.kill(panel._process.pid, signal.SIGSTOP)  # a busy machine must not break Stop
    panel.stop()
    time.sleep(1)
    os.kill(panel._process.pid, signal.SIGCONT)
    panel.wait()
    assert panel.phase == "done", panel.message
    assert panel.runs[-1]["provenance"]["changes"] == 1
    until(lambda: not processes_with(mark))


def test_second_stop_ends_a_live_run_that_hangs(mark: str) -> None:
    panel = widgets.wire(seconds=120)
    reach_readings(panel, 2)
    assert panel._process is not None
    os.kill(panel._process.pid, signal.SIGSTOP)
    panel.stop().stop().wait()
    assert (panel.phase, panel.runs) == ("stopped", [])
    until(lambda: not processes_with(mark))
