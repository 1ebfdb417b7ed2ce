"""Start a real JupyterLab or Voilà on a free port.

The module also opens and runs notebooks, for the tests and for the course's pictures.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbformat
import pytest
from tests.support.commands import completed
from tests.support.needs import need, need_module
from tests.support.paths import ROOT

from tcplab import demos
from tcplab.demos.page import write_page

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

START_S = 120.0
WAIT_MS = 180_000
ARTEFACTS = ROOT / "test-artifacts" / "browser"
CHROMIUM = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")

SETTINGS = {
    "@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False},
    # All cells are in the page, even those that are not in view.
    "@jupyterlab/notebook-extension:tracker": {"windowingMode": "none"},
}


class _Server:
    """A server process and its log. close() ends the process and its kernels."""

    def __init__(
        self, module: str, options: list[str], log: Path, cwd: Path, environment: dict[str, str]
    ) -> None:
        self._name, self._log = module, log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, *options],
                env=os.environ | environment,
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self.url = self._wait_for_url()

    def _wait_for_url(self) -> str:
        end = time.monotonic() + START_S
        while time.monotonic() < end and self._process.poll() is None:
            if url := self._find_url():
                return url
            time.sleep(0.1)
        raise RuntimeError(f"{self._name} did not start:\n{self._log.read_text()[-2000:]}")

    def _find_url(self) -> str | None:
        raise NotImplementedError

    def close(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Jupyter(_Server):
    """A JupyterLab server.

    Args:
        directory: an empty directory.
        serve: the folder to open; by default a copy of the lessons, `directory`/lessons.
    """

    def __init__(self, directory: Path, serve: Path | None = None) -> None:
        self.lessons = serve or directory / "lessons"
        if serve is None:
            shutil.copytree(
                ROOT / "lessons", self.lessons, ignore=shutil.ignore_patterns(".*", "*.json")
            )
        self._runtime = directory / "runtime"
        environment = {
            "JUPYTER_RUNTIME_DIR": str(self._runtime),
            "JUPYTER_CONFIG_DIR": str(directory / "config"),
            "JUPYTERLAB_SETTINGS_DIR": str(directory / "user-settings"),
            "JUPYTERLAB_WORKSPACES_DIR": str(directory / "workspaces"),
            "IPYTHONDIR": str(directory / "ipython"),
        }
        _write_settings(directory / "user-settings")
        options = [
            "--no-browser",
            "--allow-root",
            "--ServerApp.ip=127.0.0.1",
            "--ServerApp.port=0",
            f"--ServerApp.root_dir={self.lessons}",
            "--IdentityProvider.token=",
            "--PasswordIdentityProvider.hashed_password=",
            "--ServerApp.disable_check_xsrf=True",
            "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        ]
        # nbgrader looks for its configuration in the working directory.
        log, cwd = directory / "jupyter.log", serve or directory
        super().__init__("jupyterlab", options, log, cwd, environment)

    def _find_url(self) -> str | None:
        for path in self._runtime.glob("jpserver-*.json"):
            if (text := path.read_text()).endswith("}"):
                return str(json.loads(text)["url"])
        return None

    def end_kernel(self, notebook: str) -> None:
        """End the kernel of a notebook, with all processes that it has started."""
        with urllib.request.urlopen(f"{self.url}api/sessions", timeout=START_S) as answer:
            sessions = json.load(answer)
        for session in sessions:
            if session["path"] == notebook:
                path = f"{self.url}api/sessions/{session['id']}"
                request = urllib.request.Request(path, method="DELETE")
                urllib.request.urlopen(request, timeout=START_S).close()


class Voila(_Server):
    """A Voilà on a free port that shows each demo as `tcplab demo` does."""

    def __init__(self, directory: Path) -> None:
        (pages := directory / "pages").mkdir()
        self.pages = pages
        for demo in demos.every():
            write_page(demo.name, pages)
        options = [
            str(pages),
            "--no-browser",
            "--Voila.ip=127.0.0.1",
        ]  # Voilà takes the next free port
        options += [f"--Voila.config_file_paths={pages}", "--Voila.auto_token=False"]
        environment = {"JUPYTER_RUNTIME_DIR": str(directory / "runtime")}
        super().__init__("voila", options, directory / "voila.log", ROOT, environment)

    def _find_url(self) -> str | None:
        running = re.search(r"is running at:\n(\S+)", self._log.read_text())
        return f"{running[1]}voila/render/" if running else None


def _write_settings(directory: Path) -> None:
    for name, values in SETTINGS.items():
        package, _, plugin = name.partition(":")
        path = directory / package / f"{plugin}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values))


def find_chromium() -> str | None:
    """Return the path of the installed Chromium, or None if there is none."""
    return next(filter(None, map(shutil.which, CHROMIUM)), None)


def need_chromium() -> str:
    """Return Chromium's path; skip the test if Chromium or Playwright is missing."""
    need_module("playwright", "playwright")
    return find_chromium() or need("chromium")


def npm_package(name: str, directory: Path) -> Path:
    """Unpack an npm package into an empty directory; skip the test if that fails."""
    npm = need("npm")
    command = [npm, "pack", "--silent", name]
    try:
        done = completed(command, cwd=directory)
        why = done.stderr.strip()[-200:]
    except subprocess.TimeoutExpired:
        why = "no answer within a minute"
    packed = list(directory.glob("*.tgz"))
    if not packed:
        pytest.skip(f"npm cannot get {name}: {why}")
    with tarfile.open(packed[0]) as archive:
        # Python 3.11.2 has no filters, and 3.12 and 3.13 warn if none is chosen.
        archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, _path: member)
        archive.extractall(directory)
    return directory / "package"


def keep(target: Page | Locator, name: str) -> None:
    """Save a picture for a person to look at."""
    ARTEFACTS.mkdir(parents=True, exist_ok=True)
    target.screenshot(path=ARTEFACTS / f"{name}.png")


@contextmanager
def tab_of(browser: Any, name: str, **settings: Any) -> Iterator[Page]:
    """Open a tab; save a picture of what it shows at the end."""
    tab = browser.new_page(**settings)
    tab.set_default_timeout(WAIT_MS)
    try:
        yield tab
    finally:
        with suppress(Exception):  # a picture that fails must not hide why the test failed
            keep(tab, f"last-seen-{name}")
        tab.close()


def write_notebook(path: Path, lines: Iterable[str]) -> None:
    """Write a notebook with a cell for each line, which may use `widgets` and `demos`."""
    sources = [f"from tcplab import demos, widgets\n{line}" for line in lines]
    notebook = nbformat.v4.new_notebook(cells=list(map(nbformat.v4.new_code_cell, sources)))
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook.metadata["kernelspec"] = kernel
    nbformat.write(notebook, path)


def run_notebook(page: Page, jupyter: Jupyter, notebook: str, opener: str = "doc/tree") -> None:
    """Open a notebook in the page, in the application at the path `opener`, and run all cells."""
    page.goto(f"{jupyter.url}{opener}/{notebook}")
    page.locator(".jp-Notebook .jp-Cell").first.wait_for()
    idle = page.locator("#jp-main-statusbar", has_text="| Idle")
    idle.or_(page.locator(".jp-NotebookKernelStatus-fade")).wait_for(state="attached")
    # JupyterLab asks for a kernel if a notebook runs before it has one; accept the default.
    question = page.locator(".jp-Dialog", has_text="Select Kernel")
    page.add_locator_handler(question, lambda: page.keyboard.press("Enter"))
    choose(page, "Run", "Run All Cells")


def choose(page: Page, *labels: str) -> None:
    """Choose an item by its path through JupyterLab's menu."""
    page.locator(".lm-MenuBar-itemLabel", has_text=re.compile(f"^{labels[0]}$")).click()
    for label in labels[1:]:
        page.locator(".lm-Menu-itemLabel", has_text=re.compile(f"^{label}$")).first.click()
