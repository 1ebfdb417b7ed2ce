"""Test the packets of two panels that tests/lab leaves out, and a panel in a notebook."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from tests.lab.widgets.test_panels import check_reasons
from tools import notebooks

from tcplab.widgets.panel import Panel
from tcplab.widgets.spec import load

pytestmark = [pytest.mark.needs_lab, pytest.mark.timeout(240)]


@pytest.mark.parametrize("name", ["congestion-window", "cork"])
def test_saved_packets_name_the_writes_they_carry(name: str, tmp_path: Path) -> None:
    panel = Panel(load(name)).start().wait()
    panel.close()
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
    assert "cork: 15 × 2 B, RTT 0 ms" in html
    assert "<summary>Copy as code</summary>" in html
    assert list(tmp_path.iterdir()) == []
