"""Test the box "Run it here": a Linux in the page sends the same segments as the laboratory."""

from __future__ import annotations

import functools
import random
import re
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
    assert default["sizes"] == "2 + 28"
    # The delayed ACK's timer of 40 ms may fire after 36 ms, and emulation may delay it.
    assert 30 < wait_ms(default) < 100
    assert "emulated" in page.inner_text(".run-it-here table")
    no_delay = run(page, mode="no_delay")
    assert no_delay["segments"].split()[0] == "15"
    assert no_delay["wait"].startswith("none")
    assert run(page, mode="writev")["segments"] == "1"
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= page.viewport_size["width"]


def test_cork_joins_writes_and_a_far_peer_costs_a_round_trip(page: Any, site: str) -> None:
    page.goto(f"{site}/cork.html")
    assert run(page, mode="cork")["sizes"] == "30"
    assert run(page, mode="msg_more")["segments"] == "1"
    far = run(page, mode="default", rtt="100")
    assert wait_ms(far) > 90


def test_segments_follow_the_mtu(page: Any, site: str) -> None:
    page.goto(f"{site}/segments.html")
    assert run(page)["sizes"] == "1448 + 1448 + 1104"
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
