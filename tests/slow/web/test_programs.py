"""Test the box with a program: the page shows the facts that Python finds in its capture."""

from __future__ import annotations

import base64
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bench.web import opened
from tests.slow.web.test_run_it_here import site
from tests.support.short_c import Change, few, write

from tcplab import segments
from tcplab.course.short_c import Ran

__all__ = ["site"]
pytestmark = pytest.mark.timeout(600)

RUN = """async ([slug, source]) => {
    const { computer } = await import("./running.mjs");
    const { run_program } = await import("./programs.mjs");
    const lessons = await (await fetch("lessons.json")).json();
    const run = await run_program(await computer(), slug, lessons[slug], source, 300_000);
    if (!run.facts) return { problem: run.problem };
    const text = Array.from(run.capture, (byte) => String.fromCharCode(byte)).join("");
    return { facts: Object.fromEntries(run.facts), output: run.output, capture: btoa(text) };
}"""


def acknowledged(ran: Ran) -> int:
    return int(max(ran.segments.acks("server")["ack"], default=1)) - 1


def second_half(ran: Ran) -> int:
    sent = ran.segments.sent_by("server")
    acks = sent[~sent.is_syn]
    return int(acks["window"][len(acks) // 2 :].max())


#: What Python finds under each label of the page.
FOUND: dict[str, Callable[[Ran], Any]] = {
    "Bytes sent": lambda ran: sum(ran.sizes),
    "Segments": lambda ran: ran.sizes,
    "Connections": lambda ran: len(ran.segments.connections),
    "Groups of segments between answers of the server": lambda ran: len(ran.bursts),
    "Times the client waited for the server": lambda ran: len(ran.bursts) - 1,
    "Window scale in the SYN-ACK": lambda ran: int(
        ran.segments[ran.segments.is_syn & ran.segments.from_server]["wscale"][0]
    ),
    "Largest window, second half (bytes)": second_half,
    "Bytes acknowledged": acknowledged,
    "Most bytes in flight": lambda ran: max(ran.in_flight),
    "Median of the bytes in flight": lambda ran: statistics.median(ran.in_flight),
    "Trips through the kernel": lambda ran: len(ran.sizes),
    "Longest trip (bytes)": lambda ran: max(ran.sizes),
    "Longest packet (bytes)": lambda ran: max(ran.sizes) + 52,
}


@pytest.fixture(scope="module")
def page(browser: Any, site: str) -> Any:
    with opened(browser, site) as page:
        page.goto(f"{site}/c-small-writes.html")
        yield page


@pytest.mark.parametrize("change", few(), ids=str)
def test_the_facts_equal_those_that_python_finds(page: Any, change: Change, tmp_path: Path) -> None:
    source = write(change, tmp_path).read_text()
    answer = page.evaluate(RUN, [change.slug, source])
    assert "facts" in answer, answer
    capture = tmp_path / "run.pcapng"
    capture.write_bytes(base64.b64decode(answer["capture"]))
    ran = Ran((), answer["output"], segments.from_file(capture), b"")
    shown = {label: value for label, value in answer["facts"].items() if label in FOUND}
    assert len(shown) >= 1
    assert shown == {label: FOUND[label](ran) for label in shown}


def test_a_changed_program_stays_in_the_link_and_its_errors_have_lines(
    browser: Any, site: str
) -> None:
    with opened(browser, site, viewport={"width": 390, "height": 844}) as page:
        page.goto(f"{site}/c-small-writes.html")
        text = page.locator(".run-it-here textarea")
        text.fill("int main(void) {\n    return missing;\n}\n")
        page.get_by_role("button", name="Compile and run").click()
        page.wait_for_selector(".run-it-here pre.problem", timeout=120_000)
        assert page.inner_text("pre.problem").startswith("line 2: error: 'missing' undeclared")
        page.reload()
        assert page.locator(".run-it-here textarea").input_value().startswith("int main(void)")
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= 390


def test_the_first_page_shows_the_answer_beside_the_guess(browser: Any, site: str) -> None:
    with opened(browser, site, viewport={"width": 390, "height": 844}) as page:
        page.goto(f"{site}/index.html")
        page.get_by_label("Your guess in milliseconds").fill("1")
        page.get_by_role("button", name="Run").click()
        page.wait_for_selector(".first-page .strips", timeout=120_000)
        assert "times your guess" in page.inner_text(".first-page .output h3")
        assert page.inner_text(".first-page").count("your guess") >= 1
