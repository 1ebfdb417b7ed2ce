"""Cells in the sandbox return plain data, whatever the learner's process sends."""

from pathlib import Path

import pytest
from tests.support.nonempty import each

from tcplab.grading.judging import run_cells
from tcplab.grading.sandbox import Limits


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tmp_path.chmod(0o755)
    folder = tmp_path / "given"
    folder.mkdir(mode=0o755)
    return folder


def test_outputs_and_answers_of_cells_are_returned(folder: Path) -> None:
    cells = [(0, "x = 6 * 7\nprint('six')\nx"), (3, "1 / 0"), (4, "y = [x]")]
    ran = run_cells(cells, folder, ["x", "y", "z"], [])
    assert ran.answers == {"x": 42, "y": [42], "z": None}
    stream, value = ran.outputs[0]
    assert stream == {"output_type": "stream", "name": "stdout", "text": "six\n"}
    assert value == {"output_type": "display_data", "data": {"text/plain": "42"}, "metadata": {}}
    assert ran.outputs[3][0]["ename"] == "ZeroDivisionError"
    assert (ran.outputs[4], ran.notes, ran.flags) == ([], [], [])


def test_cell_that_ends_the_process_is_left_out(folder: Path) -> None:
    cells = [(0, "x = 1"), (1, "import os\nos._exit(3)"), (2, "y = x + 1")]
    ran = run_cells(cells, folder, ["x", "y"], [])
    assert ran.answers == {"x": 1, "y": 2}
    assert [flag.partition(":")[0] for flag in each(ran.flags)] == ["process-ended"]
    assert ran.notes == ["The notebook's process ended with exit status 3 in code cell 2."]


def test_cells_that_do_not_end_leave_time_for_those_after_them(folder: Path) -> None:
    sleep = "import time\nwhile True:\n    time.sleep(0.1)"
    cells = [(0, "x = 1"), *((i, sleep) for i in range(1, 5)), (5, "y = x + 1")]
    ran = run_cells(cells, folder, ["x", "y"], [], limits=Limits(wall_s=8))
    assert ran.answers == {"x": 1, "y": 2}
    assert [flag.partition(":")[0] for flag in ran.flags] == ["cell-timeout"] * 4


def test_runs_without_stuck_cells_end_in_the_same_time(folder: Path) -> None:
    stuck = "import signal, time\nsignal.setitimer(signal.ITIMER_REAL, 0)\ntime.sleep(600)"
    cells = [(number, stuck) for number in range(5)]
    ran = run_cells(cells, folder, ["x"], [], limits=Limits(wall_s=4))
    assert ran.notes == ["The notebook's process did not end within its time limit in code cell 1."]


def test_tracebacks_that_a_cell_switched_off_are_shown(folder: Path) -> None:
    off = "type(get_ipython()).showtraceback = lambda *a, **k: None"
    ran = run_cells([(0, off), (1, "1 / 0")], folder, [], [])
    assert [output.get("ename") for output in ran.outputs[1]] == ["ZeroDivisionError"]
