"""Test the box "Run it here": a Linux in the page sends the same segments as the laboratory."""

from __future__ import annotations

import functools
import random
import re
import runpy
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, get_args

import pytest
from tests.support.browser.axe import fetch, findings
from tests.support.commands import completed
from tests.support.paths import ROOT

from tcplab.experiments import small_writes
from tcplab.programs import SmallWritesMode

# The guest boots once so that its state can be saved, which takes a minute.
pytestmark = pytest.mark.timeout(600)

BUILT = ROOT / "build/web"
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>{0}</title>
<link rel="stylesheet" href="run-it-here.css"><main><h1>{0}</h1><h2>Try it</h2>
<div class="run-it-here" data-page="{0}"></div></main>
<script type="module" src="run-it-here.mjs"></script></html>"""
SHOWN = ".run-it-here dl, .run-it-here [role=status]:has-text('did not work')"


class _Quiet(SimpleHTTPRequestHandler):
    def guess_type(self, path: Any) -> str:
        return "text/javascript" if str(path).endswith(".mjs") else super().guess_type(path)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve three pages with the box; yield their address."""
    done = completed([ROOT / "web/build"])
    if re.match("web: (apt-get|npm):|web: .*(is not installed|no mirror)", done.stderr):
        pytest.skip(done.stderr.strip())  # nothing can be downloaded, or the mirror has moved on
    assert done.returncode == 0, done.stderr
    folder = tmp_path_factory.mktemp("site")
    for file in BUILT.iterdir():
        (folder / file.name).symlink_to(file)
    for slug in ("small-writes", "cork", "segments"):
        (folder / f"{slug}.html").write_text(PAGE.format(slug))
    handler = functools.partial(_Quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def page(browser: Any, site: str) -> Iterator[Any]:
    with browser.new_context(viewport={"width": 390, "height": 844}) as context:
        opened = context.new_page()
        # Only the static files of the site may be requested.
        context.route(lambda address: not address.startswith(site), lambda route: route.abort())
        yield opened


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
    facts = page.locator("[data-fact]")
    return {fact.get_attribute("data-fact"): fact.inner_text() for fact in facts.all()}


def wait_ms(facts: dict[str, str]) -> float:
    return float(facts["wait"].removesuffix(" ms"))


def test_small_writes_make_two_segments_and_wait_for_the_ack_timer(page: Any, site: str) -> None:
    page.goto(f"{site}/small-writes.html")
    default = run(page, mode="default")
    assert default["segments"].split()[0] == "2"
    assert default["sizes"].split(" in ")[0] == "2 + 28"  # not in all messages on a busy machine
    # The delayed ACK's timer of 40 ms may fire after 36 ms, and emulation may delay it.
    assert 30 < wait_ms(default) < 100
    assert "emulated" in page.inner_text(".run-it-here table")
    no_delay = run(page, mode="no_delay")
    assert no_delay["segments"].split()[0] == "15"
    assert no_delay["wait"].startswith("none")
    assert run(page, mode="writev")["segments"] == "1"
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= page.viewport_size["width"]


def test_a_late_answer_is_not_taken_for_the_next_request_s(page: Any, site: str) -> None:
    page.goto(f"{site}/cork.html")
    answers = page.evaluate(
        """async () => {
            const { start } = await import("./machine.mjs");
            const machine = await start(location.href, () => {});
            const given_up = machine.run("default 15 2 100 1500 8", 1);
            const answers = [await given_up.catch((error) => error.message)];
            for (const request of ["writev 4 5 0 1500 8", "writev 4 6 0 1500 8"])
                answers.push(await machine.run(request));
            return answers.map((answer) => answer.match(/BEGIN .*|^no answer/m)[0]);
        }"""
    )
    assert answers == ["no answer", "BEGIN writev 4 5 0 1500 8", "BEGIN writev 4 6 0 1500 8"]


def test_counts_that_vary_are_shown_with_their_share(page: Any, site: str) -> None:
    page.goto(f"{site}/small-writes.html")
    typical = page.evaluate(
        """async () => {
            const { typical, share } = await import("./segments.mjs");
            const lists = [15, 3, 8, 6, 2, 2, 2, 2].map((length) => Array(length).fill(2));
            const { sizes, alike } = typical(lists);
            const counts = lists.slice(1).map((list) => list.length);
            return [sizes, alike, share(sizes.length, counts), share(2, [2, 2])];
        }"""
    )
    assert typical == [[2, 2], [4, 5, 6, 7], "2 in 4 of 7 messages", "2"]


def test_the_drawing_shows_a_message_with_the_number_named(page: Any, site: str) -> None:
    """In the lab the first message has 2 segments too, so the page must blame the emulator."""
    page.goto(f"{site}/small-writes.html")
    facts = run(page, mode="default")
    rows = page.locator(".run-it-here tbody tr", has_text="client → server").all_inner_texts()
    sent = [row.split("\t")[2] for row in rows]
    assert " + ".join(bytes_ for bytes_ in sent if bytes_ != "–") == facts["sizes"].split(" in ")[0]
    if "first message" in facts["segments"]:
        assert "emulator" in facts["segments"]


def test_a_message_too_long_for_the_guest_is_refused(page: Any, site: str) -> None:
    page.goto(f"{site}/small-writes.html")
    page.locator("[name=writes]").fill("100")
    page.locator("[name=bytes]").fill("20000")
    page.locator(".run-it-here button").press("Enter")
    page.wait_for_selector(".run-it-here [role=status]:has-text('at most 200,000 bytes')")
    assert run(page, mode="no_delay", writes="100", bytes="2000")["sizes"]


def test_the_box_links_its_licences_and_sources(page: Any, site: str) -> None:
    page.goto(f"{site}/small-writes.html")
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
    lesson.write_text(tool["BOX"].format("cork"))
    with browser.new_context() as context:
        opened = context.new_page()
        opened.goto(lesson.as_uri())
        assert "python -m http.server" in opened.inner_text(".run-it-here")


def test_cork_joins_writes_and_a_far_peer_costs_a_round_trip(page: Any, site: str) -> None:
    page.goto(f"{site}/cork.html")
    assert run(page, mode="cork")["sizes"] == "30"
    assert run(page, mode="msg_more")["segments"] == "1"
    far = run(page, mode="default", rtt="100")
    assert wait_ms(far) > 90


def test_segments_follow_the_mtu(page: Any, site: str) -> None:
    page.goto(f"{site}/segments.html")
    assert run(page)["sizes"].startswith("1448 + 1448 + 1104")
    assert run(page, mtu="m576")["sizes"].startswith("524 + 524")


def test_axe_finds_no_violations_in_the_box(page: Any, site: str, tmp_path: Path) -> None:
    page.goto(f"{site}/small-writes.html")
    run(page, mode="default")
    assert not findings(page, fetch(tmp_path), ".run-it-here")


@pytest.mark.needs_lab
def test_page_sends_the_same_segments_as_the_laboratory(page: Any, site: str) -> None:
    """Compare the segments of 20 patterns in the page with the laboratory's last message."""
    page.goto(f"{site}/cork.html")
    chosen = random.Random(42)
    modes = get_args(SmallWritesMode)
    for _ in range(20):
        mode = chosen.choice(modes)
        # With Nagle's algorithm and full segments the sizes depend on when an ACK arrives.
        sizes = [1, 2, 30] if mode == "default" else [1, 2, 30, 200, 700]
        writes, size = chosen.randint(2, 12), chosen.choice(sizes)
        run_in_page = (
            "request => import('./run-it-here.mjs').then(box => box.measure(request))"
            ".then(run => run.sizes)"
        )
        request = {"mode": mode, "writes": writes, "bytes": size, "rtt": 0}
        here = page.evaluate(run_in_page, request)
        [there] = small_writes.measure(8, writes, size, variants=[mode], segments=True).variants
        sent = there.data_segment_sizes
        assert sent is not None
        last: list[int] = []
        while sum(last) < writes * size:
            last.insert(0, sent[-1 - len(last)])
        assert here == last, (mode, writes, size)
