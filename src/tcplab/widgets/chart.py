"""A chart of a model's line and the runs' points: as data, as HTML, and as a picture."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any, Final

from tcplab.figures import Picture, bars, canvas, style
from tcplab.figures.picture import drawn
from tcplab.tables import Table
from tcplab.widgets import plot
from tcplab.widgets.spec import KEPT_RUNS

#: Points of the model's line.
POINTS: Final = 91


def chart(
    line: Sequence[tuple[float, float]],
    x: Mapping[str, Any],
    *,
    y_label: str,
    y_high: float,
    y_low: float = 0,
    label: str,
    marks: Mapping[str, float],
    alt: str,
) -> dict[str, Any]:
    """The data of a chart before anything is measured.

    Args:
        line: the model's points, in order.
        x: "label" with the unit, "scale" ("log" or "linear"), "low" and "high" of the axis.
        y_label: with the unit.
        y_high: end of the axis; a run's points may move it.
        y_low: its begin, of an axis that is logarithmic if this is not 0.
        label: of the line.
        marks: label of a vertical line -> its x.
        alt: in words.
    """
    scale = "log" if y_low else "linear"
    return {
        "x": dict(x),
        "y": {"label": y_label, "scale": scale, "low": y_low, "high": y_high},
        "lines": [{"kind": "model", "label": label, "points": list(line)}],
        "marks": [{"x": x, "label": label} for label, x in marks.items()],
        "level": None,
        "alt": alt,
    }


def sampled(model: Callable[[int], float], low: int, high: int) -> Sequence[tuple[float, float]]:
    """A model's line over a logarithmic axis."""
    sizes = [round(low * (high / low) ** (n / (POINTS - 1))) for n in range(POINTS)]
    return [(float(size), model(size)) for size in sizes]


def without_result(data: Mapping[str, Any]) -> dict[str, Any]:
    """The axes of a :func:`chart`: what a room may see before it has voted."""
    axes = f"{data['y']['label']} against {data['x']['label']}"
    return {**data, "lines": [], "marks": [], "level": None, "alt": f"{axes}: empty until Run"}


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
    seen = [y for line in measured for _x, y in line["points"]]
    high = max(data["y"]["high"], 1.1 * max(seen, default=0), 1.1 * (prediction or 0))
    lines = [*data["lines"], *measured]
    return {**data, "y": {**data["y"], "high": high}, "lines": lines, "level": level}


def html(data: Mapping[str, Any]) -> str:
    """A :func:`chart` for the page."""
    axes = {name: plot.Axis(**data[name]) for name in ("x", "y")}
    keys = [plot.key(each["kind"], each["label"]) for each in data["lines"] if each["label"]]
    legend = f"<ul>{''.join(keys)}</ul>"
    labels = [f'<p class="{name}-label">{escape(axis.label)}</p>' for name, axis in axes.items()]
    parts = plot.area(plot.upright({**data, **axes}))
    return plot.framed("chart", data["alt"], legend, labels[1], parts, labels[0])


def picture(
    data: Mapping[str, Any], points: Sequence[tuple[float, float]], title: str, table: Table
) -> Picture:
    """The model's lines of a :func:`chart` and a run's points, for a demo and a file."""

    @drawn
    def draw() -> Picture:
        figure, axes = canvas.new_axes(grid="both")
        for line in data["lines"]:
            axes.plot(*zip(*line["points"], strict=True), "k--", label=line["label"])
        axes.plot(*zip(*points, strict=True), "o", color=style.BLUE, label="measured")
        x, y = data["x"], data["y"]
        axes.set_xscale(x["scale"])
        axes.set_yscale(y["scale"])
        axes.set_xlim(x["low"], x["high"])
        axes.set_ylim(y["low"], 1.2 * y["high"])
        for which, axis in (("x", x), ("y", y)):
            if axis["scale"] == "log":
                bars.tick_decades(axes, which)
        axes.set_xlabel(x["label"])
        axes.set_ylabel(y["label"])
        for number, mark in enumerate(data["marks"]):
            axes.axvline(mark["x"], color=style.GREY, ls=":")
            right = axes.transLimits.transform(axes.transScale.transform((mark["x"], 1)))[0] > 0.5
            step = 0.08  # a label may have two lines there
            place, away = (mark["x"], 0.03 + step * number), (-4 if right else 4, 0)
            where: dict[str, Any] = {"textcoords": "offset points", "bbox": style.ON_WHITE}
            where |= {"xycoords": axes.get_xaxis_transform(), "ha": "right" if right else "left"}
            axes.annotate(textwrap.fill(mark["label"], 24), place, away, **where)
        canvas.legend(figure)
        return Picture(figure, title, table)

    return draw()
