"""Panel on buffers and the bandwidth-delay product, with the model's line and measurements."""

from typing import Any

from tcplab.experiments import buffers
from tcplab.experiments.buffers.throughput import core_limit, send_window, usable_window
from tcplab.models import receive_buffer_grant, send_buffer_grant, throughput_mbit
from tcplab.widgets.spec import PanelCall, Values, load


def _requests(values: Values) -> list[int]:
    request = values["request_bytes"]
    if values["sweep"] == "one":
        return [request]
    sizes = {int(request * factor) for factor in (0.25, 0.5, 1, 2, 4)}
    buffer: Any = load("buffers").controls[1]
    return sorted(size for size in sizes if buffer.low <= size <= buffer.high)


def forecast(values: Values) -> float:
    """Return the model's throughput in Mbit/s."""
    request_bytes = values["request_bytes"]
    if values["side"] == "receive":
        granted = receive_buffer_grant(request_bytes, core_limit("rmem_max"))
        window = usable_window(granted)
    else:
        window = send_window(send_buffer_grant(request_bytes, core_limit("wmem_max")))
    return throughput_mbit(window, values["rtt_ms"], values["rate_mbit"])


def call(values: Values) -> PanelCall:
    """Measure the buffer, and those around it if the user wants them."""
    arguments = {
        "rtts_ms": (values["rtt_ms"],),
        "requests": tuple(_requests(values)),
        "rate_mbit": values["rate_mbit"],
        "side": values["side"],
    }
    if values["sweep"] == "one":  # one point would have no curve
        return PanelCall(buffers, arguments, "figures.draw_bars(result, 'mbit', 'model_mbit')")
    return PanelCall(buffers, arguments)


def headline(result: Any, values: Values) -> float | None:
    """Return the throughput in Mbit/s with the buffer that was asked for."""
    measured = {variant.requested_bytes: variant.mbit for variant in result.variants}
    return measured.get(values["request_bytes"])
