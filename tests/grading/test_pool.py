"""The processes that grade: replaced when they die, ended with whoever started them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tcplab.errors import LabError
from tcplab.grading.crew import Crew

OWNER = """
import sys, time
from pathlib import Path
from tcplab.grading.crew import Crew

with Crew([sys.argv[1], "tiny"]) as crew:
    folder = Path(sys.argv[1])
    workers = [crew.start(folder / "log", folder) for _ in range(2)]
    print("started", flush=True)
    time.sleep(600)
"""


def workers_of(course: Path) -> list[int]:
    """Living processes whose command names the folder; one that has ended has no command."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if str(course).encode() in command and b"grading.worker" in command:
                found.append(int(entry.name))
    return found


def test_a_worker_that_died_is_noticed_and_another_one_answers(tmp_path: Path) -> None:
    (tmp_path / "nbgrader_config.py").write_text("c = get_config()")
    with Crew([str(tmp_path), "tiny", "--no-feedback"]) as crew:
        dead, worker = (crew.start(tmp_path / f"log-{n}", tmp_path) for n in range(2))
        dead.kill()
        assert dead.stdout.readline() == ""
        crew.dismiss(dead, kill=True)
        # Neither a grade nor feedback is wanted: an answer all the same.
        worker.stdin.write(json.dumps({"student": "ada", "grade": False}) + "\n")
        worker.stdin.flush()
        told = json.loads(worker.stdout.readline())
        assert (told["student"], told["error"]) == ("ada", None)
        crew.dismiss(worker)
        assert len(workers_of(tmp_path)) == 1  # the one that forks them
        crew.end()
        with pytest.raises(LabError, match="the batch has ended"):
            crew.start(tmp_path / "log", tmp_path)
    assert workers_of(tmp_path) == []


def test_why_no_worker_could_be_started_is_told(tmp_path: Path) -> None:
    with (
        Crew([str(tmp_path), "tiny", "--no-such-option"]) as crew,
        pytest.raises(LabError, match=r"could be started: .*unrecognized arguments"),
    ):
        crew.start(tmp_path / "log", tmp_path)


def test_workers_end_with_an_owner_that_is_killed(tmp_path: Path) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    with owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "started\n"
        assert len(workers_of(tmp_path)) == 3
        os.kill(owner.pid, signal.SIGKILL)
    deadline_s = time.monotonic() + 60
    while workers_of(tmp_path) and time.monotonic() < deadline_s:
        time.sleep(0.05)
    assert workers_of(tmp_path) == []
