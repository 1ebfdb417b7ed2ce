"""Every panel in a real JupyterLab in a real browser: by keyboard, with failures, in both themes.

Needs Chromium and Playwright, and says loudly when they are missing. Locators look into output
areas only: a cell's source may well hold the very word that one waits for. What is waited for is a
state of the page, never a time. The pictures are kept in test-artifacts/browser/; look at them.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbformat
import pytest
from tests.browser.jupyter import ROOT, Jupyter

from tcplab.capture import open_capture
from tcplab.demos import DEMOS
from tcplab.widgets.instrument import INSTRUMENTS

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = [pytest.mark.timeout(600), pytest.mark.slow]

ARTEFACTS = ROOT / "test-artifacts" / "browser"
WAIT_MS = 120_000
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
AXE = "axe-core@4"
#: Run-all of every lesson takes minutes, and tests/lessons runs them all without a browser.
ALL_LESSONS = "TCPLAB_BROWSER_LESSONS"

NAMES = [name.replace("-", "_") for name in INSTRUMENTS]


@pytest.fixture(scope="module")
def chromium() -> str:
    pytest.importorskip("playwright", reason="THE BROWSER IS NOT TESTED: pip install playwright")
    found = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if found is None:
        pytest.skip("THE BROWSER IS NOT TESTED: chromium is not installed: apt install chromium")
    return found


@pytest.fixture(scope="module")
def jupyter(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jupyter]:
    del chromium  # without a browser nobody needs a server
    server = Jupyter(tmp_path_factory.mktemp("jupyter"))
    _write_notebook(server.lessons / "panels.ipynb", [f"widgets.{name}()" for name in NAMES])
    yield server
    server.close()


def _write_notebook(path: Path, lines: list[str]) -> None:
    sources = [f"from tcplab import demos, widgets\n{line}" for line in lines]
    notebook = nbformat.v4.new_notebook(cells=list(map(nbformat.v4.new_code_cell, sources)))
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook.metadata["kernelspec"] = kernel
    nbformat.write(notebook, path)


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Any]:
    # Ended with this module: while Playwright is there, no other asyncio loop can be started.
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=chromium)
        yield running
        running.close()


@pytest.fixture(scope="module")
def page(browser: Any, jupyter: Jupyter) -> Iterator[Page]:
    """The notebook with all panels, run; a projector's size."""
    context = browser.new_context(viewport={"width": 1280, "height": 720})
    context.set_default_timeout(WAIT_MS)
    page = context.new_page()
    try:
        _open_and_run(page, jupyter, "panels.ipynb")
        page.locator(".jp-OutputArea-output .tcplab-panel").nth(len(NAMES) - 1).wait_for()
        yield page
    finally:
        keep(page, "last-seen")
        context.close()


def _open_and_run(page: Page, jupyter: Jupyter, notebook: str) -> None:
    page.goto(f"{jupyter.url}doc/tree/{notebook}")
    page.locator(".jp-Notebook .jp-Cell").first.wait_for()
    page.locator("#jp-main-statusbar", has_text="| Idle").wait_for()
    # A Lab that is asked to run before it knows its kernel asks back; the answer is the default.
    question = page.locator(".jp-Dialog", has_text="Select Kernel")
    page.add_locator_handler(question, lambda: page.keyboard.press("Enter"))
    _menu(page, "Run", "Run All Cells")


def _menu(page: Page, *words: str) -> None:
    page.locator(".lm-MenuBar-itemLabel", has_text=re.compile(f"^{words[0]}$")).click()
    for word in words[1:]:
        page.locator(".lm-Menu-itemLabel", has_text=re.compile(f"^{word}$")).first.click()


def panel_of(page: Page, name: str) -> Locator:
    panel = page.locator(".jp-OutputArea-output .tcplab-panel").nth(NAMES.index(name))
    panel.scroll_into_view_if_needed()
    return panel


def button(panel: Locator, name: str) -> Locator:
    return panel.get_by_role("button", name=name, exact=True)


def wait_for_phase(panel: Locator, *phases: str) -> None:
    wanted = ", ".join(f"[data-phase={phase}]" for phase in phases)
    panel.page.locator(":is(" + wanted + ")").and_(panel).wait_for(timeout=2 * WAIT_MS)


def run(panel: Locator) -> None:
    """Presses Run by keyboard, and waits for the result."""
    before = panel.get_attribute("data-run")
    button(panel, "Run").focus()
    panel.page.keyboard.press("Enter")
    panel.page.wait_for_function(
        "([panel, before]) => panel.dataset.run !== before || panel.dataset.phase === 'failed'",
        arg=[panel.element_handle(), before],
        timeout=2 * WAIT_MS,
    )


def keep(target: Page | Locator, name: str) -> None:
    ARTEFACTS.mkdir(parents=True, exist_ok=True)
    target.screenshot(path=ARTEFACTS / f"{name}.png")


# ---- every panel ----


@pytest.mark.parametrize("name", NAMES)
def test_a_panel_is_worked_by_keyboard(page: Page, name: str) -> None:
    panel = panel_of(page, name)
    if name == "wire":
        panel.get_by_label("Lasts for (s)").fill("3")
    else:
        slider = panel.get_by_role("slider").first
        box = panel.get_by_role("spinbutton").first
        before = box.input_value()
        slider.focus()
        page.keyboard.press("ArrowRight")
        assert box.input_value() != before
        page.keyboard.press("ArrowLeft")
    if name in ("send_file", "tcp_vs_udp"):
        panel.get_by_label("Runs of each", exact=True).fill("1")
    panel.get_by_label(re.compile("^Your prediction")).fill("12")
    height = panel.locator(".frame").bounding_box()
    run(panel)
    wait_for_phase(panel, "done")
    figure = panel.locator(".frame img, .frame svg.chart, .frame .stepper")
    figure.wait_for()
    assert panel.locator(".table table tr").count() >= 2
    assert (
        panel.locator("svg.comparison text.prediction").text_content() == f"you 12 {_unit(panel)}"
    )
    assert panel.get_by_role("radio").count() == 1
    now = panel.locator(".frame").bounding_box()
    assert height is not None
    assert now is not None
    assert now["height"] == pytest.approx(height["height"], abs=1)  # nothing jumped
    keep(panel, f"panel-{name}")


def _unit(panel: Locator) -> str:
    heading = panel.locator("svg.comparison text.heading").text_content() or ""
    return heading[heading.index("(") + 1 : heading.index(")")]


def test_a_picture_has_its_words(page: Page) -> None:
    image = panel_of(page, "small_writes").locator(".frame img")
    assert "Timeline of message" in (image.get_attribute("alt") or "")


def test_a_run_can_be_repeated_as_code_and_opened_in_wireshark(page: Page, tmp_path: Path) -> None:
    panel = panel_of(page, "small_writes")
    panel.get_by_text("Copy as code").click()
    assert "small_writes.measure(" in (panel.locator(".code pre").text_content() or "")
    button(panel, "Copy").click()
    panel.get_by_role("button", name="Copied").wait_for()
    panel.get_by_text("Copy as code").click()
    with page.expect_download() as waiting:
        button(panel, "Save capture (.pcapng)").click()
    assert waiting.value.suggested_filename == "small-writes-1.pcapng"
    waiting.value.save_as(tmp_path / "run.pcapng")
    with open_capture(tmp_path / "run.pcapng") as capture:
        assert capture.segments["payload_bytes"].sum() > 300


def test_what_cannot_be_set_is_said_and_not_run(page: Page) -> None:
    panel = panel_of(page, "small_writes")
    box = panel.get_by_label("Writes a message", exact=True)
    box.fill("500")
    words = panel.locator(".bad:not(:empty)")
    assert words.text_content() == "Writes a message: “500” must be a number from 1 to 200"
    assert button(panel, "Run").is_disabled()
    box.fill("15")
    assert button(panel, "Run").is_enabled()


def test_stop_in_the_middle(page: Page) -> None:
    panel = panel_of(page, "buffers")
    panel.get_by_label("RTT (ms)").fill("200")  # five transfers of more than two seconds
    before = panel.get_attribute("data-run")
    button(panel, "Run").click()
    panel.locator(".status", has_text="Measuring").wait_for()
    button(panel, "Stop").click()
    wait_for_phase(panel, "stopped")
    assert panel.locator(".status").text_content() == "Stopped."
    assert button(panel, "Run").is_enabled()
    assert panel.get_attribute("data-run") == before
    assert panel.locator(".frame svg.chart").count() == 1


def test_a_program_that_is_killed_is_one_line_in_the_panel(page: Page) -> None:
    panel = panel_of(page, "small_writes")
    panel.get_by_label("RTT (ms)").fill("200")
    button(panel, "Run").click()
    panel.locator(".status", has_text="Measuring").wait_for()
    _kill_client()
    wait_for_phase(panel, "failed")
    words = panel.locator(".status.failed").text_content() or ""
    assert words.startswith("Failed: ")
    assert "Traceback" not in words
    assert "\n" not in words
    keep(panel, "failed")
    panel.get_by_label("RTT (ms)").fill("0")
    run(panel)
    wait_for_phase(panel, "done")


def _kill_client() -> None:
    """Kills the tcp_nodelay_client that this test session has started."""
    mark = f"TCPLAB_TEST_SESSION={os.environ['TCPLAB_TEST_SESSION']}".encode()
    end = time.monotonic() + WAIT_MS / 1000
    while time.monotonic() < end:
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                command = (entry / "cmdline").read_bytes().split(b"\0")[0]
                ours = mark in (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if ours and command.endswith(b"/tcp_nodelay_client"):
                os.kill(int(entry.name), signal.SIGKILL)
                return
        time.sleep(0.02)
    raise AssertionError("no tcp_nodelay_client to kill")


def test_the_model_is_there_before_the_measurement_and_follows_the_slider(page: Page) -> None:
    panel = panel_of(page, "buffers")
    line = panel.locator("svg.chart path.model").first
    before = line.get_attribute("d")
    panel.get_by_label("RTT (ms)").fill("80")
    page.wait_for_function(
        "([path, before]) => document.contains(path) ? path.getAttribute('d') !== before : true",
        arg=[line.element_handle(), before],
    )
    assert panel.locator("svg.chart text.knee").first.is_visible()
    assert panel.locator("svg.chart path.marker").count() >= 3


def test_the_strip_chart_goes_on_while_the_sliders_move(page: Page) -> None:
    panel = panel_of(page, "wire")
    panel.get_by_label("Lasts for (s)").fill("60")
    button(panel, "Run").click()
    canvas = panel.locator("canvas.strips")
    canvas.wait_for()
    updates = "canvas => Number(canvas.dataset.updates) >= 15"
    page.wait_for_function(updates, arg=canvas.element_handle())
    panel.get_by_label("RTT of the wire (ms)").fill("80")
    page.wait_for_function(updates.replace("15", "40"), arg=canvas.element_handle())
    keep(panel, "strip")
    button(panel, "Stop").click()
    wait_for_phase(panel, "done", "stopped")
    if panel.get_attribute("data-phase") == "done":
        assert "1 change" in (panel.locator(".choice label").last.text_content() or "")


def test_the_stepper_goes_forth_and_back(page: Page) -> None:
    panel = panel_of(page, "stepper")
    rows = panel.locator(".stepper ol").first.locator("li")
    button(panel, "Next ▶").focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    assert rows.count() == 3
    page.keyboard.press("ArrowLeft")
    assert rows.count() == 2
    assert "2 bytes leave" in (panel.locator(".why").text_content() or "")
    for _ in range(7):
        page.keyboard.press("ArrowRight")
    assert panel.locator(".stepper ol").last.locator("li.current").count() == 1
    keep(panel, "stepper")


# ---- for everybody's eyes and hands ----


def test_every_control_has_a_name(page: Page) -> None:
    nameless = page.locator(".tcplab-panel").evaluate_all(
        """panels => panels.flatMap(panel => [...panel.querySelectorAll('input, select, button')])
            .filter(one => !(one.labels?.length || one.getAttribute('aria-label')
                || one.textContent.trim()))
            .map(one => one.outerHTML)"""
    )
    assert nameless == []
    twice = page.evaluate(
        """() => { const ids = [...document.querySelectorAll('.tcplab-panel [id]')].map(x => x.id);
            return ids.filter((id, index) => ids.indexOf(id) !== index) }"""
    )
    assert twice == []


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("axe-core IS NOT RUN: npm is not installed: apt install npm")
    directory = tmp_path_factory.mktemp("axe")
    try:
        done = subprocess.run(
            [npm, "pack", "--silent", AXE],
            cwd=directory,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        why = done.stderr.strip()[-200:]
    except subprocess.TimeoutExpired:
        why = "no answer within a minute"
    packed = list(directory.glob("axe-core-*.tgz"))
    if not packed:
        pytest.skip(f"axe-core IS NOT RUN: npm cannot get it: {why}")
    with tarfile.open(packed[0]) as archive:
        script = archive.extractfile("package/axe.min.js")
        assert script is not None
        return script.read().decode()


def serious(page: Page, axe: str) -> list[str]:
    """What axe-core finds in our own markup that is serious or critical."""
    page.evaluate(axe)
    found = page.evaluate("() => axe.run('.tcplab-panel', { resultTypes: ['violations'] })")
    return [
        f"{each['id']}: {node['html'][:160]} {node['failureSummary']}"
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]


@contextmanager
def dark(page: Page) -> Iterator[None]:
    """JupyterLab's dark theme, by its menu, and back again."""
    for theme, light in (("Dark", "false"), ("Light", "true")):
        _menu(page, "Settings", "Theme", f"JupyterLab {theme}")
        page.locator(f"body[data-jp-theme-light={light}]").wait_for(state="attached")
        if theme == "Dark":
            try:
                yield
            except BaseException:
                keep(page, "last-seen-dark")
                raise


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_has_no_serious_finding(page: Page, axe: str, theme: str) -> None:
    with dark(page) if theme == "dark" else nullcontext():
        assert serious(page, axe) == []


def test_at_200_percent_everything_is_still_there(page: Page) -> None:
    """Zoom of 200 % on 1280 x 720 is a page of 640 x 360."""
    page.set_viewport_size({"width": 640, "height": 360})
    try:
        for name in ("small_writes", "stepper", "buffers"):
            panel = panel_of(page, name)
            wide = panel.evaluate("panel => panel.scrollWidth - panel.clientWidth")
            assert wide <= 1, name
            for one in panel.locator("form :is(select, input, button)").all():
                box, outer = one.bounding_box(), panel.bounding_box()
                assert box is not None
                assert outer is not None
                assert box["x"] >= outer["x"]
                assert box["x"] + box["width"] <= outer["x"] + outer["width"] + 1
        panel_of(page, "small_writes")
        keep(page, "zoom-200")
    finally:
        page.set_viewport_size({"width": 1280, "height": 720})


def test_the_dark_theme(page: Page) -> None:
    panel = panel_of(page, "buffers")
    colour = "panel => getComputedStyle(panel).backgroundColor"
    light = panel.evaluate(colour)
    with dark(page):
        page.wait_for_function(
            "([panel, light]) => getComputedStyle(panel).backgroundColor !== light",
            arg=[panel.element_handle(), light],
        )
        keep(panel, "dark-buffers")
        keep(panel_of(page, "small_writes"), "dark-small-writes")
    assert panel.evaluate(colour) == light


# ---- demos ----


def test_a_demo_from_the_question_to_the_answer(page: Page, jupyter: Jupyter) -> None:
    assert {path.stem for path in (jupyter.lessons / "demos").glob("*.ipynb")} == set(DEMOS)
    tab = page.context.new_page()
    try:
        _open_and_run(tab, jupyter, "demos/cork.ipynb")
        panel = tab.locator(".jp-OutputArea-output .tcplab-panel.demo")
        panel.wait_for()
        demo = DEMOS["cork"]
        assert panel.locator(".ask").text_content() == demo.steps[0].ask
        button(panel, "Full screen").click()
        panel.page.wait_for_function("() => document.fullscreenElement !== null")
        panel.get_by_role("button", name="2 · With a cork").click()
        assert panel.locator(".ask").text_content() == demo.steps[1].ask
        panel.get_by_label("Votes for 44 ms").fill("17")
        panel.get_by_label("Votes for 0.05 ms").fill("3")
        assert panel.locator(".vote.hit").count() == 0
        run(panel)
        wait_for_phase(panel, "done")
        panel.locator(".vote.hit").wait_for()
        assert panel.locator(".answer").text_content() == demo.steps[1].explain
        assert panel.get_by_label("Votes for 44 ms").input_value() == "17"
        keep(tab, "demo-cork")
    finally:
        tab.close()


# ---- whole lessons ----

ALL_CELLS_RAN = """() => {
    if (document.querySelector('[data-mime-type="application/vnd.jupyter.error"]')) return true;
    const cells = [...document.querySelectorAll('.jp-CodeCell')];
    const full = cells.filter(cell => cell.querySelector('.cm-content')?.textContent.trim());
    return full.every(cell => /\\[\\d+\\]/.test(cell.querySelector('.jp-InputPrompt').textContent));
}"""


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "lesson", sorted(path.name for path in (ROOT / "lessons").glob("[0-9][0-9]-*.ipynb"))
)
def test_a_whole_lesson_runs_in_the_browser(page: Page, jupyter: Jupyter, lesson: str) -> None:
    if not os.environ.get(ALL_LESSONS):
        pytest.skip(f"whole lessons are NOT RUN IN THE BROWSER: set {ALL_LESSONS}=1 (10 minutes)")
    tab = page.context.new_page()
    try:
        _open_and_run(tab, jupyter, lesson)
        tab.wait_for_function(ALL_CELLS_RAN, timeout=400_000)
        error = tab.locator('[data-mime-type="application/vnd.jupyter.error"]')
        assert error.count() == 0, error.first.text_content()
        keep(tab, f"lesson-{lesson[:2]}")
    finally:
        tab.close()
