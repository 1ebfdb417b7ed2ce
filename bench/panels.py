"""A learner's waiting times: from the click to the picture, for the import, for the first figure.

The time from Run to the picture on the screen is split into the experiment, which takes what it
takes, and ours: the worker's answer, the drawing, and the way through JupyterLab's server into the
page, which takes the time itself. Where Chromium or Playwright is missing the way ends in the
kernel, and the document says so. A panel's first run also starts its worker, which imports; in the
browser that has begun when the pointer reaches the panel, so it is shown apart.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import nbformat
from bench.goals import at_most
from bench.report import Part
from bench.rounds import Others, Rules, say
from tests.support.browser.jupyter import Jupyter, find_chromium, run_notebook, write_notebook
from tools import notebooks

from tcplab import widgets
from tcplab.tables import Column, Table

LESSONS: Final = Path(__file__).resolve().parents[1] / "lessons"
LESSON: Final = LESSONS / "05-small-writes.ipynb"
#: One of each kind of figure: drawn by matplotlib, by the page, and as lists.
PANELS: Final[Mapping[str, Mapping[str, Any]]] = {
    "small_writes": {},
    "cork": {},
    "sendfile": {"part": "header"},
    "stepper": {},
    "buffers": {"sweep": "one"},
}
WAIT_MS: Final = 120_000
COLUMNS: Final = (
    Column("which", ""),
    Column("ours", "ours (ms), median", ".0f"),
    Column("range", "lowest–highest"),
    Column("drawing", "of it drawing (ms)", ".0f"),
    Column("experiment", "experiment (ms)", ".0f"),
    Column("first", "first run, all of it (ms)", ".0f"),
)

Seconds = Mapping[str, float]
Press = Callable[[str], Seconds]

#: The page measures from the click until the end of the run has been painted, with its picture.
PRESS_RUN = """panel => new Promise((resolve, reject) => {
    const start = performance.now(), before = panel.dataset.run;
    const ended = async () => {
        await Promise.all([...panel.querySelectorAll('.tcplab-frame img')].map(it => it.decode()));
        requestAnimationFrame(() => setTimeout(() => {
            const parts = JSON.parse(panel.querySelector('[data-seconds]').dataset.seconds);
            resolve({ ...parts, wait: (performance.now() - start) / 1000 });
        }));
    };
    new MutationObserver((_, observer) => {
        if (panel.dataset.phase === 'failed') reject(panel.innerText);
        else if (panel.dataset.phase === 'done' && panel.dataset.run !== before) ended();
        else return;
        observer.disconnect();
    }).observe(panel, { attributes: true });
    panel.querySelector('.tcplab-actions button').click();
})"""


def measure(rules: Rules) -> Part:
    """The panels; then the import and a lesson's first figure.

    Raises:
        LabError: an experiment failed.
    """
    absent = why_no_browser()
    if absent:
        say(f"the way to the page is NOT MEASURED: {absent}")
    with _in_kernel() if absent else _in_browser() as press:
        rows = [_panel(name, press, rules.rounds) for name in PANELS]
    rows.append({"which": "import tcplab", "ours": statistics.median(_imports(rules.rounds))})
    first_ms = statistics.median(_first_figure() for _ in range(min(3, rules.rounds)))
    rows.append({"which": f"lesson {LESSON.stem[:2]}, start to first figure", "ours": first_ms})
    for row in rows:
        say(f"{row['which']}: {row['ours']:.0f} ms", row.get("others"))
    return part(rows, absent)


def part(rows: list[dict[str, Any]], absent: str | None) -> Part:
    """The section of the document.

    Args:
        rows: one per panel, in ms; then the import and the first figure.
        absent: why no browser was there.
    """
    text = "From Run to the picture on the screen of a JupyterLab: the experiment, and what is"
    text += " ours. A first run also starts the worker, unless the pointer has been there before."
    if absent:
        text += f"\n\n**The page is NOT MEASURED, the way ends in the kernel: {absent}.**"
    panels_ms = [row["ours"] for row in rows if row["which"].startswith("panel")]
    (import_ms,) = [row["ours"] for row in rows if row["which"] == "import tcplab"]
    end = "picture in the kernel" if absent else "picture on the screen"
    name = f"click to {end}, our part, median, ms"
    goals = [
        at_most("panels", name, 250, statistics.median(panels_ms)),
        at_most("panels", "import tcplab, ms", 100, import_ms),
    ]
    return Part("The panels", text, [Table(COLUMNS, rows)], goals)


def why_no_browser() -> str | None:
    """The package that a browser needs and that is missing, or None."""
    try:
        import playwright.sync_api  # noqa: F401
    except ImportError:
        return "playwright is not installed: pip install playwright"
    if find_chromium() is None:
        return "chromium is not installed: apt install chromium"
    return None


def _panel(name: str, press: Press, rounds: int) -> dict[str, Any]:
    first = press(name)  # starts the worker
    with Others() as others:
        seconds = [press(name) for _ in range(rounds)]
    ours = [1e3 * (each["wait"] - each["experiment"]) for each in seconds]
    drawing, experiment = (
        1e3 * statistics.median(each[part] for each in seconds)
        for part in ("drawing", "experiment")
    )
    return {
        "which": f"panel {name.replace('_', ' ')}",
        "ours": statistics.median(ours),
        "range": f"{min(ours):.0f}–{max(ours):.0f}",
        "drawing": drawing,
        "experiment": experiment,
        "first": 1e3 * first["wait"],
        "others": others.share,
    }


@contextmanager
def _in_browser() -> Iterator[Press]:
    """Presses Run in a real JupyterLab; the page says when the picture was there."""
    from playwright.sync_api import sync_playwright

    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="tcplab-"))
        jupyter = stack.enter_context(contextlib.closing(Jupyter(Path(directory))))
        lines = [f"widgets.{name}(**{dict(values)!r})" for name, values in PANELS.items()]
        write_notebook(jupyter.lessons / "panels.ipynb", lines)
        playwright = stack.enter_context(sync_playwright())
        browser = playwright.chromium.launch(executable_path=find_chromium())
        stack.callback(browser.close)
        page = browser.new_page(viewport={"width": 1280, "height": 720})
        page.set_default_timeout(WAIT_MS)
        run_notebook(page, jupyter, "panels.ipynb")
        panels = page.locator(".jp-OutputArea-output .tcplab-panel")
        panels.nth(len(PANELS) - 1).wait_for()

        def press(name: str) -> Seconds:
            panel = panels.nth(list(PANELS).index(name))
            panel.scroll_into_view_if_needed()
            seconds: Seconds = panel.evaluate(PRESS_RUN)
            return seconds

        yield press


@contextmanager
def _in_kernel() -> Iterator[Press]:
    """Does what the button does; the way ends where the kernel has the picture."""
    panels = {name: getattr(widgets, name)(**values) for name, values in PANELS.items()}

    def press(name: str) -> Seconds:
        seconds = panels[name].start().wait().runs[-1]["seconds"]
        return {**seconds, "wait": seconds["picture"]}

    try:
        for panel in panels.values():
            panel._repr_mimebundle_()  # its view is there, as in a browser
        yield press
    finally:
        for panel in panels.values():
            panel.close()


def _imports(rounds: int) -> list[float]:
    """ms of `import tcplab`, each in a new process; it must not bring scapy with it."""
    code = (
        "import sys, time; t = time.perf_counter(); import tcplab;"
        "t = time.perf_counter() - t; assert 'scapy' not in sys.modules; print(t)"
    )
    argv = [sys.executable, "-c", code]
    ran = [subprocess.run(argv, capture_output=True, check=True) for _ in range(rounds)]
    return [1e3 * float(each.stdout) for each in ran]


def _first_figure() -> float:
    """ms from the start of the kernel to the first output with an image."""
    notebook = nbformat.read(LESSON, as_version=4)
    with tempfile.TemporaryDirectory(prefix="tcplab-") as directory:
        client = notebooks.client(notebook, Path(directory))
        start = time.perf_counter()
        with client.setup_kernel(env={**os.environ, "TCPLAB_SKIP_PREDICTIONS": "1"}):
            for number, cell in enumerate(notebook.cells):
                if cell.cell_type == "code":
                    client.execute_cell(cell, number)
                    shown = json.dumps(cell.outputs)
                    if "<img" in shown or "image/png" in shown:
                        return 1e3 * (time.perf_counter() - start)
    raise ValueError(f"{LESSON.name} shows no figure")
