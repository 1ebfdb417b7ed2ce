"""The repository's exercises are exactly what nbgrader makes of the solutions."""

import json
from pathlib import Path

from tests.support.grading.sets import NAMES, files_of
from tests.support.nonempty import each
from tests.support.paths import ROOT

from tcplab.grading.release import generate


def test_exercises_are_up_to_date_and_have_no_solutions(tmp_path: Path) -> None:
    """One test covers all sets, since nbgrader takes seconds to make a gradebook."""
    assert generate(ROOT, tmp_path) == NAMES
    for name in NAMES:
        fresh, stored = (files_of(folder / name) for folder in (tmp_path, ROOT / "exercises"))
        differing = {path for path in {*fresh, *stored} if fresh.get(path) != stored.get(path)}
        assert differing == set(), f"{name}: run `make exercises`"
        _assert_no_solutions(name, fresh)


def _assert_no_solutions(name: str, released: dict[str, bytes]) -> None:
    assert not any("hidden" in path or "judge" in path or "mutants" in path for path in released)
    for path, data in each(released.items()):
        assert b"SOLUTION" not in data, path
        assert b"MARK SCHEME" not in data, path
    notebook = json.loads(released[f"{name}.ipynb"])
    assert "jupytext" not in notebook["metadata"]
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(ids) == len(set(ids))
    for cell in each(notebook["cells"]):
        own = cell["metadata"].get("nbgrader", {})
        # The names of cells in the notebook and in the gradebook are the same, so they never drift
        # apart.
        assert own.get("grade_id", cell["id"]) == cell["id"]
