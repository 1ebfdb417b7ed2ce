"""Test the box "Run it here": a Linux in the page sends the same segments as the laboratory."""

import base64
import random
import re
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import nbformat
import pytest
from bench.web import BUILT, Memory, first_result_s, opened, served
from tests.support.browser.axe import fetch, findings
from tests.support.commands import completed
from tests.support.paths import ROOT

from tcplab.experiments import small_writes
from tcplab.programs.messages import SmallWritesMode

# The guest is built first, and runs two programs per lesson, which takes minutes.
pytestmark = pytest.mark.timeout(1800)

SHOWN = ".run-it-here .facts, .run-it-here [role=status]:has-text('did not work')"


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    """Build the box and serve its pages; yield their address."""
    done = completed([sys.executable, ROOT / "web/build"])
    if re.match("web: (.*apt-helper|npm):|web: .*(is not installed|no mirror)", done.stderr):
        pytest.skip(done.stderr.strip())  # nothing can be downloaded, or the mirror has moved on
    assert done.returncode == 0, done.stderr
    with served() as address:
        yield address


@pytest.fixture
def page(browser: Any, site: str) -> Iterator[Any]:
    with opened(browser, site, viewport={"width": 390, "height": 844}) as page:
        page.goto(f"{site}/small-writes.html")
        yield page


def run(page: Any, **values: str) -> dict[str, str]:
    """Fill in the form, press Run with the keyboard, and return the results in the box."""
    for name, value in values.items():
        control = page.locator(f"[name={name}]")
        is_list = control.evaluate("control => control.tagName") == "SELECT"
        control.select_option(value) if is_list else control.fill(value)
    page.locator(".run-it-here .output").evaluate("output => output.replaceChildren()")
    page.locator(".run-it-here button").press("Enter")
    page.wait_for_selector(SHOWN, timeout=120_000)
    assert not page.inner_text(".run-it-here [role=status]")
    rows = page.locator(".run-it-here .facts tbody tr").all_inner_texts()
    return dict(row.split("\t") for row in rows)


def wait_ms(facts: dict[str, str]) -> float:
    return float(facts["Longest wait for an ACK"].removesuffix(" ms"))


@pytest.mark.parametrize("name", ["small-writes", "c-records-and-quotes"])  # the latter polls
def test_the_first_result_needs_no_network_and_16_mb(
    browser: Any, page: Any, site: str, name: str
) -> None:
    """`python -m bench.web` measures the time, whose goal is 15 s. A busy machine needs longer."""
    page.goto(f"{site}/{name}.html")
    memory = Memory(browser)
    assert first_result_s(page) < 120
    assert memory.mb() < 350
    assert "16 MB and takes up to 350 MB of memory" in page.inner_text(".run-it-here .note")
    assert sum(path.stat().st_size for path in BUILT.iterdir()) <= 16_000_000


def test_small_writes_make_two_segments_and_wait_for_the_ack_timer(page: Any) -> None:
    default = run(page, mode="default")
    assert default["Segments per message"] == "2"
    assert default["Bytes in each segment"] == "2 + 28"
    # The guest's clock counts instructions, so a busy machine does not change the wait.
    assert 40 <= wait_ms(default) <= 60
    no_delay = run(page, mode="no_delay")
    assert (
        no_delay["Segments per message"].split()[0] == "15"
    )  # a busy host may split a few messages otherwise
    assert no_delay["Longest wait for an ACK"].startswith("none")
    assert run(page, mode="writev")["Segments per message"] == "1"
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= page.viewport_size["width"]


def test_after_a_run_without_an_answer_the_next_one_has_another_machine(page: Any) -> None:
    answers = page.evaluate(
        """async () => {
            const { computer, running } = await import("./running.mjs");
            const state = running(document.createElement("button"));
            await state.during((machine) => machine.run("sleep 9; echo first", 1));
            const answers = [state.status.textContent];
            for (const word of ["second", "third"])
                answers.push(await (await computer()).run(`echo ${word}`));
            return answers;
        }"""
    )
    assert "no answer from the guest within 0.001 s" in answers[0]
    assert answers[1:] == ["second\n", "third\n"]


def test_two_tabs_run_at_the_same_time(browser: Any, site: str) -> None:
    with opened(browser, site) as first:
        tabs = [first, first.context.new_page()]
        for tab in tabs:
            tab.goto(f"{site}/small-writes.html")
            tab.locator(".run-it-here button").press("Enter")
        for tab in tabs:
            tab.wait_for_selector(SHOWN, timeout=120_000)
            assert "Bytes in each segment\t2 + 28" in tab.locator(".facts tr").all_inner_texts()


def test_back_leads_to_the_settings_of_the_last_run(page: Any, site: str) -> None:
    run(page, mode="writev", writes="3")
    page.goto(f"{site}/cork.html")
    page.go_back()
    assert page.locator("[name=mode]").input_value() == "writev"
    assert run(page)["Bytes in each segment"] == "6"


def test_the_page_works_without_a_network_after_its_first_run(browser: Any, site: str) -> None:
    with opened(browser, site, service_workers="allow") as page:
        for offline in (False, True):
            page.context.set_offline(offline)
            page.goto(f"{site}/small-writes.html")
            assert run(page, mode="writev")["Segments per message"] == "1"
        with pytest.raises(Exception, match=r"ERR_INTERNET_DISCONNECTED|ERR_FAILED"):
            page.goto(f"{site}/cork.html")


def test_counts_that_vary_are_shown_with_their_share(page: Any) -> None:
    typical = page.evaluate(
        """async () => {
            const { usual, share } = await import("./messages.mjs");
            const lists = [15, 3, 8, 6, 2, 2, 2, 2].map((length) => Array(length).fill(2));
            const [sizes, counts] = [usual(lists), lists.map((list) => list.length)];
            return [sizes, share(sizes.length, counts), share(2, [2, 2])];
        }"""
    )
    assert typical == [[2, 2], "2 in 4 of 8 messages", "2"]


def test_the_drawing_shows_the_writes_and_segments_when_they_happened(page: Any) -> None:
    facts = run(page, mode="default", rtt="100")
    rows = page.locator(".run-it-here tbody tr")
    sent = [row.split("\t")[2] for row in rows.filter(has_text="client → server").all_inner_texts()]
    assert " + ".join(size for size in sent if size != "–") == facts["Bytes in each segment"]
    drawn = page.evaluate(
        """() => {
            const of = (kind, names) => [...document.querySelectorAll(`svg ${kind}`)].map(
                (shape) => names.map((name) => Number(shape.getAttribute(name))));
            return [of("line.write", ["x1"]), of("rect.wait", ["x", "width"]),
                of("line.ack", ["x1", "x2"]), of("line.data", ["x1", "x2"])];
        }"""
    )
    writes, [[begin, width]], acks, data = drawn
    assert len(writes) == 15
    assert all(x <= begin or x >= begin + width for [x] in writes)
    # The ACK's timer is drawn to the same scale as a flight, which takes half of the round trip.
    text = page.locator(".run-it-here svg text", has_text=" ms").text_content()
    per_ms = width / float(text.removesuffix(" ms"))
    assert all(later - earlier >= 49 * per_ms for earlier, later in acks + data)
    assert acks[0][1] - acks[0][0] == pytest.approx(50 * per_ms, rel=0.1)
    assert "the one with the median wait" in page.inner_text(".run-it-here .output .note")


def test_a_result_names_the_settings_that_it_was_measured_with(page: Any) -> None:
    run(page, mode="default", writes="3", bytes="7")
    page.locator("[name=mode]").select_option("writev")
    heading = page.inner_text(".run-it-here .facts th[scope=col]")
    assert heading.startswith("default (Nagle’s algorithm), 3 × 7 bytes")


def test_progress_counts_the_bytes_of_files_behind_a_compressing_server(page: Any) -> None:
    page.route(
        "**/*.zst",
        lambda route: route.fulfill(
            path=BUILT / "state.bin.zst", headers={"Content-Length": "1000"}
        ),
    )
    shown = page.evaluate(
        """async () => {
            const { start } = await import("./machine.mjs");
            const shown = [];
            await start(location.href, (arrived, all) => shown.push([arrived, all]));
            return [shown.at(0), shown.at(-1)];
        }"""
    )
    loaded = sum((BUILT / name).stat().st_size for name in ("state.bin.zst", "v86.wasm"))
    assert [all_bytes for _, all_bytes in shown] == [loaded, loaded]
    assert shown[1][0] == loaded


def test_a_message_too_long_for_the_guest_is_refused(page: Any) -> None:
    page.locator("[name=writes]").fill("100")
    page.locator("[name=bytes]").fill("20000")
    page.locator(".run-it-here button").press("Enter")
    page.wait_for_selector(".run-it-here [role=status]:has-text('at most 100,000 bytes')")
    assert run(page, mode="no_delay", writes="100", bytes="1000")["Bytes in each segment"]


def test_the_box_links_its_licences_and_sources(page: Any) -> None:
    links = page.locator(".run-it-here a")
    texts = [page.request.get(link.evaluate("link => link.href")).text() for link in links.all()]
    assert len(texts) == 2
    assert "glibc" in texts[0]
    assert "Redistribution" in texts[1]


def test_a_book_opened_as_a_file_says_that_the_box_needs_a_server(
    browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT / "tools")
    tool = runpy.run_path(str(ROOT / "tools/make-book"))
    (tmp_path / "lessons").mkdir()
    lesson = tmp_path / "lessons/lesson.html"
    lesson.write_text(tool["BOX"].format("page", "cork"))
    with browser.new_context() as context:
        opened = context.new_page()
        opened.goto(lesson.as_uri())
        assert "python -m http.server" in opened.inner_text(".run-it-here")


def test_without_scripts_a_box_shows_the_recorded_figure(
    browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT / "tools")
    tool = runpy.run_path(str(ROOT / "tools/make-book"))
    monkeypatch.setitem(tool["keep_result"].__globals__, "SOURCE", tmp_path)
    picture = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"></svg>'
    encoded = base64.b64encode(picture.encode()).decode()
    figure = f'<figcaption>28 bytes held</figcaption>svg+xml;base64,{encoded}"'
    shown = nbformat.v4.new_output("display_data", {"text/html": figure})
    compared = nbformat.v4.new_code_cell("predictions.compare()", outputs=[shown])
    box = nbformat.v4.new_markdown_cell(tool["BOX"].format("page", "small-writes"))
    tool["keep_result"](nbformat.v4.new_notebook(cells=[compared, box]), "small-writes")
    (tmp_path / "results").rename(tmp_path / "_images")  # Sphinx copies it, too
    (tmp_path / "lessons").mkdir()
    lesson = tmp_path / "lessons/lesson.html"
    lesson.write_text(box.source)
    with browser.new_context(java_script_enabled=False) as context:
        opened = context.new_page()
        opened.goto(lesson.as_uri())
        assert opened.locator(".run-it-here img").evaluate("image => image.naturalWidth") == 9
        assert "28 bytes held" in opened.inner_text(".run-it-here")


def test_cork_joins_writes_and_a_far_peer_costs_a_round_trip(page: Any, site: str) -> None:
    page.goto(f"{site}/cork.html")
    assert run(page, mode="cork")["Bytes in each segment"] == "30"
    assert run(page, mode="msg_more")["Segments per message"] == "1"
    far = run(page, mode="default", rtt="100")
    assert 140 <= wait_ms(far) <= 160  # a round trip and the ACK's timer


def test_segments_follow_the_mtu(page: Any, site: str) -> None:
    page.goto(f"{site}/segments.html")
    assert run(page)["Bytes in each segment"].startswith("1448 + 1448 + 1104")
    assert run(page, mtu="576")["Bytes in each segment"].startswith("7 × 524 + 332")


def test_axe_finds_no_violations_in_the_box(page: Any, tmp_path: Path) -> None:
    run(page, mode="default")
    assert not findings(page, fetch(tmp_path), ".run-it-here")


@pytest.mark.needs_lab
def test_page_sends_the_same_segments_as_the_laboratory(page: Any, site: str) -> None:
    """Compare the segments of 20 patterns in the page with messages of the laboratory."""
    page.goto(f"{site}/cork.html")
    chosen = random.Random(42)
    modes = get_args(SmallWritesMode)
    for _ in range(20):
        mode, writes = chosen.choice(modes), chosen.randint(2, 12)
        # With Nagle's algorithm and full segments the sizes depend on when an ACK arrives.
        size = chosen.randint(1, 120 if mode == "default" else 1400)
        run_in_page = (
            "request => import('./run-it-here.mjs').then(box => box.measure(request))"
            ".then(run => [run.sizes, run.lists])"
        )
        request = {"mode": mode, "writes": writes, "bytes": size}
        usual, all_messages = page.evaluate(run_in_page, request)
        assert all_messages == [usual] * 8, (mode, writes, size)
        [there] = small_writes.measure(8, writes, size, variants=[mode], segments=True).variants
        sent = there.data_segment_sizes
        assert sent is not None
        messages: list[tuple[int, ...]] = [()]
        for segment in sent:
            if sum(messages[-1]) == writes * size:
                messages.append(())
            messages[-1] += (segment,)
        # The program may be interrupted between two writes, but not in each message.
        assert tuple(usual) in messages, (mode, writes, size, messages)
