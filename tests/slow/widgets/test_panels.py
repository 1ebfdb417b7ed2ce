"""Test what tests/lab leaves out: packets, pipes, diagnosis, and a panel in a notebook."""

import re
from pathlib import Path

import nbformat
import pytest
from tests.lab.widgets.test_panels import check_reasons
from tools import notebooks

from tcplab import widgets
from tcplab.experiments import diagnosis
from tcplab.widgets.panel import Panel
from tcplab.widgets.spec import load

pytestmark = [pytest.mark.needs_lab, pytest.mark.timeout(240)]


@pytest.mark.parametrize("name", ["congestion-window", "cork"])
def test_saved_packets_name_the_writes_they_carry(name: str, tmp_path: Path) -> None:
    panel = Panel(load(name)).start().wait()
    assert panel.phase == "done", panel.message
    check_reasons(panel, tmp_path / "run.pcapng")


def test_executed_notebook_contains_the_default_result(tmp_path: Path) -> None:
    source = 'from tcplab import widgets\n\nwidgets.small_writes(variant="cork")'
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    notebooks.client(notebook, tmp_path, 120).execute()
    outputs = notebook.cells[0].outputs
    assert [output.output_type for output in outputs] == ["execute_result"]
    html = outputs[0].data["text/html"]
    assert "The numbers are in the table" in html
    assert "How to send: TCP_CORK around them, Writes per message 15" in html
    assert "<summary>Copy as code</summary>" in html
    assert list(tmp_path.iterdir()) == []


def test_composed_variant_is_measured_with_the_reference() -> None:
    panel = widgets.pipes(size_mb=4, block_bytes=4096).start().wait()
    assert panel.phase == "done", panel.message
    run = panel.runs[-1]
    assert "dd | netcat → netcat" in run["table"]
    assert "netcat &lt; file" in run["table"]
    assert re.search(r"netcat.* is ([\d.]+ times as fast as|the fastest)", run["title"])
    assert run["headline"] > 0


def test_cause_is_shown_only_on_request() -> None:
    panel = widgets.diagnosis(rtt_ms=10).start().wait()
    assert panel.phase == "done", panel.message
    symptom = panel.runs[-1]
    assert symptom["headline"] > 1
    assert symptom["capture"]
    shown = f"{symptom['title']} {symptom['table']}".lower()
    assert "nagle" not in shown
    assert "ack of the first" not in shown
    cause = panel.set(show="cause").start().wait().runs[-1]
    assert "Nagle" in cause["title"]
    assert "a part left only after an ACK of the first" in cause["table"]


def test_learners_fix_is_read_from_the_working_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)  # the process starts where the notebook is
    panel = widgets.diagnosis(rtt_ms=10, source="mine", program="request").start().wait()
    assert panel.phase == "failed"
    assert panel.message.startswith("faulty_request.c: no such file; diagnosis.copy(")
    path = diagnosis.copy("request", tmp_path)
    text = path.read_text()
    repaired = text.replace("data, size, 0)", "data, size, size == 4 ? MSG_MORE : 0)")
    assert repaired != text
    path.write_text(repaired)
    assert panel.start().wait().message.startswith("Done")
    row = panel.runs[-1]["table"].partition("data segments per request")[2]
    assert re.findall(r">\s*(\d+)\s*<", row.partition("</tr>")[0]) == ["1", "1"]
