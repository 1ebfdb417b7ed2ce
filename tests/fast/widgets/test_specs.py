"""Test the panels as data: labels, limits, models and the code that repeats a run."""

import ast
import math
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.nonempty import each

from tcplab import widgets
from tcplab.errors import LabError, ParameterError
from tcplab.experiments import diagnosis, pipes
from tcplab.models import NetworkPath, message_cost
from tcplab.widgets.controls import Choice, checked
from tcplab.widgets.spec import PANELS, Job, PanelSpec, load


@pytest.fixture(params=PANELS)
def spec(request: pytest.FixtureRequest) -> PanelSpec:
    return load(request.param)


def test_every_spec_has_a_function_of_its_name() -> None:
    for name in each(PANELS):
        function = name.replace("-", "_")
        assert function in dir(widgets)
        panel = getattr(widgets, function)()
        assert panel.spec is load(name)
        assert panel.spec.name == name


def test_unknown_panel_is_refused_by_name() -> None:
    with pytest.raises(
        AttributeError, match="panel 'oscilloscope' is not known; use one of buffers, congestion"
    ):
        widgets.oscilloscope()
    with pytest.raises(ParameterError, match="panel 'oscilloscope' is not known; use one of"):
        load("oscilloscope")


def test_labels_and_names_are_unique(spec: PanelSpec) -> None:
    labels = [control.label for control in spec.controls]
    names = [control.name for control in spec.controls]
    assert all(each(labels))
    assert len({*labels}) == len(labels)
    assert len({*names}) == len(names)


def check_code(code: str) -> None:
    """Check that the code's imports work and that the function it calls exists."""
    tree = ast.parse(code)
    imports: list[ast.stmt] = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    names: dict[str, Any] = {}
    exec(compile(ast.Module(imports, []), "imports", "exec"), names)
    (call,) = [
        node.value.func
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
        if ast.unparse(node.targets[0]) == "result"
    ]
    assert callable(eval(ast.unparse(call), names))


def test_code_can_be_run_for_every_choice(spec: PanelSpec) -> None:
    defaults = checked(spec.controls, spec.headless)
    for control in spec.controls:
        options = list(control.options) if isinstance(control, Choice) else [control.default]
        for option in options:
            check_code(spec.measurement.code(defaults | {control.name: option}))


def test_forecast_is_finite_and_positive(spec: PanelSpec) -> None:
    forecast = widgets.Panel(spec).forecast()
    assert forecast is None or (math.isfinite(forecast) and forecast > 0)


def test_queue_is_forecast_only_if_the_transfer_can_fill_it() -> None:
    panel = widgets.queues(seconds=4.0)
    assert panel.forecast() is None  # cubic needs about 15 s for 1000 packets
    assert panel.set(queue_packets=20).forecast() == pytest.approx(45, abs=1)
    assert panel.set(queue_packets=1000, router="codel").forecast() == 25
    assert panel.set(router="tail_drop", seconds=20.0).forecast() == pytest.approx(1250, abs=1)


def test_model_follows_the_settings() -> None:
    panel = widgets.buffers(rtt_ms=20)
    near = panel.forecast()
    far = panel.set(rtt_ms=80).forecast()
    full = panel.set(rtt_ms=20, request_bytes=4 << 20).forecast()
    assert near is not None
    assert full is not None
    assert far == pytest.approx(near / 4, rel=0.05)  # serialisation time adds to both
    assert panel.set(request_bytes=2 << 20).forecast() == full > near
    cost = message_cost([2] * 15, path=NetworkPath(rtt_ms=20), messages=5)
    assert widgets.small_writes(rtt_ms=20).forecast() == cost.ms_per_message


def test_setting_out_of_range_is_refused_before_anything_runs() -> None:
    panel = widgets.small_writes()
    with pytest.raises(ValueError, match="writes=0 must be a whole number from 1 to 200"):
        panel.set(writes=0)
    with pytest.raises(ValueError, match="prediction=-1"):
        panel.predict(-1)
    assert panel.phase == "ready"
    assert "run this cell in JupyterLab" in panel.html()


def test_recorded_mode_needs_a_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCPLAB_MODE", "recorded")
    owner: Any = SimpleNamespace(send=lambda _message: None)
    job = Job(load("cork"), {"writes": 7, "write_bytes": 33}, owner)
    with pytest.raises(LabError, match="recording") as caught:
        job.spec.measurement.run(job)
    assert "\n" not in str(caught.value)


def test_controls_offer_every_part_and_program() -> None:
    controls = [*load("pipes").controls[:3], load("diagnosis").controls[0]]
    offered = [tuple(control.options) for control in controls if isinstance(control, Choice)]
    assert offered == [pipes.SOURCES, pipes.SENDERS, pipes.RECEIVERS, diagnosis.PROGRAMS]


def test_the_model_is_the_ratio_of_copies() -> None:
    panel = widgets.pipes()
    assert panel.forecast() == pytest.approx(5 / 3)
    assert panel.set(source="zeros", receiver="dd").forecast() == pytest.approx(5 / 7)
    panel.set(source="warm", sender="splice", receiver="discard")
    assert panel.forecast() is None  # without a copy, the model has no cost to divide by
    assert panel.set(network="wire").forecast() == 1


def test_data_over_the_wire_are_limited() -> None:
    panel = widgets.pipes(network="wire", size_mb=512)
    code = panel.spec.measurement.code(panel.values)
    assert "'wire-netcat'" in code
    assert "wire_size_mb=40" in code


def test_count_falls_with_the_rtt() -> None:
    for program, far in (("request", "count=12"), ("backup", "count=62")):
        panel = widgets.diagnosis(program=program, rtt_ms=60)
        assert far in panel.spec.measurement.code(panel.values)
    ticker = widgets.diagnosis(program="ticker")
    assert "count" not in ticker.spec.measurement.code(ticker.values)
