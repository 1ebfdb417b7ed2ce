"""The address of the repository stands in the pages once it is known, and nowhere before."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.nonempty import each
from tests.support.paths import ROOT

PAGES = ("README.md", "docs/platforms.md")


def set_address(root: Path, address: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tools/set-address"), address, "--root", str(root)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    for page in PAGES:
        shutil.copy(ROOT / page, tmp_path / page)
    return tmp_path


def test_every_address_becomes_the_one_that_was_given(pages: Path) -> None:
    assert set_address(pages, "Some-One/their.course").returncode == 0
    for page in each(PAGES):
        text = (pages / page).read_text()
        assert "OWNER/REPOSITORY" not in text
        assert "https://mybinder.org/v2/gh/Some-One/their.course/HEAD" in text
        assert "ghcr.io/some-one/their.course" in text  # Docker takes no capitals


def test_a_fork_replaces_the_address_that_was_set(pages: Path) -> None:
    before = [(pages / page).read_text() for page in PAGES]
    set_address(pages, "first/course")
    assert set_address(pages, "second/course").returncode == 0
    for page, text in zip(PAGES, before, strict=True):
        wanted = text.replace("ghcr.io/OWNER/REPOSITORY", "ghcr.io/second/course")
        assert (pages / page).read_text() == wanted.replace("OWNER/REPOSITORY", "second/course")


@pytest.mark.parametrize("address", ["", "course", "https://example.org/a/b", "a/b/c"])
def test_no_address_is_one_line(pages: Path, address: str) -> None:
    done = set_address(pages, address)
    assert done.returncode == 2
    assert f"{address!r} must be OWNER/NAME" in done.stderr.splitlines()[-1]


def test_badge_opens_a_lesson_that_is_there() -> None:
    for page in each(PAGES):
        [path] = re.findall(r"urlpath=lab/tree/([\w./-]+)\)", (ROOT / page).read_text())
        assert (ROOT / path).is_file()


def test_workflows_are_pinned_and_run_what_is_there() -> None:
    texts = {path: path.read_text() for path in (ROOT / ".github/workflows").glob("*.yml")}
    for path, text in each(texts.items()):
        for action in re.findall(r"uses: (\S+)", text):
            assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", action), (path.name, action)
        for script in re.findall(r"(?<!\S)((?:tools|deploy)/[\w./-]+)", text):
            assert (ROOT / script).exists(), (path.name, script)
