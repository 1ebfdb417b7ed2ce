"""The release: reproducible, and without solutions in the student's bundle."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tests.support.needs import NO_REPOSITORY, need
from tests.support.paths import ROOT

# The first test waits for the build, which compiles every program twice.
pytestmark = pytest.mark.timeout(400)


def release(directory: Path) -> dict[str, Path]:
    """File name -> path of all that was built."""
    subprocess.run(
        [sys.executable, ROOT / "tools/make-release", "--no-book", directory],
        check=True,
        capture_output=True,
    )
    return {path.name: path for path in directory.iterdir()}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    need("git")
    if not (ROOT / ".git").exists():
        pytest.skip(NO_REPOSITORY)
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, check=False)
    if head.returncode:
        pytest.skip("git does not read this repository (another owner?)")
    return release(tmp_path_factory.mktemp("release"))


def of_kind(built: dict[str, Path], end: str) -> Path:
    (found,) = (path for name, path in built.items() if name.endswith(end))
    return found


def names(path: Path) -> list[str]:
    with zipfile.ZipFile(path) as zipped:
        return [name.partition("/")[2] for name in zipped.namelist()]


def test_two_builds_are_equal_byte_for_byte(built: dict[str, Path], tmp_path: Path) -> None:
    again = release(tmp_path)
    assert again.keys() == built.keys()
    for name, path in built.items():
        assert again[name].read_bytes() == path.read_bytes(), name


def test_checksums_match(built: dict[str, Path]) -> None:
    lines = built["SHA256SUMS"].read_text().splitlines()
    assert len(lines) == len(built) - 1
    for line in lines:
        digest, name = line.split("  ")
        assert hashlib.sha256(built[name].read_bytes()).hexdigest() == digest


def test_student_bundle_has_no_solutions(built: dict[str, Path]) -> None:
    bundle = of_kind(built, "-student.zip")
    found = names(bundle)
    for needed in (
        "Makefile",
        "README.md",
        "locks/requirements.lock",
        "src/laboratory/wire/wire.c",
    ):
        assert needed in found
    assert any(name.startswith("lessons/") for name in found)
    forbidden = ("solutions/", "tests/", "bench/", "deploy/", "docs/instructors-guide.md")
    assert not [name for name in found if name.startswith(forbidden)]
    answers = re.compile(rb"#+ BEGIN (SOLUTION|HIDDEN|MARK)|BEGIN_HIDDEN")
    with zipfile.ZipFile(bundle) as zipped:
        for name in zipped.namelist():
            # The template of an assignment has marks, and no answers between them.
            marked = name.endswith((".py", "/Makefile")) or "/grading/template/" in name
            if not marked and "/tools/" not in name:
                assert not answers.search(zipped.read(name)), name


def test_links_of_the_student_bundle_resolve(built: dict[str, Path]) -> None:
    bundle = of_kind(built, "-student.zip")
    bundled = set(names(bundle))
    pages = 0
    with zipfile.ZipFile(bundle) as zipped:
        for entry in zipped.namelist():
            page = entry.partition("/")[2]
            if not page.endswith(".md") or page.startswith("docs/book/"):  # those move to the top
                continue
            pages += 1
            for target in re.findall(r"\]\((?![a-z]+:)([^()#\s]+)", zipped.read(entry).decode()):
                linked = os.path.normpath(Path(page).parent / target)
                assert linked in bundled or any(name.startswith(f"{linked}/") for name in bundled)
    assert pages > 4


def test_make_test_in_the_student_bundle_is_refused(built: dict[str, Path], tmp_path: Path) -> None:
    with zipfile.ZipFile(of_kind(built, "-student.zip")) as zipped:
        zipped.extractall(tmp_path)
    (bundle,) = tmp_path.iterdir()
    ran = subprocess.run(["make", "test"], cwd=bundle, capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    first, *_ = ran.stderr.splitlines()
    assert first == (
        "make: a student bundle has no tests; the repository and the instructor bundle have them"
    )
    assert not (bundle / ".venv").exists()


def test_instructor_bundle_has_every_tracked_file(built: dict[str, Path]) -> None:
    tracked = subprocess.run(
        ["git", "ls-tree", "-r", "--name-only", "HEAD"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert sorted(names(of_kind(built, "-instructor.zip"))) == sorted(tracked.stdout.splitlines())


def test_programs_stay_executable(built: dict[str, Path]) -> None:
    with zipfile.ZipFile(of_kind(built, "-student.zip")) as zipped:
        (setup,) = (entry for entry in zipped.infolist() if entry.filename.endswith("/tools/setup"))
        assert setup.external_attr >> 16 & 0o111


def test_wheel_names_no_build_directory(
    built: dict[str, Path],
) -> None:
    with zipfile.ZipFile(of_kind(built, ".whl")) as wheel:
        programs = [name for name in wheel.namelist() if "/bin/" in name]
        assert programs
        for name in programs:
            assert b"tcplab-release-" not in wheel.read(name), name
