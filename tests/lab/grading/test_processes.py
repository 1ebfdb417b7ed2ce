"""Each step and task runs in a separate process, whose end does not affect other tasks."""

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
import weakref
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.support.grading.deeds import tasks, work
from tests.support.lifetime import processes_with, until
from tests.support.nonempty import each

from tcplab.errors import StepError
from tcplab.grading.processes import StepLimits, apart, note_interrupt, on_interrupt, run_each

LIMITS = StepLimits(
    wall_s=60, cpu_s=1, memory_bytes=200 << 20, file_bytes=1 << 20, result_bytes=1 << 20
)


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        ([exec, "while True: pass"], "it took more than 1 s of processor time"),
        ([re.match, r"(a*)*b", "a" * 60], "it took more than 1 s of processor time"),
        ([list, map(bytearray, itertools.repeat(1 << 20))], "it took more than 200 MiB of memory"),
        ([signal.raise_signal, signal.SIGKILL], "the grading process died (SIGKILL)"),
        (["x".ljust, 2 << 20], "it has 2097166 bytes to say"),
    ],
)
def test_step_at_its_limit_gives_the_reason(step: list[Any], reason: str) -> None:
    with pytest.raises(StepError) as raised:
        apart(*step, limits=LIMITS)
    assert str(raised.value) == reason


def test_step_that_waits_or_writes_too_much_ends(tmp_path: Path) -> None:
    with pytest.raises(StepError, match=r"it took more than 0\.5 s"):
        apart(time.sleep, 60, limits=StepLimits(wall_s=0.5))
    with pytest.raises(StepError, match=r"OSError: .*File too large"):
        apart((tmp_path / "x").write_bytes, bytes(3 << 20), limits=LIMITS)


def test_step_returns_what_it_found_and_its_errors_are_one_line() -> None:
    assert apart(dict, [("value", [1, "two", None])]) == {"value": [1, "two", None]}
    with pytest.raises(StepError) as raised:
        apart(json.loads, "two\nlines \x1b")
    assert "JSONDecodeError: " in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1


# ---- one process per task ------------------------------------------------------------------------


def test_crashed_process_costs_its_own_task(tmp_path: Path) -> None:
    listed = tasks(tmp_path, "work", "die", "work", "exit", "raise", "work")
    done = list(run_each(work, listed, jobs=2, scratch=tmp_path, deadline_s=60))
    errors = {finished.task["name"]: finished.error for finished in done}
    assert errors == {
        "0-work": None,
        "1-die": "the grading process died (SIGKILL)",
        "2-work": None,
        "3-exit": "the grading process died (exit status 3)",
        "4-raise": "RuntimeError: a bug of ours",
        "5-work": None,
    }
    tried = (tmp_path / "tried").read_text().split()
    assert {name: tried.count(name) for name in errors} == {
        name: 1 if error is None else 2 for name, error in errors.items()
    }
    results = [finished.result for finished in done if finished.error is None]
    assert len({result["pid"] for result in results}) == 3
    assert os.getpid() not in {result["pid"] for result in results}


def test_temporary_files_are_removed_with_their_process(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    listed = tasks(tmp_path, "work", "die")
    done = list(run_each(work, listed, jobs=1, scratch=scratch, deadline_s=60))
    assert Path(done[0].result["leftover"]).is_relative_to(scratch)
    assert list(scratch.iterdir()) == []


def test_deadline_kills_and_is_reported_once(tmp_path: Path) -> None:
    listed = tasks(tmp_path, "sleep", "work")
    done = list(run_each(work, listed, jobs=2, scratch=tmp_path, deadline_s=3))
    assert [finished.error for finished in done] == [None, "not graded within 3 s"]
    assert (tmp_path / "tried").read_text().count("sleep") == 1


def test_closing_kills_what_still_runs(tmp_path: Path) -> None:
    listed = tasks(tmp_path, "work", "sleep", "sleep")
    with closing(run_each(work, listed, jobs=2, scratch=tmp_path, deadline_s=60)) as results:
        first = next(results)
    assert first.error is None
    assert list(tmp_path.glob("slot-*")) == []


def test_ctrl_c_in_the_callback_of_a_weak_reference_is_not_lost(tmp_path: Path) -> None:
    things: list[set[int]] = [set()]
    gone = weakref.ref(things[0], lambda _: os.kill(os.getpid(), signal.SIGINT))
    listed = tasks(tmp_path, "work")
    with (
        on_interrupt(note_interrupt),
        closing(run_each(work, listed, jobs=1, scratch=tmp_path, deadline_s=60)) as results,
    ):
        things.clear()
        with pytest.raises(KeyboardInterrupt):
            list(results)
    assert gone() is None
    assert not (tmp_path / "tried").exists()


OWNER = """
import sys
from pathlib import Path
from tcplab.grading.processes import run_each
from tests.support.grading.deeds import tasks, work

folder = Path(sys.argv[1])
todo = tasks(folder, "sleep", "sleep")
list(run_each(work, todo, jobs=2, scratch=folder, deadline_s=600))
"""


def test_processes_end_with_an_owner_that_is_killed(tmp_path: Path) -> None:
    tried, mark = tmp_path / "tried", f"POOL_TEST={tmp_path}"
    (temporary := tmp_path / "temporary").mkdir()
    environment = {**os.environ, "POOL_TEST": str(tmp_path), "TMPDIR": str(temporary)}
    owner = subprocess.Popen([sys.executable, "-c", OWNER, str(tmp_path)], env=environment)
    until(lambda: tried.exists() and len(tried.read_text().split()) == 2)
    assert len(processes_with(mark)) == 3  # the owner and two sleeping tasks
    owner.kill()
    owner.wait()
    until(lambda: not processes_with(mark))
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("jobs", [1, 3])
def test_no_more_than_the_jobs_run_at_a_time(tmp_path: Path, jobs: int) -> None:
    listed = tasks(tmp_path, *["work"] * 6)
    with closing(run_each(work, listed, jobs=jobs, scratch=tmp_path, deadline_s=60)) as results:
        for _ in each(results):
            assert len(list(tmp_path.glob("slot-*"))) <= jobs
