"""The panels of lessons 01 and 08: models, what is shown and what is kept back, and Stop."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.widgets.test_panels import processes_with, until

from tcplab import widgets
from tcplab.experiments import diagnosis, pipes
from tcplab.widgets.controls import Choice
from tcplab.widgets.instrument import load

pytestmark = pytest.mark.timeout(240)  # each new worker imports for seconds on a busy machine


@pytest.fixture(scope="module", autouse=True)
def mark() -> Iterator[str]:
    """Is in the environment of every process that these tests start."""
    value = f"TCPLAB_TEST_PANELS={uuid.uuid4()}"
    name, _, unique = value.partition("=")
    os.environ[name] = unique
    yield value
    del os.environ[name]


def options(instrument: str, name: str) -> set[str]:
    (control,) = [each for each in load(instrument).controls if each.name == name]
    assert isinstance(control, Choice)
    return set(control.options)


# ---- copies ----


def test_the_controls_offer_all_parts_that_can_be_composed() -> None:
    assert options("copies", "source") == set(pipes.SOURCES)
    assert options("copies", "sender") == set(pipes.SENDERS)
    assert options("copies", "receiver") == set(pipes.RECEIVERS)
    assert options("diagnosis", "program") == set(diagnosis.PROGRAMS)


def test_the_model_is_the_ratio_of_copies() -> None:
    panel = widgets.copies()
    assert panel.model()["forecast"] == pytest.approx(5 / 3)
    assert panel.set(source="zeros", receiver="dd").model()["forecast"] == pytest.approx(5 / 7)
    panel.set(source="warm", sender="splice", receiver="discard")
    assert panel.model()["forecast"] is None  # no copy: the model knows of no other cost
    assert panel.set(place="wire").model()["forecast"] == 1


@pytest.fixture(scope="module")
def copies(mark: str) -> Iterator[widgets.Panel]:
    del mark
    panel = widgets.copies(size_mb=4)
    yield panel
    panel.close()


def test_a_way_is_measured_beside_the_reference(copies: widgets.Panel) -> None:
    copies.predict(1.5).start().wait()
    assert copies.phase == "done", copies.message
    run = copies.runs[-1]
    assert run["label"].startswith("3 copies, ")
    assert "dd | netcat → netcat" in run["text"]
    assert "netcat &lt; file" in run["table"]
    assert run["alt"].startswith("The way of a byte: page cache to netcat, netcat to sockets")
    assert run["headline"] > 0
    assert run["prediction"] == 1.5
    assert "the block size is that of dd" in copies.message
    compile(run["code"], "copies", "exec")


def test_little_is_sent_over_the_wire_and_said(copies: widgets.Panel) -> None:
    code = load("copies").code({**copies.values, "place": "wire", "size_mb": 512})
    assert "'wire-netcat'" in code
    assert "wire_size_mb=40" in code


def test_stop_in_the_middle_of_pipes_leaves_nothing(copies: widgets.Panel, mark: str) -> None:
    before = list(copies.runs)
    copies.set(source="zeros", block_bytes=512, size_mb=512, place="machine").start()  # 12 s
    until(lambda: "dd" in {name for _pid, name in processes_with(mark)})
    copies.stop().wait()
    assert copies.phase == "stopped"
    assert copies.runs == before
    until(lambda: not processes_with(mark))


# ---- diagnosis ----


@pytest.fixture(scope="module")
def patient(mark: str) -> Iterator[widgets.Panel]:
    del mark
    panel = widgets.diagnosis(rtt_ms=10)
    yield panel
    panel.close()


def test_the_symptom_first_and_the_cause_on_request(patient: widgets.Panel) -> None:
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


def test_a_repair_of_ones_own_is_looked_for_in_this_folder(
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
    assert ["data", "segments", "a", "request", "1", "1"] in rows


def test_the_farther_the_fewer_so_that_nobody_waits() -> None:
    for program, far in (("request", "count=12"), ("backup", "count=62")):
        panel = widgets.diagnosis(program=program, rtt_ms=60)
        assert far in panel.instrument.code(panel.values)
    ticker = widgets.diagnosis(program="ticker")
    assert "count" not in ticker.instrument.code(ticker.values)
