"""Test the panels of pipes and diagnosis: models, values that are shown or hidden, and Stop."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.lifetime import processes_with, until

from tcplab import widgets
from tcplab.experiments import diagnosis

pytestmark = [
    pytest.mark.needs_lab,
    pytest.mark.timeout(240),
]  # on a busy machine, a new worker's imports take seconds


# ---- pipes ----


@pytest.fixture(scope="module")
def composed(mark: str) -> Iterator[widgets.Panel]:
    del mark
    panel = widgets.pipes(size_mb=4)
    yield panel
    panel.close()


def test_composed_variant_is_measured_with_the_reference(composed: widgets.Panel) -> None:
    composed.set(block_bytes=4096).predict(1.5).start().wait()
    assert composed.phase == "done", composed.message
    run = composed.runs[-1]
    assert run["label"].startswith("3 copies, ")
    assert "dd | netcat → netcat" in run["table"]
    assert "netcat &lt; file" in run["table"]
    assert re.search(r"netcat.* is ([\d.]+ times as fast as|the fastest)", run["title"])
    assert run["headline"] > 0
    assert run["prediction"] == 1.5
    assert "dd has no part in this, so its block size makes no difference" in composed.message
    compile(run["code"], "pipes", "exec")


def test_stop_during_a_pipeline_leaves_no_process(composed: widgets.Panel, mark: str) -> None:
    before = list(composed.runs)
    composed.set(source="zeros", block_bytes=512, size_mb=512, network="machine").start()  # 12 s
    until(lambda: "dd" in {name for _pid, name in processes_with(mark)})
    composed.stop().wait()
    assert composed.phase == "stopped"
    assert composed.runs == before
    until(lambda: not processes_with(mark))


# ---- diagnosis ----


@pytest.fixture(scope="module")
def patient(mark: str) -> Iterator[widgets.Panel]:
    del mark
    panel = widgets.diagnosis(rtt_ms=10)
    yield panel
    panel.close()


def test_cause_is_shown_only_on_request(patient: widgets.Panel) -> None:
    patient.start().wait()
    assert patient.phase == "done", patient.message
    symptom = patient.runs[-1]
    assert symptom["headline"] > 1
    assert symptom["capture"]
    shown = " ".join(symptom[field] for field in ("label", "title", "table")).lower()
    assert "nagle" not in shown
    assert "ack of the first" not in shown
    patient.set(show="cause").start().wait()
    cause = patient.runs[-1]
    assert "Nagle" in cause["title"]
    assert "a part left only after an ACK of the first" in cause["table"]
    assert cause["label"].startswith("the cause of request")


def test_learners_fix_is_read_from_the_working_directory(
    patient: widgets.Panel, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    patient.close()
    monkeypatch.chdir(tmp_path)  # the worker starts where the notebook is
    panel = patient.set(source="mine", program="request", show="symptom")
    panel.start().wait()
    assert panel.phase == "failed"
    assert panel.message.startswith("faulty_request.c: no such file; diagnosis.copy(")
    path = diagnosis.copy("request", tmp_path)
    text = path.read_text()
    repaired = text.replace("data, size, 0)", "data, size, size == 4 ? MSG_MORE : 0)")
    assert repaired != text
    path.write_text(repaired)
    panel = panel.start().wait()
    assert panel.phase == "done", panel.message
    assert "(faulty_request.c)" in panel.runs[-1]["label"]
    row = panel.runs[-1]["table"].partition("data segments per request")[2]
    assert re.findall(r">\s*(\d+)\s*<", row.partition("</tr>")[0]) == ["1", "1"]
