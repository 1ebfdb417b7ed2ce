"""Measure the time from the click to the first result of each box "Run it here", and the memory.

    python -m bench.web [RUNS]

`make web` builds the box. A headless Chromium with an empty cache loads it from loopback and can
reach nothing else. The browser's own clock gives the time. The memory is the largest that any
process with a page has to itself (RssAnon of proc(5)), which Chromium's task manager calls its
memory footprint.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

BUILT: Final = Path(__file__).resolve().parents[1] / "build/web"
LESSONS: Final = ("small-writes", "cork", "segments")
PAGE: Final = """<!doctype html><html lang="en"><meta charset="utf-8"><title>{0}</title>
<meta name="viewport" content="width=device-width">
<link rel="stylesheet" href="run-it-here.css"><main><h1>{0}</h1><h2>Try it</h2>
<div class="run-it-here{2}" data-{1}="{0}"></div></main>
<script type="module" src="run-it-here.mjs"></script></html>"""
FIRST_RESULT: Final = """() => new Promise((resolve) => {
    const box = document.querySelector(".run-it-here");
    const observer = new MutationObserver(() => {
        if (box.querySelector(".facts")) resolve((performance.now() - start) / 1000);
    });
    observer.observe(box, { childList: true, subtree: true });
    const start = performance.now();
    box.querySelector("button").click();
})"""


class _Quiet(SimpleHTTPRequestHandler):
    def guess_type(self, path: Any) -> str:
        return "text/javascript" if str(path).endswith(".mjs") else super().guess_type(path)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def pages() -> dict[str, str]:
    """Return the pages by name: the first page, SLUG with a form, c-SLUG with a program."""
    programs = json.loads((BUILT / "recorded.json").read_text())
    boxes = {"index": PAGE.format("index", "question", " first-page")}
    boxes |= {slug: PAGE.format(slug, "page", "") for slug in LESSONS}
    return boxes | {f"c-{slug}": PAGE.format(slug, "program", "") for slug in programs}


@contextmanager
def served() -> Iterator[str]:
    """Serve the pages; yield the URL of their folder."""
    with TemporaryDirectory(prefix="tcplab-web-") as folder:
        for file in BUILT.iterdir():
            Path(folder, file.name).symlink_to(file)
        for name, text in pages().items():
            Path(folder, f"{name}.html").write_text(text)
        handler = functools.partial(_Quiet, directory=folder)
        with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            yield f"http://127.0.0.1:{server.server_port}"
            server.shutdown()


@contextmanager
def opened(browser: Browser, site: str, **settings: Any) -> Iterator[Page]:
    """Open an empty page that can reach only the site.

    No service worker keeps the files, unless the settings allow it.
    """
    with browser.new_context(**{"service_workers": "block", **settings}) as context:
        context.route(lambda address: not address.startswith(site), lambda route: route.abort())
        yield context.new_page()


def first_result_s(page: Page) -> float:
    """Click Run; return the seconds until the first result."""
    page.set_default_timeout(0)
    page.wait_for_selector(".run-it-here button")  # a lesson's program is fetched first
    return float(page.evaluate(FIRST_RESULT))


class Memory:
    """The largest memory that any of the browser's processes with a page had to itself, in MB."""

    def __init__(self, browser: Browser) -> None:
        """Look at the processes that exist now until `mb` is read."""
        processes = browser.new_browser_cdp_session().send("SystemInfo.getProcessInfo")
        pages = [each["id"] for each in processes["processInfo"] if each["type"] == "renderer"]
        self._files = [Path(f"/proc/{pid}/status") for pid in pages]
        self._largest, self._ended = 0.0, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def mb(self) -> float:
        """Stop looking, and return the largest value."""
        self._ended.set()
        self._thread.join()
        return self._largest

    def _watch(self) -> None:
        while not self._ended.wait(0.1):
            for file in self._files:
                with suppress(OSError):
                    for kib in re.findall(r"RssAnon:\s+(\d+)", file.read_text()):
                        self._largest = max(self._largest, int(kib) * 1024 / 1e6)


def main() -> None:
    """Print the files' sizes, and the time and memory of each run."""
    from playwright.sync_api import sync_playwright

    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    if not (BUILT / "recorded.json").is_file():
        sys.exit("bench: build/web is missing; run make web")
    for file in sorted(BUILT.iterdir()):
        print(f"{file.stat().st_size:>10,} bytes  {file.name}")
    with served() as site, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        for name in [*pages()] * runs:
            with opened(browser, site) as page:
                page.goto(f"{site}/{name}.html")
                if name == "index":
                    page.get_by_label("Your guess").fill("1")
                memory = Memory(browser)
                took = first_result_s(page)
                print(
                    f"{took:4.1f} s to the first result of {name}, {memory.mb():.0f} MB,"
                    f" load {os.getloadavg()[0]:.1f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
