"""Store the results in docs/benchmarks.json, and make benchmarks.md and its figure from them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.goals import Goal

from tcplab.tables import Column, Table

Row = Mapping[str, Any]

GOAL_COLUMNS = (
    Column("what", "what"),
    Column("entrant", "ours"),
    Column("wanted", "goal"),
    Column("measured", "measured", "s"),
    Column("verdict", ""),
)


HEAD = """# Benchmarks

`make bench` generates this page from `benchmarks.json`, which holds the last result of each part.
The numbers hold for one machine, but the ratios carry over. A ratio compares an entrant with the
best of its peers, and is the median of all rounds. The range in brackets contains that median with
95 % confidence."""


@dataclass(frozen=True, slots=True)
class Part:
    """A section of the page.

    Attributes:
        title: heading of the section.
        text: description in Markdown.
        tables: tables whose captions are headings. Rows with a "unit" are drawn, and rows with
            "others" (the share of the processors that other work took) show how busy the machine
            was.
        goals: rows for the table of all goals.
    """

    title: str
    text: str
    tables: Sequence[Table]
    goals: Sequence[Goal]


def keep(name: str, origin: Row, part: Part, directory: Path) -> None:
    """Store the result of a part in benchmarks.json, and make the page from all stored parts.

    Args:
        name: the part's name; its former result is replaced.
        origin: the circumstances of the measurement.
        part: the result.
        directory: the folder that holds benchmarks.json, usually docs/.
    """
    (directory / "images").mkdir(parents=True, exist_ok=True)
    path = directory / "benchmarks.json"
    parts = json.loads(path.read_text())["parts"] if path.exists() else {}
    parts[name] = {"provenance": origin, **asdict(part)}
    path.write_text(json.dumps({"parts": parts}, indent=1) + "\n")
    stored = [(kept.pop("provenance"), _part(**kept)) for kept in parts.values()]
    (directory / "benchmarks.md").write_text(markdown(stored))
    tables = [table for _, part in stored for table in part.tables]
    if drawn := [table for table in tables if table.rows[0].get("unit")]:
        _draw(drawn, directory / "images" / "benchmarks.svg")


def _part(title: str, text: str, tables: Sequence[Row], goals: Sequence[Row]) -> Part:
    """Return a part from its plain data."""
    made = [
        Table(**{**table, "columns": [Column(**column) for column in table["columns"]]})
        for table in tables
    ]
    return Part(title, text, made, [Goal(**goal) for goal in goals])


def markdown(parts: Sequence[tuple[Row, Part]]) -> str:
    """Return the whole page in Markdown, from each part and its provenance."""
    goals = [goal for _, part in parts for goal in part.goals]
    rows = [
        {**asdict(goal), "measured": goal.measured(), "verdict": goal.verdict()} for goal in goals
    ]
    texts = [HEAD, "## Goals", Table(GOAL_COLUMNS, rows).text("github")]
    for origin, part in parts:
        texts += [f"## {part.title}", _circumstances(origin, part), part.text]
        for table in part.tables:
            texts += [f"### {table.caption}"] if table.caption else []
            texts.append(table.text("github"))
    return "\n\n".join(texts) + "\n"


def _circumstances(origin: Row, part: Part) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in origin["versions"].items())
    machine = f"Linux {origin['kernel']}, {origin['cpu']}, {origin['cores']} processors"
    rounds = f"{origin['rounds']} rounds of {origin['seconds']} s, in which the entrants take turns"
    again = f"up to {origin['repeats']} times. This took {origin['took_s'] / 60:.1f} minutes"
    threshold = f"more than {origin['disturbed_percent']:.0f} % of the CPU time"
    lines = [
        f"- measured {origin['measured_at']} at commit {origin['commit']}",
        f"- {machine}, load average {origin['load_average']}",
        f"- the course's programs compiled by {origin['compiler']}",
        f"- compared with {versions or 'no other tools'}",
        f"- {rounds}. A round in which other processes used {threshold} was repeated {again}",
        *(f"- {name} is not installed, so it was not compared" for name in origin["absent"]),
        *_busy(origin, part),
    ]
    return "\n".join(lines)


def _busy(origin: Row, part: Part) -> list[str]:
    """Return lines that warn of the rows that other processes disturbed, if there are any."""
    shares = [row["others"] for table in part.tables for row in table.rows if "others" in row]
    disturbed = [share for share in shares if share > origin["disturbed_percent"] / 100]
    if not disturbed:
        return []
    most = f"others took up to {100 * max(disturbed):.0f} % of the processors"
    count = f"{len(disturbed)} of {len(shares)} rows"
    return ["", f"**The machine was busy: {most} in {count}. Do not rely on those numbers.**"]


# ---- the figure ----


def _draw(contests: Sequence[Table], path: Path) -> None:
    """Draw bars of the medians with their ranges, one panel per contest."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    columns = 2
    rows = (len(contests) + 1) // columns
    with mpl.rc_context({"svg.hashsalt": "tcplab", "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(12, 2.3 * rows), layout="constrained")
        panels = figure.subplots(rows, columns, squeeze=False).flat
        for axes, contest in zip(panels, contests, strict=False):
            _draw_contest(axes, contest)
        for axes in figure.axes[len(contests) :]:
            axes.set_visible(False)
        figure.savefig(path, metadata={"Date": None, "Title": "Benchmarks"})


def _draw_contest(axes: Any, contest: Table) -> None:
    rows = contest.rows[::-1]
    medians = [row["median"] for row in rows]
    below = [row["median"] - row["lowest"] for row in rows]
    above = [row["highest"] - row["median"] for row in rows]
    colours = ["#0072B2" if row["ours"] else "#B0B0B0" for row in rows]
    names = [row["entrant"] for row in rows]
    axes.barh(names, medians, xerr=[below, above], color=colours, capsize=3)
    axes.set_title(contest.caption, loc="left", fontsize=9.5)
    axes.set_xlabel(rows[0]["unit"])
    axes.spines[["top", "right"]].set_visible(False)
