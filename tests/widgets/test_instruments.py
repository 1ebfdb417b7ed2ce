"""The instruments as data: labels, limits, models and the code that repeats a run."""

from __future__ import annotations

import json
import math

import pytest
from tests.nonempty import each

from tcplab import widgets
from tcplab.experiments.buffers import Transfer
from tcplab.models import Path, message_cost
from tcplab.widgets.controls import Choice, Number, checked
from tcplab.widgets.instrument import INSTRUMENTS, Instrument, load
from tcplab.widgets.panels import buffers


@pytest.fixture(params=INSTRUMENTS)
def instrument(request: pytest.FixtureRequest) -> Instrument:
    return load(request.param)


def test_every_instrument_has_a_panel_of_its_own_name() -> None:
    for name in each(INSTRUMENTS):
        panel = getattr(widgets, name.replace("-", "_"))()
        assert panel.instrument is load(name)


def test_an_unknown_instrument_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="instrument 'oscilloscope': there are"):
        load("oscilloscope")


def test_labels_and_names_are_there_once(instrument: Instrument) -> None:
    labels = [control.label for control in instrument.controls]
    names = [control.name for control in instrument.controls]
    assert all(each(labels))
    assert len({*labels}) == len(labels)
    assert len({*names}) == len(names)


def test_a_logarithmic_slider_begins_above_zero(instrument: Instrument) -> None:
    for control in instrument.controls:
        if isinstance(control, Number) and control.scale == "log":
            assert control.low > 0


def test_the_defaults_are_within_the_limits(instrument: Instrument) -> None:
    values = checked(instrument.controls, instrument.headless)
    assert set(instrument.headless) <= set(values)


def test_the_front_end_gets_plain_json(instrument: Instrument) -> None:
    panel = widgets.Panel(instrument)
    json.dumps([instrument.spec(), panel.model()], allow_nan=False)


def test_the_code_is_python_for_every_choice(instrument: Instrument) -> None:
    defaults = checked(instrument.controls, {})
    for control in instrument.controls:
        options = list(control.options) if isinstance(control, Choice) else [control.default]
        for option in options:
            compile(instrument.code(defaults | {control.name: option}), instrument.name, "exec")


def test_the_model_has_a_number_where_it_claims_one(instrument: Instrument) -> None:
    forecast = widgets.Panel(instrument).model()["forecast"]
    assert forecast is None or (math.isfinite(forecast) and forecast > 0)


def test_small_writes_are_forecast_by_the_model_of_messages() -> None:
    panel = widgets.small_writes(mode="default", rtt_ms=20)
    expected = message_cost([2] * 15, path=Path(rtt_ms=20), messages=5).ms_per_message
    assert panel.model()["forecast"] == expected


def test_the_model_follows_the_settings() -> None:
    panel = widgets.buffers(rtt_ms=20)
    near = panel.model()["forecast"]
    far = panel.set(rtt_ms=80).model()["forecast"]
    assert far == pytest.approx(near / 4, rel=0.05)  # serialisation adds to both


def test_a_transfer_that_fell_far_short_of_the_model_is_named() -> None:
    model = {"window_bytes": 1, "model_window_bytes": 1, "rwnd_share": 0.0, "sndbuf_share": 0.0}
    far, near = (
        Transfer(80.0, 524_288, 1_048_576, mbit=mbit, model_mbit=47.1, **model)  # type: ignore[arg-type]
        for mbit in (5.7, 41.0)
    )
    (doubt,) = buffers._doubts([far, near])
    assert "with 524,288 bytes 5.7 Mbit/s is less than half" in doubt
    assert "(47.1)" in doubt


def test_the_buffer_at_the_knee_fills_the_wire_and_half_of_it_does_not() -> None:
    panel = widgets.buffers()
    curve = panel.model()["chart"]
    knee = curve["marks"][0]["x"]
    full = curve["lines"][0]["points"][-1][1]
    assert panel.set(request_bytes=int(knee * 1.02)).model()["forecast"] == pytest.approx(full)
    assert panel.set(request_bytes=int(knee / 2)).model()["forecast"] < 0.6 * full
