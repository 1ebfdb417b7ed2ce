"""Panels without a browser: what Run does, and that a failure stays one line inside the panel."""

from __future__ import annotations

import threading
from typing import Any

import pytest

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

widgets = pytest.importorskip("tcplab.widgets")


@pytest.fixture
def panel() -> Any:
    return widgets.small_writes()


def test_every_control_has_a_label(panel: Any) -> None:
    assert len(panel._controls) == 5
    assert all(control.description for control in panel._controls.values())


def test_run_shows_picture_table_and_code(panel: Any) -> None:
    panel._controls["mode"].value = "cork"
    panel.start()
    panel.wait()
    assert panel.status.value == "<p>Done.</p>"
    assert 'alt="Timeline of message' in panel.picture.value
    assert "cork" in panel.table.value
    assert "variants=[&#x27;cork&#x27;]" in panel.source.value
    assert panel.run_button.disabled is False


def test_the_code_it_offers_runs(panel: Any) -> None:
    values = {name: control.value for name, control in panel._controls.items()}
    values["mode"] = "writev"
    source = panel._code(**values)
    names: dict[str, Any] = {}
    exec(source, names)
    assert "small_writes" in names


def test_a_failure_is_one_line_in_the_panel_and_run_works_again() -> None:
    def fail(**_values: Any) -> tuple[str, str]:
        raise ValueError("rate <1> is too low")

    panel = widgets.Panel("Broken", {}, fail, lambda: "")
    panel.start()
    panel.wait()
    assert panel.status.value == "<p role='alert'><b>Failed:</b> rate &lt;1&gt; is too low</p>"
    assert panel.run_button.disabled is False


def test_a_second_click_while_it_runs_does_nothing() -> None:
    gate = threading.Event()
    calls = []

    def slow(**_values: Any) -> tuple[str, str]:
        calls.append(1)
        gate.wait(30)
        return "", ""

    panel = widgets.Panel("Slow", {}, slow, lambda: "")
    panel.start()
    panel.start()
    assert panel.run_button.disabled is True
    gate.set()
    panel.wait()
    assert calls == [1]
