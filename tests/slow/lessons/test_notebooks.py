"""Every lesson runs from top to bottom, and writes nothing to standard error."""

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from tests.support.bare import bare_path
from tests.support.lessons import ALL, slug
from tests.support.nonempty import each
from tools import notebooks

from tcplab.course.doctor import lessons


def runs() -> list[Any]:
    """Return the runs: every lesson live, with and without its programs, and some on loopback.

    The book's test runs all lessons in recorded mode. A lesson that measures nothing on plain
    loopback would show the same recordings there, so it is left out.
    """
    named = {lesson.slug: lesson for lesson in lessons()}
    cases = []
    for path in ALL:
        lesson = named.get(slug(path))
        modes = ["live"]
        if lesson and lesson.on_loopback:
            modes.append("loopback")
        if lesson and lesson.programs:
            modes.append("bare")
        cases += [pytest.param(path, mode, id=f"{path.stem}-{mode}") for mode in modes]
    return cases


@pytest.mark.timeout(400)
@pytest.mark.parametrize(("path", "mode"), runs())
def test_lesson_runs_with_nothing_on_stderr(
    path: Path, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TCPLAB_MODE", "live" if mode == "bare" else mode)
    notebook = nbformat.read(path, as_version=4)
    programs = notebook.metadata.get("tcplab", {}).get("programs", [])
    # A lesson that names no programs must run without any.
    if mode == "bare" or not programs:
        (links := tmp_path / "programs").mkdir()
        monkeypatch.setenv("PATH", bare_path(links))
    notebooks.client(notebook, tmp_path).execute()
    outputs = [out for cell in notebook.cells for out in cell.get("outputs", [])]
    assert not [out.text for out in outputs if out.get("name") == "stderr"]
    html = "".join(out.get("data", {}).get("text/html", "") for out in outputs)
    alternatives = re.findall(r'<img [^>]*alt="([^"]*)"', html)
    assert alternatives, "a lesson without a picture"
    assert all(len(text) > 20 for text in each(alternatives)), "a picture without words"
    if mode != "loopback":
        printed = "".join(out.text for out in outputs if out.get("name") == "stdout")
        printed += "".join(out.get("data", {}).get("text/markdown", "") for out in outputs)
        absent = set(re.findall(r"([\w.-]+) is not installed: apt install ", html + printed))
        assert absent <= set(programs) | {"nc.openbsd"}
        not_measured = re.findall(r"not measured now: ([^<]*)", html)
        assert all(" is not installed: " in why for why in not_measured)
        assert mode == "live" or absent
        if mode == "live" and absent:
            pytest.skip(f"all but what needs {', '.join(sorted(absent))} (not installed)")
