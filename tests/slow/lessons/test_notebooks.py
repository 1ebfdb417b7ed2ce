"""Every lesson runs from top to bottom with nothing on standard error."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from tests.support.lessons import ALL
from tests.support.nonempty import each
from tools import notebooks

from tcplab.doctor import lessons


def runs() -> list[Any]:
    """Every lesson live; on plain loopback those of which something runs there.

    In recorded mode the book's test runs them all. A lesson of which nothing runs on plain loopback
    shows the same recordings there.
    """
    on_loopback = {lesson.number for lesson in lessons() if lesson.on_loopback}
    return [
        pytest.param(path, mode, id=f"{path.stem}-{mode}")
        for path in ALL
        for mode in ("live", "loopback")
        if mode == "live" or path.stem.partition("-")[0] in on_loopback
    ]


@pytest.mark.timeout(400)
@pytest.mark.parametrize(("path", "mode"), runs())
def test_lesson_runs_with_nothing_on_stderr(
    path: Path, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TCPLAB_MODE", mode)
    notebook = nbformat.read(path, as_version=4)
    notebooks.client(notebook, tmp_path).execute()
    outputs = [out for cell in notebook.cells for out in cell.get("outputs", [])]
    assert not [out.text for out in outputs if out.get("name") == "stderr"]
    html = "".join(out.get("data", {}).get("text/html", "") for out in outputs)
    alternatives = re.findall(r'<img [^>]*alt="([^"]*)"', html)
    assert alternatives, "a lesson without a picture"
    assert all(len(text) > 20 for text in each(alternatives)), "a picture without words"
    if mode == "live":
        absent = set(re.findall(r"not measured now: ([^.<]* is not installed: [^.<]*)", html))
        assert html.count("Recorded on") == html.count(" is not installed: ")
        if absent:
            pytest.skip(f"all but what is not installed: {', '.join(sorted(absent))}")
