"""The panels of lessons 01 and 08: models, what is shown and kept back, and Stop."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.widgets.processes import processes_with, until

from tcplab import widgets
from tcplab.experiments import diagnosis, pipes
from tcplab.widgets.controls import Choice
from tcplab.widgets.spec import load

pytestmark = pytest.mark.timeout(240)  # each new worker imports for seconds on a busy machine


def options(panel: str, name: str) -> set[str]:
    (control,) = [each for each in load(panel).controls if each.name == name]
    assert isinstance(control, Choice)
    return set(control.options)


# ---- pipes ----


def test_the_controls_offer_all_parts_that_can_be_composed() -> None:
    assert options("pipes", "source") == set(pipes.SOURCES)
    assert options("pipes", "sender") == set(pipes.SENDERS)
    assert options("pipes", "receiver") == set(pipes.RECEIVERS)
    assert options("diagnosis", "program") == set(diagnosis.PROGRAMS)


def test_the_model_is_the_ratio_of_copies() -> None:
    panel = widgets.pipes()
    assert panel.model()["forecast"] == pytest.approx(5 / 3)
    assert panel.set(source="zeros", receiver="dd").model()["forecast"] == pytest.approx(5 / 7)
    panel.set(source="warm", sender="splice", receiver="discard")
    assert panel.model()["forecast"] is None  # no copy: the model knows of no other cost
    assert panel.set(network="wire").model()["forecast"] == 1


@pytest.fixture(scope="module")
def composed(mark: str) -> Iterator[widgets.Panel]:
    del mark
    panel = widgets.pipes(size_mb=4)
    yield panel
    panel.close()


def test_composed_variant_is_measured_beside_the_reference(composed: widgets.Panel) -> None:
    composed.predict(1.5).start().wait()
    assert composed.phase == "done", composed.message
    run = composed.runs[-1]
    assert run["label"].startswith("3 copies, ")
    assert "dd | netcat → netcat" in run["text"]
    assert "netcat &lt; file" in run["table"]
    assert run["alt"].startswith("The path of a byte: page cache to netcat, netcat to sockets")
    assert run["headline"] > 0
    assert run["prediction"] == 1.5
    assert "the block size is that of dd" in composed.message
    compile(run["code"], "pipes", "exec")


def test_data_over_the_wire_are_limited(composed: widgets.Panel) -> None:
    code = load("pipes").measurement.code({**composed.values, "network": "wire", "size_mb": 512})
    assert "'wire-netcat'" in code
    assert "wire_size_mb=40" in code


def test_stop_in_the_middle_of_pipes_leaves_nothing(composed: widgets.Panel, mark: str) -> None:
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


def test_cause_is_shown_on_request_only(patient: widgets.Panel) -> None:
    patient.start().wait()
    assert patient.phase == "done", patient.message
    symptom = patient.runs[-1]
    assert symptom["headline"] > 1
    assert symptom["capture"]
    shown = " ".join(symptom[each] for each in ("label", "alt", "table", "text")).lower()
    assert "nagle" not in shown
    assert "ack of the first" not in shown
    patient.set(show="cause").start().wait()
    cause = patient.runs[-1]
    assert "Nagle" in cause["alt"]
    assert "a part left only after an ACK of the first" in cause["table"]
    assert cause["label"].startswith("the cause of request")


def test_own_repair_is_looked_for_in_this_folder(
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
    mended = text.replace("data, size, 0)", "data, size, size == 4 ? MSG_MORE : 0)")
    assert mended != text
    path.write_text(mended)
    panel = panel.start().wait()
    assert panel.phase == "done", panel.message
    assert "(faulty_request.c)" in panel.runs[-1]["label"]
    rows = [line.split() for line in panel.runs[-1]["text"].splitlines()]
    assert ["data", "segments", "per", "request", "1", "1"] in rows


def test_count_falls_with_the_rtt() -> None:
    for program, far in (("request", "count=12"), ("backup", "count=62")):
        panel = widgets.diagnosis(program=program, rtt_ms=60)
        assert far in panel.spec.measurement.code(panel.values)
    ticker = widgets.diagnosis(program="ticker")
    assert "count" not in ticker.spec.measurement.code(ticker.values)
