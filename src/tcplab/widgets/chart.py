"""A chart of a model's line over a logarithmic axis: as data for panel.js, and as a picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from tcplab.widgets.spec import KEPT_RUNS

if TYPE_CHECKING:
    from tcplab.figures import Picture
    from tcplab.tables import Table

#: Points of the model's line.
POINTS: Final = 91


def chart(
    model: Callable[[int], float],
    limits: tuple[int, int],
    *,
    x_label: str,
    y_label: str,
    y_high: float,
    line: str,
    marks: Mapping[str, float],
    alt: str,
) -> dict[str, Any]:
    """The data of a chart before anything is measured.

    The model's line from x to y, labelled `line`, between the limits of x; y begins at 0; `marks`
    maps the label of a vertical line to its x. The axes' labels have units.
    """
    low, high = limits
    sizes = [round(low * (high / low) ** (n / (POINTS - 1))) for n in range(POINTS)]
    return {
        "x": {"label": x_label, "scale": "log", "low": low, "high": high},
        "y": {"label": y_label, "scale": "linear", "low": 0, "high": y_high},
        "lines": [
            {
                "kind": "model",
                "label": line,
                "points": [(float(size), model(size)) for size in sizes],
            }
        ],
        "marks": [{"x": x, "label": label} for label, x in marks.items()],
        "alt": alt,
    }


def with_runs(
    data: Mapping[str, Any],
    runs: Sequence[Mapping[str, Any]],
    names: Sequence[str],
    prediction: float | None,
    unit: str,
) -> dict[str, Any]:
    """A :func:`chart` with the points of the runs, and the prediction across."""
    measured = [
        {"kind": f"run{run['number'] % KEPT_RUNS}", "label": name, "points": run["points"]}
        for run, name in zip(runs, names, strict=True)
    ]
    level = None
    if prediction is not None:
        level = {"y": prediction, "label": f"your prediction: {prediction:g} {unit}"}
    return {**data, "lines": [*data["lines"], *measured], "level": level}


def picture(
    data: Mapping[str, Any], points: Sequence[tuple[float, float]], title: str, table: Table
) -> Picture:
    """The model's lines of a :func:`chart` and a run's points, as panel.js draws them."""
    from tcplab.figures import Picture, canvas, style
    from tcplab.figures.picture import drawn

    @drawn
    def draw() -> Picture:
        figure, axes = canvas.new_axes(grid="both")
        for line in data["lines"]:
            axes.plot(*zip(*line["points"], strict=True), "k--", label=line["label"])
        axes.plot(*zip(*points, strict=True), "o-", color=style.BLUE, label="measured")
        x, y = data["x"], data["y"]
        axes.set_xscale(x["scale"])
        axes.set_xlim(x["low"], x["high"])
        axes.set_ylim(y["low"], y["high"])
        axes.set_xlabel(x["label"])
        axes.set_ylabel(y["label"])
        for number, mark in enumerate(data["marks"]):
            axes.axvline(mark["x"], color=style.GREY, ls=":")
            place = (mark["x"], y["low"] + (0.03 + 0.06 * number) * (y["high"] - y["low"]))
            axes.annotate(mark["label"], place)
        axes.legend(loc="upper left")
        measured = ", ".join(f"({a:g}, {b:.3g})" for a, b in points)
        return Picture(figure, title, f"{data['alt']} Measured: {measured}.", table)

    return draw()
