"""docs/benchmarks.md, .json and the figure, made from what the benchmarks returned."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks.quiet import against_best

from tcplab.experiments.wire_bench import DELAY_COLUMNS, RATE_COLUMNS, THROUGHPUT_COLUMNS
from tcplab.tables import Column, Table

__all__ = ["write"]

Row = Mapping[str, Any]

CONTEST_COLUMNS = (
    Column("entrant", ""),
    Column("median", "{unit}, median", "s"),
    Column("range", "lowest–highest"),
    Column("of_best", "of the best peer", ".2f"),
    Column("lost_percent", "lost (%)", ".2f"),
    Column("cpu_s_per_gb", "CPU s/GB, both ends", ".2f"),
    Column("sender_cpu_s_per_gb", "CPU s/GB, sender", ".3f"),
    Column("system_calls", "system calls", ",.0f"),
    Column("copied_percent", "sends copied after all (%)", ".0f"),
)
LAB_COLUMNS = (
    Column("which", ""),
    Column("up", "up (ms)", ".0f"),
    Column("down", "down (ms)", ".1f"),
)
CAPTURE_COLUMNS = (
    Column("recorder", "recorder"),
    Column("packets_per_s", "packets/s, all kept", ",.0f"),
    Column("stopped_by", "what stopped it there"),
    Column("floods", "floods", "d"),
)
FORWARDER_COLUMNS = (
    Column("entrant", "what is between the hosts"),
    Column("median", "Gbit/s, median", ".2f"),
    Column("lowest", "lowest", ".2f"),
    Column("highest", "highest", ".2f"),
    Column("wire_cpu_s_per_gb", "its CPU (s/GB)", ".2f"),
)
READING_COLUMNS = (
    Column("reader", "reader"),
    Column("seconds", "s, median", ".3f"),
    Column("range", "fastest–slowest"),
    Column("times", "× ours", ".1f"),
    Column("cpu_s", "CPU s", ".3f"),
    Column("memory_per_file", "memory / file", ".1f"),
    Column("runs", "runs", "d"),
)
PANEL_COLUMNS = (
    Column("which", ""),
    Column("ours", "ours (ms), median", ".0f"),
    Column("range", "lowest–highest"),
    Column("drawing", "of it drawing (ms)", ".0f"),
    Column("experiment", "experiment (ms)", ".0f"),
    Column("first", "first run, all of it (ms)", ".0f"),
)
GRADING_COLUMNS = (
    Column("entrant", ""),
    Column("submissions_per_min", "submissions a minute", ".1f"),
    Column("range", "lowest–highest"),
    Column("rounds", "rounds", "d"),
)
GOAL_COLUMNS = (
    Column("what", "what"),
    Column("entrant", "ours"),
    Column("goal", "goal"),
    Column("measured", "measured", "s"),
    Column("verdict", ""),
)


def write(results: Mapping[str, Any], directory: Path) -> None:
    """Writes benchmarks.md, benchmarks.json and images/benchmarks.svg.

    Args:
        results: "provenance", and what was measured of "programs", "lab", "wire", "capture",
            "reading", "panels" and "grading".
        directory: docs/, usually.
    """
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "benchmarks.json").write_text(json.dumps(results, indent=1) + "\n")
    (directory / "benchmarks.md").write_text(markdown(results))
    if results.get("programs"):
        (directory / "images").mkdir(exist_ok=True)
        _draw(results["programs"], directory / "images" / "benchmarks.svg")


def markdown(results: Mapping[str, Any]) -> str:
    """The document."""
    parts = [_head(results), _goals(results)]
    if contests := results.get("programs"):
        parts.append(
            "## The programs\n\n![Bars: each contest's medians and ranges; ours in blue]"
            "(images/benchmarks.svg)"
        )
        parts += [_contest(each) for each in contests]
    if rows := results.get("lab"):
        text = "## The laboratory\n\nFrom `Lab()` to its return, and from `close()` to its"
        text += (
            " return, when all that lived in it has been killed; the kernel frees the rings later."
        )
        parts.append(f"{text}\n\n{_github(LAB_COLUMNS, rows)}")
    if wire := results.get("wire"):
        parts.append(_wire(wire))
    if rows := results.get("capture"):
        parts.append(
            "## Recording\n\n100-byte frames, their first 96 bytes kept: the highest rate at which"
            " no packet was missing.\n\n" + _github(CAPTURE_COLUMNS, rows)
        )
    if reading := results.get("reading"):
        parts.append(_reading(reading))
    if panels := results.get("panels"):
        parts.append(_panels(panels))
    if rows := results.get("grading"):
        parts.append(_grading(rows))
    return "\n\n".join(parts) + "\n"


def _head(results: Mapping[str, Any]) -> str:
    origin = results["provenance"]
    versions = ", ".join(f"{name} {number}" for name, number in origin["versions"].items())
    machine = f"Linux {origin['kernel']}, {origin['cpu']}, {origin['cores']} processors"
    rounds = f"{origin['rounds']} rounds of {origin['seconds']} s, the entrants in turn"
    again = f"up to {origin['repeats']} times, in {origin['took_s'] / 60:.1f} minutes in all"
    threshold = f"more than {origin['disturbed_percent']:.0f} % of the processors"
    lines = [
        "# Benchmarks",
        "",
        "Made by `make bench`. The numbers are one machine's; the ratios are what carries over:",
        "an entrant's to the peer that did best beside it, as the median of the rounds' ratios,",
        "and in brackets where that median lies with 95 % confidence.",
        "",
        f"- measured {origin['measured_at']}, {machine}, load average {origin['load_average']}",
        f"- the course's programs compiled by {origin['compiler']}",
        f"- beside {versions or 'no other tools'}",
        f"- {rounds}; one in which other processes had {threshold} was run again, {again}",
        *(f"- not there to compare with: {each}" for each in origin["absent"]),
        *_busy(results),
    ]
    return "\n".join(lines)


def _busy(results: Mapping[str, Any]) -> list[str]:
    """A warning, when the machine was never quiet for long enough."""
    shares = [row["others"] for each in results.get("programs", ()) for row in each["rows"]]
    disturbed = [
        share for share in shares if share > results["provenance"]["disturbed_percent"] / 100
    ]
    if not disturbed:
        return []
    most = f"others took up to {100 * max(disturbed):.0f} % of the processors"
    rows = f"{len(disturbed)} of {len(shares)} rows"
    return ["", f"**The machine was busy: {most} in {rows}. Don't rely on those numbers.**"]


def _goals(results: Mapping[str, Any]) -> str:
    rows = [
        {"what": each["title"], **goal}
        for each in results.get("programs", ())
        for goal in each["goals"]
    ]
    rows += [{"what": "the laboratory", **goal} for goal in results.get("lab_goals", ())]
    rows += [{"what": "recording", **goal} for goal in results.get("capture_goals", ())]
    rows += [{"what": "reading a capture", **goal} for goal in results.get("reading_goals", ())]
    rows += [{"what": "panels", **goal} for goal in results.get("panels_goals", ())]
    rows += [{"what": "grading", **goal} for goal in results.get("grading_goals", ())]
    rows += [{"what": "the wire", **goal} for goal in results.get("wire_goals", ())]
    return "## Goals\n\n" + _github(GOAL_COLUMNS, [{**row, **_in_words(row)} for row in rows])


def _in_words(goal: Row) -> Row:
    """A ratio to something, or a limit in the unit that the name tells."""
    was = "–" if goal["was"] is None else f"{goal['was']:.3g}"
    if goal["factor"] is None:
        return {"goal": goal["of"], "measured": was, "verdict": _verdict(goal)}
    wanted = f"{goal['factor']:.3g} × {goal['of'] or 'the best peer'}"
    low, high = goal.get("interval") or (None, None)
    error = "" if low is None else f" ({low:.2f}–{high:.2f})"
    return {"goal": wanted, "measured": f"{was} ×{error}", "verdict": _verdict(goal)}


def _verdict(goal: Row) -> str:
    if goal["reached"] is None:
        return "nothing to compare with"
    if goal["reached"]:
        return "reached"
    within = "interval" in goal and goal["interval"][1] >= goal["factor"]
    return "missed, within the error" if within else "**missed**"


def _figures(value: float) -> str:
    """Four significant figures, without an exponent."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def _contest(each: Row) -> str:
    peers = {row["entrant"]: row["values"] for row in each["rows"] if not is_ours(row["entrant"])}
    rows = [
        {
            **row,
            "median": _figures(row["median"]),
            "range": f"{_figures(row['lowest'])}–{_figures(row['highest'])}",
            "of_best": _of_best(row["values"], peers) if peers else None,
        }
        for row in each["rows"]
    ]
    disturbed = max(float(row["others"]) for row in rows)
    repeated = sum(int(row["repeated"]) for row in rows)
    note = f"Rounds run again: {repeated}; others' share of the processors at most"
    note += f" {100 * disturbed:.0f} %."
    columns = [
        Column(column.key, column.heading.format(unit=each["unit"]), column.format)
        for column in CONTEST_COLUMNS
        if any(row.get(column.key) is not None for row in rows)
    ]
    return f"### {each['title']}\n\n{_github(columns, rows)}\n\n{note}"


def _of_best(values: Sequence[float], peers: Mapping[str, Sequence[float]]) -> float:
    return statistics.median(against_best(values, peers)[1])


def is_ours(entrant: str) -> bool:
    """Whether the course's own program is meant."""
    return entrant.startswith(("tcplab", "filesend"))


def _wire(wire: Mapping[str, Any]) -> str:
    tables = (
        (
            "Delay: round trips of ICMP echo, medians of the rounds (max: of all)",
            DELAY_COLUMNS,
            wire["delay"],
        ),
        ("Rate: a TCP transfer recorded at the server", RATE_COLUMNS, wire["rate"]),
        ("Throughput: TCP, no rate set", THROUGHPUT_COLUMNS, wire["throughput"]),
    )
    parts = ["## The wire\n\nThe same as `tcplab bench wire` prints."]
    parts += [f"### {title}\n\n{_github(columns, rows)}" for title, columns, rows in tables]
    parts += [f"Not compared with {each}." for each in wire["absent"]]
    if rows := wire["forwarders"]:
        text = "Offloads off, in turn with two that know of no link (tests/benchmarks/forward.c)"
        parts.append(f"### Throughput beside mere forwarders\n\n{text}:\n\n")
        parts[-1] += _github(FORWARDER_COLUMNS, rows)
    return "\n\n".join(parts)


def _reading(reading: Mapping[str, Any]) -> str:
    ours = reading["rows"][0]["seconds"]
    rows = []
    for row in reading["rows"]:
        part = row["packets_read"] < reading["packets"]
        scaled = f" (first {row['packets_read']:,} packets, scaled up)" if part else ""
        rows.append(
            {
                **row,
                "reader": row["reader"] + scaled,
                "range": f"{row['fastest_s']:.3f}–{row['slowest_s']:.3f}",
                "times": row["seconds"] / ours,
            }
        )
    size = f"{reading['packets']:,} packets, {reading['file_bytes'] / 1e6:.1f} MB"
    return f"## Reading a capture\n\n{size}.\n\n{_github(READING_COLUMNS, rows)}"


def _panels(panels: Mapping[str, Any]) -> str:
    text = "## The panels\n\nFrom Run to the picture on the screen of a JupyterLab: the experiment,"
    text += " and what is ours. A first run also starts the worker, unless the pointer has been"
    text += " there before."
    if panels["absent"]:
        text += f"\n\n**The page is NOT MEASURED, the way ends in the kernel: {panels['absent']}.**"
    return f"{text}\n\n{_github(PANEL_COLUMNS, panels['rows'])}"


def _grading(rows: Sequence[Row]) -> str:
    text = "## Grading\n\nThe same twelve solved submissions of problem set 5, from the command's"
    text += " start to its end. Ours run in sandboxes, each C program in a laboratory; nbgrader"
    text += " runs the notebook and nothing else. One job of ours uses more than a processor: the"
    text += " next submission is judged while nbgrader converts the one before."
    ranges = [f"{row['lowest']:.1f}–{row['highest']:.1f}" for row in rows]
    shown = [{**row, "range": range_} for row, range_ in zip(rows, ranges, strict=True)]
    return f"{text}\n\n{_github(GRADING_COLUMNS, shown)}"


def _github(columns: Sequence[Column], rows: Sequence[Row]) -> str:
    return Table(columns, rows).text("github")


# ---- the figure ----


def _draw(contests: Sequence[Row], path: Path) -> None:
    """Bars of the medians with their ranges, a panel a contest."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    columns = 2
    rows = (len(contests) + 1) // columns
    with mpl.rc_context({"svg.hashsalt": "tcplab", "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(12, 2.3 * rows), layout="constrained")
        for axes, each in zip(
            figure.subplots(rows, columns, squeeze=False).flat, contests, strict=False
        ):
            _draw_contest(axes, each)
        for axes in figure.axes[len(contests) :]:
            axes.set_visible(False)
        figure.savefig(path, metadata={"Date": None, "Title": "Benchmarks"})


def _draw_contest(axes: Any, each: Row) -> None:
    rows = each["rows"][::-1]
    medians = [row["median"] for row in rows]
    below = [row["median"] - row["lowest"] for row in rows]
    above = [row["highest"] - row["median"] for row in rows]
    colours = ["#0072B2" if is_ours(row["entrant"]) else "#B0B0B0" for row in rows]
    names = [row["entrant"] for row in rows]
    axes.barh(names, medians, xerr=[below, above], color=colours, capsize=3)
    axes.set_title(each["title"], loc="left", fontsize=9.5)
    axes.set_xlabel(each["unit"])
    axes.spines[["top", "right"]].set_visible(False)
