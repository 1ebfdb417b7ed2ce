"""A class on several machines is graded once, even if workers or the scheduler fail."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from tests.support.grading.damaged import changed, set_source
from tests.support.grading.fixtures import Tiny, graded_by_command, refused, scores
from tests.support.lifetime import descendants, until
from tests.support.needs import need_module

from tcplab.grading.cluster import Needs, _why_no_sandbox
from tcplab.lab import Loopback
from tcplab.programs.pair import held_port

#: Code that notes when the grading of a student begins and ends.
NOTES = """
import os
from pathlib import Path

def note(word):
    def hook(assignment, student, notebooks):
        with (Path(__file__).parent / "notes").open("a") as file:
            file.write(f"{word} {student} {os.getpid()}\\n")
    return hook

get_config().Autograde.pre_convert_hook = note("begins")
get_config().Autograde.post_convert_hook = note("ends")
"""
#: Students, each with the points that the grader must give.
CLASS = {f"student-{n:02}": (5.0, 3.0, 0.0)[n % 3] for n in range(9)}


class Cluster:
    """A Dask scheduler and its workers, on this machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.held = ExitStack()
        machine = self.held.enter_context(Loopback())
        self.port = self.held.enter_context(held_port(machine.server))
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.started: list[subprocess.Popen[bytes]] = []

    def _start(self, *arguments: str) -> subprocess.Popen[bytes]:
        log = (self.folder / f"{len(self.started)}.log").open("wb")
        environment = {**os.environ, "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "10s"}
        with log:
            process = subprocess.Popen(
                [sys.executable, "-m", *arguments],
                cwd=self.folder,
                env=environment,
                stdout=log,
                stderr=log,
            )
        self.started.append(process)
        return process

    def scheduler(self) -> subprocess.Popen[bytes]:
        options = ["--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard"]
        return self._start("distributed.cli.dask_scheduler", *options)

    def worker(self, *arguments: str) -> subprocess.Popen[bytes]:
        local = ["--local-directory", str(self.folder), "--no-dashboard", "--nthreads", "1"]
        options = [*local, *(arguments or ["--no-nanny"])]
        return self._start("distributed.cli.dask_worker", self.address, *options)

    def close(self) -> None:
        for process in self.started:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()
        self.held.close()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    need_module("distributed", "distributed")
    cluster = Cluster(tmp_path)
    yield cluster
    cluster.close()


def class_in(tiny: Tiny, course: Path) -> Path:
    shutil.copytree(tiny.course, course)
    with (course / "nbgrader_config.py").open("a") as config:
        config.write(NOTES)
    for student, score in CLASS.items():
        submission = tiny.hand_in(course / "submitted" / student, solved=score > 0)
        if score == 3.0:
            changed(set_source("q1-answer", "q1_sum = 1"))(submission)
    return course


def notes(course: Path, word: str) -> Counter[str]:
    path = course / "notes"
    lines = path.read_text().splitlines() if path.is_file() else []
    return Counter(line.split()[1] for line in lines if line.startswith(word))


def at_work(course: Path, worker: subprocess.Popen[bytes]) -> bool:
    """Return whether a process of the worker is grading a student.

    If a process is killed after the end of the notebook, but before the result is stored, it is
    right that the student is graded twice.
    """
    path = course / "notes"
    lines = [line.split() for line in path.read_text().splitlines()] if path.is_file() else []
    begun = Counter(int(pid) for word, _student, pid in lines if word == "begins")
    begun.subtract(int(pid) for word, _student, pid in lines if word == "ends")
    return any(begun[pid] > 0 for pid in descendants(worker.pid))


def assert_each_once(course: Path) -> None:
    assert scores(course) == CLASS
    assert notes(course, "ends") == dict.fromkeys(CLASS, 1)
    for student in CLASS:
        assert (course / "feedback" / student / "tiny" / "tiny.html").is_file(), student


def test_each_student_is_graded_once_despite_failures(
    tiny: Tiny, tmp_path: Path, cluster: Cluster
) -> None:
    course = class_in(tiny, tmp_path / "course")
    scheduler = cluster.scheduler()
    killed, stalled, _ = (cluster.worker() for _ in range(3))
    grader = graded_by_command(course, "--again", "--scheduler", cluster.address)
    until(lambda: len(notes(course, "ends")) >= 1 and at_work(course, killed), 180)
    killed.kill()
    until(lambda: at_work(course, stalled), 180)
    stalled.send_signal(signal.SIGSTOP)
    until(lambda: len(notes(course, "ends")) >= 4, 180)
    scheduler.kill()
    scheduler.wait()
    output, _ = grader.communicate(timeout=120)
    assert grader.returncode == 1, output
    assert output.splitlines()[-1].endswith("run the same command again to continue"), output
    assert "Traceback" not in output
    cluster.scheduler()
    cluster.worker()
    grader = graded_by_command(course, "--scheduler", cluster.address)
    output, _ = grader.communicate(timeout=300)
    assert grader.returncode == 0, output
    assert_each_once(course)


def test_ctrl_c_prints_one_line_and_loses_nothing(
    tiny: Tiny, tmp_path: Path, cluster: Cluster
) -> None:
    course = class_in(tiny, tmp_path / "course")
    cluster.scheduler()
    cluster.worker()
    grader = graded_by_command(course, "--scheduler", cluster.address)
    until(lambda: len(notes(course, "ends")) >= 2, 180)
    grader.send_signal(signal.SIGINT)
    output, _ = grader.communicate(timeout=120)
    assert (grader.returncode, "Traceback" in output) == (130, False), output
    assert [line for line in output.splitlines() if line.startswith("tcplab:")] == [
        "tcplab: interrupted; the same command continues from here"
    ]
    again = graded_by_command(course, "--scheduler", cluster.address)
    output, _ = again.communicate(timeout=300)
    assert again.returncode == 0, output
    assert_each_once(course)


def test_worker_unable_to_grade_gets_no_work(tiny: Tiny, tmp_path: Path, cluster: Cluster) -> None:
    """A worker under Dask's nanny may not start processes, so it cannot grade."""
    course = class_in(tiny, tmp_path / "course")
    cluster.scheduler()
    cluster.worker("--nanny")
    grader = graded_by_command(course, "--scheduler", cluster.address)
    assert grader.stdout is not None
    output = ""
    while "it gets no work" not in output:
        output += (line := grader.stdout.readline())
        assert line, output
    cluster.worker()
    more, _ = grader.communicate(timeout=300)
    assert grader.returncode == 0, output + more
    assert "may start no processes: start it with --no-nanny" in output
    assert_each_once(course)


def test_worker_reports_what_its_machine_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = socket.gethostname()
    assert "must be the same on all machines" in (Needs(tmp_path, here).lacking() or "")
    (tmp_path / "nbgrader_config.py").touch()
    assert Needs(tmp_path, here).lacking() is Needs(tmp_path, "").lacking() is None
    assert "use PostgreSQL" in (Needs(tmp_path, f"not-{here}").lacking() or "")
    monkeypatch.setattr("tcplab.grading.sandbox._environment", lambda _extra: {"PATH": "/nowhere"})
    _why_no_sandbox.cache_clear()
    assert "no C program can be built" in (Needs(tmp_path, here).lacking() or "")
    _why_no_sandbox.cache_clear()


def test_invalid_options_are_reported_in_one_line(
    tiny: Tiny, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    need_module("distributed", "distributed")
    course = class_in(tiny, tmp_path / "course")
    for arguments, complaint in (
        (["--scheduler", "10.0.0.5:port"], "scheduler '10.0.0.5:port'"),
        (["--scheduler", "x", "--jobs", "2"], "jobs=2 applies to this machine only"),
    ):
        command = ["grade", "tiny", "--course", str(course), *arguments]
        assert complaint in refused(command, capsys)
