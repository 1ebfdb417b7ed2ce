"""Test every panel in JupyterLab, and every demo in Voilà, in a real browser.

The tests need Chromium and Playwright, and are skipped with a reason if either is missing. Locators
look only into output areas, because a cell's source may contain the very word that a test waits
for. Tests wait for a state of the page, never for a time. The pictures are kept in
test-artifacts/browser/; look at them.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbformat
import pytest
from tests.support.browser.axe import findings
from tests.support.browser.jupyter import (
    WAIT_MS,
    Jupyter,
    Voila,
    choose,
    keep,
    run_notebook,
    tab_of,
    write_notebook,
)
from tests.support.lessons import ALL, cells, glossary_links
from tests.support.nonempty import each
from tests.support.paths import ROOT

from tcplab import demos
from tcplab.capture import open_capture
from tcplab.demos import Demo
from tcplab.demos.view import GOES_ON_S
from tcplab.widgets.spec import PANELS

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Locator, Page

pytestmark = [pytest.mark.timeout(600)]

#: The pause between two checks of the page; by default Playwright checks at each frame.
LOOK_MS = 100
NAMES = [name.replace("-", "_") for name in PANELS]
DEMO_NAMES = [demo.name for demo in demos.every()]

LESSONS = sorted(path.name for path in (ROOT / "lessons").glob("*.ipynb"))

IS_IN_VIEW = """box => {
    const { top, bottom } = box.getBoundingClientRect();
    return top >= 0 && bottom <= innerHeight;
}"""

#: Settings for each panel whose default run takes too long for a test.
QUICK = {"sendfile": "runs=1", "tcp_vs_udp": "runs=1", "queues": "seconds=3", "wire": "seconds=3"}


@pytest.fixture(scope="module")
def jupyter(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jupyter]:
    del chromium  # without a browser no server is needed
    server = Jupyter(tmp_path_factory.mktemp("jupyter"))
    cells = [*(f"widgets.{name}({QUICK.get(name, '')})" for name in NAMES), 'demos.show("cork")']
    write_notebook(server.lessons / "panels.ipynb", cells)
    yield server
    server.close()


@pytest.fixture(scope="module")
def context(browser: Any) -> Iterator[BrowserContext]:
    """Open windows of a projector's size."""
    context = browser.new_context(viewport={"width": 1280, "height": 720})
    yield context
    context.close()


@pytest.fixture(scope="module")
def page(context: BrowserContext, jupyter: Jupyter) -> Iterator[Page]:
    """Open the notebook with all panels and a demo, and run it."""
    with tab_of(context, "panels") as page:
        run_notebook(page, jupyter, "panels.ipynb")
        page.locator(".jp-OutputArea-output .tcplab-panel").nth(len(NAMES)).wait_for()
        yield page


@contextmanager
def opened(context: BrowserContext, jupyter: Jupyter, notebook: str) -> Iterator[Page]:
    """Open a tab with a notebook and run it; end its kernel when the tab closes."""
    try:
        with tab_of(context, Path(notebook).stem) as tab:
            run_notebook(tab, jupyter, notebook)
            yield tab
    finally:
        jupyter.end_kernel(notebook)


def panel_of(page: Page, name: str) -> Locator:
    panel = page.locator(".jp-OutputArea-output .tcplab-panel").nth(NAMES.index(name))
    panel.scroll_into_view_if_needed()
    return panel


def button(panel: Locator, name: str) -> Locator:
    return panel.get_by_role("button", name=name, exact=True)


def press(panel: Locator, name: str) -> None:
    button(panel, name).focus()
    panel.page.keyboard.press("Enter")


#: The page records the phases of a run, because a run may end between two checks of the test.
WATCH = """panel => {
    panel.watcher?.disconnect();
    panel.phases = [];
    panel.watcher = new MutationObserver(() => panel.phases.push(panel.dataset.phase));
    panel.watcher.observe(panel, { attributeFilter: ['data-phase'] });
}"""
HAS_ENDED = """panel => panel.phases.includes('running')
    && !['running', 'stopping'].includes(panel.dataset.phase)"""


def start(panel: Locator) -> None:
    """Press Run, and record the phases of the run from its start."""
    panel.evaluate(WATCH)
    press(panel, "Run")


def end_of(panel: Locator) -> str:
    """Wait for the end of the run that `start` began; return its phase."""
    handle = panel.element_handle()
    panel.page.wait_for_function(HAS_ENDED, arg=handle, timeout=2 * WAIT_MS, polling=LOOK_MS)
    return panel.get_attribute("data-phase") or ""


def run(panel: Locator) -> None:
    start(panel)
    assert end_of(panel) == "done", panel.locator(".tcplab-status").text_content()


def put(panel: Locator, label: str, value: str) -> None:
    field = panel.get_by_label(label, exact=True)
    field.fill(value)
    field.press("Tab")


def wait_for(target: Locator, condition: str) -> None:
    """Wait until the JavaScript function `condition` returns true for an element."""
    target.page.wait_for_function(condition, arg=target.element_handle())


def move_by_arrows(slider: Locator, box: Locator) -> None:
    """Move a slider one step and back, and wait until the box next to it follows each time."""
    slider.focus()
    for key in ("ArrowRight", "ArrowLeft"):
        before = box.input_value()
        slider.page.keyboard.press(key)
        wait_for(box, f"box => box.value !== '{before}'")


# ---- every panel ----


@pytest.mark.parametrize("name", NAMES)
def test_panel_works_by_keyboard(page: Page, name: str) -> None:
    panel = panel_of(page, name)
    slider = panel.get_by_role("slider").first
    box = panel.get_by_role("spinbutton").first
    move_by_arrows(slider, box)
    empty = panel.locator(".tcplab-frame", has_text="The figure appears here").bounding_box()
    panel.get_by_label(re.compile("^Your prediction")).fill("12")
    height = panel.locator(".tcplab-frame").bounding_box()
    run(panel)
    panel.locator(".tcplab-frame").locator("tcplab-figure").first.wait_for()
    assert panel.locator(".tcplab-table :is(pre, tbody tr)").count() >= 1
    predicted = panel.locator(".tcplab-bars tr", has_text="your prediction").locator("td").first
    assert (predicted.text_content() or "").startswith("12 ")
    now = panel.locator(".tcplab-frame").bounding_box()
    assert empty is not None
    assert height is not None
    assert now is not None
    assert empty["height"] < 100
    assert now["height"] >= height["height"] - 1  # it grows only with a tall figure
    is_whole = "frame => frame.scrollHeight <= frame.clientHeight + 1"
    assert panel.locator(".tcplab-frame").evaluate(is_whole)
    keep(panel, f"panel-{name}")


def _see_updates(panel: Locator, number: int) -> None:
    """Wait until the strips of the run that `start` began have been drawn `number` more times."""
    for _ in range(number):
        panel.page.wait_for_function(
            """([panel, before]) =>
                panel.querySelector(".tcplab-frame figcaption").textContent !== before""",
            arg=[panel.element_handle(), panel.locator(".tcplab-frame figcaption").text_content()],
            polling=LOOK_MS,
        )


def test_run_can_be_saved_as_code_capture_and_picture(page: Page, tmp_path: Path) -> None:
    panel = panel_of(page, "small_writes")
    run(panel)
    alt = panel.locator(".tcplab-frame img").first.get_attribute("alt") or ""
    assert "The numbers are in the table" in alt
    panel.get_by_text("Copy as code").click()
    assert "small_writes.measure(" in (panel.locator(".tcplab-origin pre").text_content() or "")
    button(panel, "Copy").click()
    panel.get_by_role("button", name="Copied").wait_for()
    panel.get_by_text("Copy as code").click()
    with page.expect_download() as waiting:
        button(panel, "Save capture (.pcapng)").click()
    number = panel.get_attribute("data-run")
    assert waiting.value.suggested_filename == f"small-writes-{number}.pcapng"
    waiting.value.save_as(tmp_path / "run.pcapng")
    assert open_capture(tmp_path / "run.pcapng").segments["payload_bytes"].sum() > 300
    with page.expect_download() as waiting:
        button(panel, "Save picture (.png)").click()
    assert waiting.value.suggested_filename == f"small-writes-{number}.png"


@pytest.mark.parametrize("width", [240, 360, 500, 700, 900, 1280])
def test_figure_and_buttons_fit_a_cell_of_any_width(page: Page, width: int) -> None:
    panel = panel_of(page, "small_writes")
    if panel.get_attribute("data-run") == "0":
        run(panel)
    panel.evaluate("(panel, width) => (panel.parentElement.style.width = `${width}px`)", width)
    cut = """panel => {
        const outer = panel.querySelector(".tcplab-frame").getBoundingClientRect();
        const figures = [...panel.querySelectorAll("tcplab-figure")];
        const roots = figures.map((figure) => figure.shadowRoot);
        const parts = roots.flatMap((root) => [...root.querySelectorAll(".below *")]);
        return parts.length < 8 ? ["too few"] : parts.filter((part) => {
            const box = part.getBoundingClientRect();
            const fits = part.scrollWidth <= part.clientWidth + 1;
            return !fits || box.left < outer.left || box.right > outer.right
                || box.top < outer.top || box.bottom > outer.bottom;
        }).map((part) => part.outerHTML);
    }"""
    assert panel.evaluate(cut) == []
    panel.evaluate("panel => (panel.parentElement.style.width = '')")


def test_panel_from_an_earlier_session_points_to_its_cell(
    context: BrowserContext, jupyter: Jupyter
) -> None:
    write_notebook(jupyter.lessons / "earlier.ipynb", ["widgets.cork()"])
    notice = "This panel belongs to an earlier session. To use it, click the cell above"
    with opened(context, jupyter, "earlier.ipynb") as tab:
        tab.locator(".tcplab-panel[data-phase=ready]").wait_for()
        assert not tab.get_by_text(notice).is_visible()
        choose(tab, "File", "Save Notebook")
        tab.locator(".jp-mod-dirty").wait_for(state="detached")
        jupyter.end_kernel("earlier.ipynb")
        tab.goto(f"{jupyter.url}doc/tree/earlier.ipynb")
        tab.get_by_text(notice).wait_for()
        keep(tab, "earlier-session")


def test_strips_continue_while_sliders_move(page: Page) -> None:
    panel = panel_of(page, "wire")
    put(panel, "Lasts for (s)", "60")
    start(panel)
    _see_updates(panel, 2)
    put(panel, "RTT of the link (ms)", "80")
    _see_updates(panel, 3)
    keep(panel, "strip")
    press(panel, "Stop")
    assert end_of(panel) == "done", panel.locator(".tcplab-status").text_content()
    assert panel.locator(".tcplab-table tbody tr").count() == 2  # one row is from before the change


@pytest.mark.parametrize("end", ["restart", "kill"])
def test_panel_reports_a_lost_kernel(context: BrowserContext, jupyter: Jupyter, end: str) -> None:
    write_notebook(
        jupyter.lessons / "gone.ipynb",
        ["widgets.small_writes(rtt_ms=200)", "import os; os.getpid()"],
    )
    with opened(context, jupyter, "gone.ipynb") as tab:
        panel = tab.locator(".jp-OutputArea-output .tcplab-panel")
        start(panel)
        panel.get_by_text("Measuring …").wait_for()
        if end == "kill":
            output = tab.locator(".jp-OutputArea-output pre", has_text=re.compile(r"^\d+$"))
            os.kill(int(output.text_content() or ""), signal.SIGKILL)
        else:
            choose(tab, "Kernel", "Restart Kernel…")
            tab.locator(".jp-Dialog button.jp-mod-accept").click()
        wait_for(panel, "panel => panel.dataset.phase === 'lost'")
        assert "un the cell above again" in (panel.locator(".tcplab-lost").text_content() or "")
        wait_for(panel, "panel => panel.querySelectorAll('.tcplab-actions :disabled').length === 2")
        keep(tab, f"kernel-{end}")
        # Wait for the new kernel, so that the server can end it.
        tab.locator("#jp-main-statusbar", has_text="| Idle").wait_for()


# ---- accessibility ----


@contextmanager
def dark(page: Page) -> Iterator[None]:
    """Switch to JupyterLab's dark theme in its menu, and back again."""
    for theme, light in (("Dark", "false"), ("Light", "true")):
        choose(page, "Settings", "Theme", f"JupyterLab {theme}")
        page.locator(f"body[data-jp-theme-light={light}]").wait_for(state="attached")
        if theme == "Dark":
            yield


def test_axe_finds_no_violations_in_the_panels(page: Page, axe: str) -> None:
    assert findings(page, axe, ".tcplab-panel") == []
    ids = page.evaluate(
        "[...document.querySelectorAll('.tcplab-panel[id], .tcplab-panel [id]')].map(it => it.id)"
    )
    assert len({*ids}) == len(ids)


@pytest.mark.parametrize("zoom", [1, 2])
def test_panels_fit_1280_by_720_at_100_and_200_percent(page: Page, zoom: int) -> None:
    """A 200 % zoom on 1280 x 720 gives a page of 640 x 360."""
    page.set_viewport_size({"width": 1280 // zoom, "height": 720 // zoom})
    try:
        for panel in each(page.locator(".jp-OutputArea-output .tcplab-panel").all()):
            panel.scroll_into_view_if_needed()
            beyond = panel.evaluate(
                """panel => {
                    const outer = panel.getBoundingClientRect();
                    if (panel.scrollWidth > panel.clientWidth + 1) return ['the panel itself'];
                    const parts = 'select, input, button, summary, .tcplab-frame, .tcplab-ask';
                    return [...panel.querySelectorAll(parts)].filter(one => {
                        const box = one.getBoundingClientRect();
                        const out = box.left < outer.left || box.right > outer.right + 1;
                        return one.checkVisibility() && (out || !box.width);
                    }).map(one => one.outerHTML.slice(0, 200));
                }"""
            )
            assert beyond == []
        panel_of(page, "small_writes")
        keep(page, f"zoom-{100 * zoom}")
    finally:
        page.set_viewport_size({"width": 1280, "height": 720})


def test_panels_follow_the_dark_theme(page: Page, axe: str) -> None:
    colour = "panel => getComputedStyle(panel).backgroundColor"
    panels = {name: panel_of(page, name) for name in NAMES}
    light = {name: panel.evaluate(colour) for name, panel in panels.items()}
    with dark(page):
        for name, panel in panels.items():
            page.wait_for_function(
                "([panel, light]) => getComputedStyle(panel).backgroundColor !== light",
                arg=[panel.element_handle(), light[name]],
            )
        assert findings(page, axe, ".tcplab-panel") == []
        for name in ("small_writes", "wire"):
            keep(panels[name], f"dark-{name}")
    assert {name: panel.evaluate(colour) for name, panel in panels.items()} == light


# ---- demos ----


@pytest.fixture(scope="module")
def voila(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Voila]:
    del chromium
    server = Voila(tmp_path_factory.mktemp("voila"))
    yield server
    server.close()


@pytest.mark.parametrize(
    ("name", "theme"), [*((name, "light") for name in DEMO_NAMES), ("cork", "dark")]
)
def test_demo_fits_at_each_step_and_is_accessible(
    context: BrowserContext, voila: Voila, axe: str, name: str, theme: str
) -> None:
    demo = demos.find(name)
    voted = next(number for number, step in enumerate(demo.steps) if step.options)
    (voila.pages / f"{name}.state").unlink(missing_ok=True)
    with tab_of(context, name) as tab:
        tab.goto(f"{voila.url}{name}.ipynb?theme={theme}")
        panel = tab.locator(".tcplab-panel.tcplab-demo")
        panel.locator(".tcplab-frame").wait_for()
        assert panel.locator(".tcplab-ask").text_content() == demo.steps[0].ask
        is_light = tab.locator("body").get_attribute("data-jp-theme-light")
        assert is_light == {"light": "true", "dark": "false"}[theme]
        for number in range(len(demo.steps)):
            _choose_step(panel, demo, number)
            if number == voted:
                _run_step(panel, demo, number)
                keep(tab, f"demo-{name}-{theme}")
        assert findings(tab, axe, ".tcplab-panel") == []
        tab.reload()  # the page continues with its step
        panel.locator(".tcplab-ask", has_text=demo.steps[-1].ask).wait_for()
        _choose_step(panel, demo, voted)  # its votes and its answer are shown again
        assert panel.locator(".tcplab-answer").text_content() != ""
        assert findings(tab, axe, ".tcplab-panel") == []


#: Find elements that cross a projector's edge, and text too small for the last row.
BEYOND = (Path(__file__).parent / "beyond.js").read_text()


def assert_fits(panel: Locator) -> None:
    """Assert that nothing crosses the edge and all text is legible, at 720 to 2160 lines."""
    for width, height in ((1920, 1080), (3840, 2160), (1024, 768), (1280, 720)):
        panel.page.set_viewport_size({"width": width, "height": height})
        scaled = f"panel => Math.round(panel.style.getPropertyValue('--scale') * 720) === {height}"
        wait_for(panel, scaled)
        assert panel.page.evaluate(BEYOND) == [], (width, height)


def _choose_step(panel: Locator, demo: Demo, number: int) -> None:
    step = demo.steps[number]
    panel.get_by_role("radio", name=f"{number + 1} · {step.title}", exact=True).check()
    panel.locator(".tcplab-ask", has_text=step.ask).wait_for()
    wait_for(
        panel, f"panel => panel.querySelectorAll('.tcplab-vote').length === {len(step.options)}"
    )
    assert_fits(panel)


def _run_step(panel: Locator, demo: Demo, number: int) -> None:
    """Enter the votes, run the step, and check the answer, which is hidden until then."""
    step = demo.steps[number]
    for votes, option in zip((17, 3, 5, 0, 1), step.options, strict=False):
        panel.get_by_label(f"Votes for {option.label}", exact=True).fill(str(votes))
    assert panel.locator(".tcplab-vote.tcplab-hit").count() == 0
    assert panel.locator(".tcplab-answer").text_content() == ""
    if step.settings.get("seconds", 0) >= GOES_ON_S:
        start(panel)
        _see_updates(panel, 2)
        press(panel, "Stop")
        assert end_of(panel) == "done", panel.locator(".tcplab-status").text_content()
    else:
        run(panel)
    assert panel.locator(".tcplab-answer p").text_content() == step.explain
    assert panel.locator(".tcplab-vote.tcplab-hit").count() <= bool(step.options)
    assert_fits(panel)
    panel.locator(".tcplab-answer p").wait_for(state="hidden")
    panel.page.keyboard.press("w")
    panel.locator(".tcplab-answer p").wait_for(state="visible")
    assert_fits(panel)
    if number + 1 < len(demo.steps):
        panel.page.keyboard.press("PageDown")
        panel.locator(".tcplab-ask", has_text=demo.steps[number + 1].ask).wait_for()


# ---- whole lessons ----

ALL_CELLS_RAN = """() => {
    if (document.querySelector('[data-mime-type="application/vnd.jupyter.error"]')) return true;
    const cells = [...document.querySelectorAll('.jp-CodeCell')];
    const full = cells.filter(cell => cell.querySelector('.cm-content')?.textContent.trim());
    return full.every(cell => /\\[\\d+\\]/.test(cell.querySelector('.jp-InputPrompt').textContent));
}"""


@pytest.fixture(scope="module")
def shown(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jupyter]:
    """Start a JupyterLab whose lessons show their recordings and ask no questions."""
    del chromium
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TCPLAB_MODE", "recorded")
        patch.setenv("TCPLAB_PREDICT", "skip")
        server = Jupyter(tmp_path_factory.mktemp("recorded"))
    yield server
    server.close()


#: The course's own parts of a notebook's page.
OURS = (".jp-RenderedMarkdown", ".jp-OutputArea-output")


@pytest.mark.parametrize("lesson", LESSONS)
def test_whole_lesson_is_accessible(
    context: BrowserContext, shown: Jupyter, axe: str, lesson: str
) -> None:
    with opened(context, shown, lesson) as tab:
        tab.wait_for_function(ALL_CELLS_RAN, timeout=400_000, polling=LOOK_MS)
        error = tab.locator('[data-mime-type="application/vnd.jupyter.error"]')
        assert error.count() == 0, error.first.text_content()
        assert ours(findings(tab, axe, *OURS)) == []
        with dark(tab):
            assert ours(findings(tab, axe, *OURS)) == []


def ours(violations: list[str]) -> list[str]:
    """Return the findings except those on PNG output, to which JupyterLab gives no alt text.

    A lesson's own matplotlib code makes this output, and prints the same counts as text.
    """
    return [violation for violation in violations if "data:image/png" not in violation]


# ---- the glossary ----


def test_every_glossary_link_reaches_its_term(context: BrowserContext, shown: Jupyter) -> None:
    shutil.copytree(ROOT / "docs", shown.lessons / "docs")
    texts = [text for path in ALL for text in cells(path, "markdown")]
    terms = sorted({term for text in texts for term in glossary_links(text)})
    links = [f"- [{term}](<docs/glossary.md#{term}>)" for term in terms]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("\n".join(links))])
    nbformat.write(notebook, shown.lessons / "links.ipynb")
    with tab_of(context, "links") as tab:
        tab.goto(f"{shown.url}lab/tree/links.ipynb")
        # Neighbours are in view together, so the next link leads far from the last one.
        for term in each(sorted(terms, key=lambda term: terms.index(term) % (len(terms) // 3))):
            name = re.escape(term)
            link = tab.locator(".jp-Notebook a", has_text=re.compile(f"^{name}$"))
            link.dispatch_event("click")  # the glossary may be in front of it
            title = re.compile(f"^{name}¶?$".replace(r"\-", "[- ]"))
            wait_for(tab.locator(".jp-MarkdownViewer h2", has_text=title), IS_IN_VIEW)
