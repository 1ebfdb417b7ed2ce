"""Damaged submissions are read and repaired, and each repair is reported."""

from pathlib import Path

import nbformat
import pytest
from tests.support.grading.damaged import DAMAGES
from tests.support.grading.fixtures import Tiny

from tcplab.grading.repair import Repaired, repair
from tcplab.grading.staging import Expected, Staged, stage


def read(tiny: Tiny, submission: Path, folder: Path) -> tuple[Staged, Repaired]:
    staged = stage(submission, folder, Expected("tiny.ipynb", tiny.judge.task.files, tiny.exercise))
    released = nbformat.read(tiny.exercise / "tiny.ipynb", as_version=4)
    return staged, repair((folder / "tiny.ipynb").read_bytes(), released)


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_repaired_and_named(name: str, tiny: Tiny, tmp_path: Path) -> None:
    damage = DAMAGES[name]
    submission = tiny.hand_in(tmp_path)
    damage.do(submission)
    staged, repaired = read(tiny, submission, tmp_path / "staged")
    notes = [*staged.repairs, *repaired.repairs]
    for note in damage.repairs:
        assert any(reported.startswith(note) for reported in notes), notes
    assert damage.repairs or notes == []
    # An accident must not look like an attack. Only changed locked cells may be flagged.
    flags = [*staged.flags, *repaired.flags]
    assert [flag for flag in flags if not flag.startswith("locked-cell-changed")] == []
    released = nbformat.read(tiny.exercise / "tiny.ipynb", as_version=4)
    ids = [cell.id for cell in released.cells]
    assert [cell.id for cell in repaired.notebook.cells if cell.id in ids] == ids
    if damage.score == 5.0:
        sources = {cell.id: cell.source for cell in repaired.notebook.cells}
        assert 'n["a"] + n["b"]' in sources["q1-answer"]


@pytest.mark.parametrize("solved", [True, False])
def test_undamaged_notebook_stays_as_it_is(solved: bool, tiny: Tiny, tmp_path: Path) -> None:
    submission = tiny.hand_in(tmp_path, solved=solved)
    _, repaired = read(tiny, submission, tmp_path / "staged")
    assert repaired.repairs == repaired.flags == []
    assert repaired.untouched_tasks == ([] if solved else ["w1"])
    given = nbformat.read(submission / "tiny.ipynb", as_version=4)
    assert repaired.notebook.cells == given.cells
