"""A fault at any write of a command leaves nothing half made, and the next run completes it."""

import errno
import itertools
import json
import multiprocessing
import os
import shutil
import signal
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.lab.grading.test_drawing import course  # noqa: F401
from tests.support.commands import completed
from tests.support.grading.fixtures import Tiny
from tests.support.lifetime import until
from tests.support.needs import needs_root

from tcplab.cli import main
from tcplab.errors import ParameterError, StepError
from tcplab.grading.processes import apart
from tcplab.grading.release import generate

#: Commands that write, in a course with a download, a page for ada and a list of the class.
COMMANDS: Mapping[str, Sequence[str]] = {
    "collect": ["tiny", "download", "--students", "class"],
    "give-back": ["tiny", "download"],
    "handout": ["tiny", "--students", "class", "--into", "{student}.zip"],
    "draw": ["--captures", "3"],
}
WRITES = os.O_WRONLY | os.O_RDWR


def faulty(arguments: Sequence[str], folder: str, at: int, fault: int) -> tuple[int, bool]:
    """Run a command whose write `at` below a folder fails; return its status, and if it had one.

    A write is the opening of a file for it, a renaming or the creation of a folder.
    """
    left = multiprocessing.Value("i", at)  # shared with the processes that the command forks

    def fail(event: str, given: tuple[Any, ...]) -> None:
        is_write = event in ("os.rename", "os.mkdir") or (event == "open" and given[2] & WRITES)
        if is_write and str(given[0]).startswith(folder):
            left.value -= 1
            if left.value == 0 and fault == signal.SIGKILL:
                os.kill(os.getpid(), fault)
            elif left.value == 0:
                raise OSError(fault, os.strerror(fault), given[0])

    sys.dont_write_bytecode = True
    sys.addaudithook(fail)
    return main(arguments), left.value <= 0


def outcome(arguments: Sequence[str], folder: Path, at: int, fault: int) -> tuple[Any, bool]:
    """Run faulty() in its own process; the status is a text if this process was killed."""
    try:
        status, had_one = apart(faulty, arguments, str(folder), at, fault)
    except StepError as died:
        status, had_one = str(died), True
    until(lambda: not list(folder.glob("reports/*/tcplab-*")))  # its keeper removes it
    return status, had_one


def content(folder: Path) -> dict[str, Any]:
    """Return all that a command made, by path, after reading each archive and each JSON file."""
    found: dict[str, Any] = {}
    for path in folder.rglob("*"):
        name = str(path.relative_to(folder))
        if path.is_dir() or name.endswith((".lock", ".db", ".pyc")):
            continue
        if path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive:
                found[name] = {one: archive.read(one) for one in archive.namelist()}
        else:
            found[name] = path.read_bytes()
            assert path.suffix != ".json" or json.loads(found[name])
    return found


def arguments(command: str, folder: Path) -> list[str]:
    ours = {word: str(folder / word) for word in ("download", "class")}
    return [command, *(ours.get(word, word) for word in COMMANDS[command]), "--course", str(folder)]


def prepare(tiny: Tiny, folder: Path) -> None:
    """Put a download, a class of one and a page into a course."""
    shutil.make_archive(str(folder / "download" / "ada"), "zip", tiny.exercise)
    (folder / "class").write_text("ada\n")
    page = folder / "feedback" / "ada" / "tiny" / "tiny.html"
    page.parent.mkdir(parents=True)
    page.write_text("of ada")


@pytest.mark.parametrize("fault", [errno.ENOSPC, errno.EIO, errno.EACCES, signal.SIGKILL])
@pytest.mark.parametrize("command", COMMANDS)
def test_fault_at_any_write_is_survived(
    command: str,
    fault: int,
    tiny: Tiny,
    course: Path,  # noqa: F811
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    prepare(tiny, course)
    shutil.copytree(course, right := tmp_path / "right")
    assert main(arguments(command, right)) == 0
    for at in itertools.count(1):
        shutil.copytree(course, copy := tmp_path / str(at))
        capfd.readouterr()
        status, had_one = outcome(arguments(command, copy), copy, at, fault)
        output = capfd.readouterr()
        if not had_one:
            break
        assert "Traceback" not in output.err, output.err
        left = [str(path) for path in copy.rglob(".*") if path.suffix != ".lock"]
        content(copy)
        if status == 0:  # a way round was found, as for a folder that exists already
            assert content(copy) == content(right)
        elif fault != signal.SIGKILL:
            assert (status, left) == (1, []), output.err
            assert os.strerror(fault) in output.err
        assert main(arguments(command, copy)) == 0
        assert content(copy) == content(right)
    assert at > 3


#: Run a command on a disk with "$1" KiB left, then again with space; "$2" gets the content.
ON_A_FULL_DISK = """
mount -t tmpfs -o size=8m tmpfs "$PWD" && cd "$PWD" && cp -a "$0/." . || exit 9
dd if=/dev/zero of=.filling bs=1K status=none; truncate -s -$1K .filling
keep=$2; shift 2; "$@"; echo "ended with $?"
rm .filling; cp -a . "$keep-full" && "$@" && cp -a . "$keep"
"""


@needs_root
@pytest.mark.parametrize("spare_kib", [0, 4, 12, 40])
@pytest.mark.parametrize("command", COMMANDS)
def test_full_disk_is_survived(
    command: str,
    spare_kib: int,
    tiny: Tiny,
    course: Path,  # noqa: F811
    tmp_path: Path,
) -> None:
    """Writes fail after files were opened, unlike above."""
    prepare(tiny, course)
    shutil.copytree(course, right := tmp_path / "right")
    assert main(arguments(command, right)) == 0
    (small := tmp_path / "small").mkdir()
    script = ["unshare", "--mount", "sh", "-c", ON_A_FULL_DISK, course, str(spare_kib)]
    typed = [sys.executable, "-m", "tcplab", *arguments(command, small)]
    done = completed([*script, tmp_path / "after", *typed], cwd=small, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    if "ended with 0" not in done.stdout:
        assert os.strerror(errno.ENOSPC) in done.stderr
        full = [path.name for path in (tmp_path / "after-full").rglob(".*")]
        assert [name for name in full if not name.endswith(".lock")] == []
    content(tmp_path / "after-full")
    assert content(tmp_path / "after") == content(right)


#: Code of a scene, which fails while there is a file named "busy" in its folder.
BUSY = """import pathlib, tcplab.errors
    if pathlib.Path(__file__).with_name("busy").exists():
        raise tcplab.errors.LabError("is this machine busy?")
    TRIES.append"""


def test_draw_on_a_busy_machine_goes_on_and_leaves_no_old_captures(
    course: Path,  # noqa: F811
    capsys: pytest.CaptureFixture[str],
) -> None:
    tiny, other = (course / "solutions" / name for name in ("tiny", "other"))
    shutil.copytree(tiny, other)
    (other / "tiny.ipynb").rename(other / "other.ipynb")
    draw = ["draw", "--course", str(course), "--captures", "3"]
    assert main(draw) == 0
    keys = {source: (source / "course.json").read_text() for source in (tiny, other)}
    for busy, drawn, status in (((other,), (tiny,), 3), ((tiny, other), (), 1)):
        for source in busy:
            (source / "hidden" / "busy").touch()
            scenes = source / "hidden" / "scenes.py"
            scenes.write_text(scenes.read_text().replace("TRIES.append", BUSY))
        capsys.readouterr()
        assert main([*draw, "--new-secret"]) == status
        error = capsys.readouterr().err
        for source in busy:
            assert error.count(f"{source.name}: not drawn: is this machine busy?") == 2
            assert not (source / "captures.zip").exists()
            with pytest.raises(ParameterError, match=rf"no captures\.zip: .*draw {source.name}"):
                generate(course, course / "exercises", [source.name])
        for source in (tiny, other):
            assert (source / "course.json").read_text() != keys[source]
        assert [source for source in drawn if not (source / "captures.zip").exists()] == []
        names = " ".join(sorted(source.name for source in busy))
        rest = f"tcplab draw --captures 3 --course {course} {names}"
        assert f"{len(busy)} not drawn; to go on: {rest}\n" in error
        for source in busy:
            (source / "hidden" / "busy").unlink()
        assert main(rest.split()[1:]) == 0
        assert all((source / "captures.zip").exists() for source in (tiny, other))
