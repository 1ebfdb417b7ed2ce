"""The release is reproducible, and the student's bundle has no solutions."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from tests.fast.course.test_packaging import PROGRAMS, PROJECT
from tests.support.commands import completed
from tests.support.needs import NO_REPOSITORY, need
from tests.support.nonempty import each
from tests.support.paths import ROOT

# The first test waits for the build, which compiles every program twice.
pytestmark = pytest.mark.timeout(400)


def release(directory: Path) -> dict[str, Path]:
    """Build a release; return the path of each file, by name."""
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
    (file,) = (path for name, path in built.items() if name.endswith(end))
    return file


def names(path: Path) -> list[str]:
    with zipfile.ZipFile(path) as zipped:
        return [name.partition("/")[2] for name in zipped.namelist()]


def test_two_builds_are_equal_byte_for_byte(built: dict[str, Path], tmp_path: Path) -> None:
    again = release(tmp_path)
    assert again.keys() == built.keys()
    for name, path in built.items():
        assert again[name].read_bytes() == path.read_bytes(), name


def test_checksums_match_and_programs_name_no_build_directory(built: dict[str, Path]) -> None:
    lines = [line.split("  ") for line in built["SHA256SUMS"].read_text().splitlines()]
    assert {name for _digest, name in lines} == built.keys() - {"SHA256SUMS"}
    for digest, name in lines:
        assert hashlib.sha256(built[name].read_bytes()).hexdigest() == digest
    with zipfile.ZipFile(of_kind(built, ".whl")) as wheel:
        for name in each(name for name in wheel.namelist() if "/bin/" in name):
            assert b"tcplab-release-" not in wheel.read(name), name


def test_links_of_the_bundle_resolve_and_setup_is_executable(built: dict[str, Path]) -> None:
    with zipfile.ZipFile(of_kind(built, "-student.zip")) as zipped:
        entries = {entry.filename.partition("/")[2]: entry for entry in zipped.infolist()}
        assert entries["tools/setup"].external_attr >> 16 & 0o111
        # Links in docs/book hold in the finished book, where these pages are one folder higher.
        for page in each(name for name in entries if re.match(r"(?!docs/book/).*\.md$", name)):
            text = zipped.read(entries[page]).decode()
            for target in re.findall(r"\]\((?![a-z]+:)([^()#\s]+)", text):
                linked = os.path.normpath(Path(page).parent / target)
                assert any(name == linked or name.startswith(f"{linked}/") for name in entries)


def test_student_bundle_has_no_solutions(built: dict[str, Path]) -> None:
    bundle = of_kind(built, "-student.zip")
    entries = names(bundle)
    needed = {"Makefile", "README.md", "locks/requirements.lock", "src/laboratory/wire/wire.c"}
    assert needed <= set(entries)
    assert any(name.startswith("lessons/") for name in entries)
    forbidden = ("solutions/", "tests/", "bench/", "deploy/", "docs/instructors-guide.md")
    assert not [name for name in entries if name.startswith(forbidden)]
    answers = re.compile(rb"#+ BEGIN (SOLUTION|HIDDEN|MARK)|BEGIN_HIDDEN")
    with zipfile.ZipFile(bundle) as zipped:
        for name in zipped.namelist():
            # The template of an assignment has solution marks, but no answers between them.
            marked = name.endswith((".py", "/Makefile")) or "/grading/template/" in name
            if not marked and "/tools/" not in name:
                assert not answers.search(zipped.read(name)), name


def test_make_in_the_student_bundle(built: dict[str, Path], tmp_path: Path) -> None:
    """Its tests are refused, and an address is written where other tools find it."""
    with zipfile.ZipFile(of_kind(built, "-student.zip")) as zipped:
        zipped.extractall(tmp_path)
    (bundle,) = tmp_path.iterdir()
    ran = completed(["make", "test"], cwd=bundle)
    assert ran.returncode == 2
    first, *_ = ran.stderr.splitlines()
    assert first == (
        "make: a student bundle has no tests; the repository and the instructor bundle have them"
    )
    assert not (bundle / ".venv").exists()
    assert "the address is missing" in completed(["make", "address", "URL=x"], cwd=bundle).stderr
    url = "https://host.example/tcplab"
    completed(["make", "address", f"URL={url}"], cwd=bundle, check=True)
    project = tomllib.loads((bundle / "pyproject.toml").read_text())["project"]
    assert project["urls"] == {"Homepage": url, "Issues": f"{url}/issues"}
    assert f'\nrepository-code: "{url}"\n' in (bundle / "CITATION.cff").read_text()
    assert f"git clone {url} tcplab" in (bundle / "README.md").read_text()


def test_instructor_bundle_has_every_tracked_file(built: dict[str, Path]) -> None:
    tracked = completed(["git", "ls-tree", "-r", "--name-only", "HEAD"], cwd=ROOT, check=True)
    assert sorted(names(of_kind(built, "-instructor.zip"))) == sorted(tracked.stdout.splitlines())


def test_wheel_has_programs_sources_and_licences(built: dict[str, Path], tmp_path: Path) -> None:
    """The wheel, with `tcplab quickstart`, is all that a learner needs."""
    status = ["git", "status", "--porcelain", "--untracked-files=no"]
    if subprocess.run(status, cwd=ROOT, capture_output=True, check=True).stdout:
        pytest.skip("a release is built from what is committed, and this tree has changes")
    wheel = of_kind(built, ".whl")
    assert re.match(rf"tcplab-{PROJECT['version']}-py3-none-\w*linux", wheel.name)
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        licences = {name for name in names if "/licenses/" in name and not name.endswith("/")}
        assert {Path(licence).name for licence in licences} == set(PROJECT["license-files"])
        template = (ROOT / "src").glob("tcplab/grading/template/**/*.*")
        style = ROOT / "src/tcplab/figures/tcplab.mplstyle"
        sources = [*(ROOT / "src").glob("tcplab/**/*.py"), *template, style]
        assert {str(source.relative_to(ROOT / "src")) for source in sources} <= names

    # The archive keeps the execute permission, and an installer honours it.
    site = tmp_path / "site"
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or "uv"
    install = [uv, "pip", "install", "--quiet", "--offline", "--no-deps"]
    run_checked([*install, "--python", sys.executable, "--target", str(site), str(wheel)])
    assert {program.name for program in (site / "tcplab" / "bin").iterdir()} == PROGRAMS
    assert all(os.access(site / "tcplab" / "bin" / program, os.X_OK) for program in PROGRAMS)
    c_files = list((ROOT / "src").glob("[!t]*/**/*.[ch]"))  # all C files except those in tcplab
    assert c_files
    for source in c_files:
        copied = site / "tcplab/sources" / source.relative_to(ROOT / "src")
        assert copied.read_bytes() == source.read_bytes()

    course = tmp_path / "course"
    run_checked([sys.executable, "-P", "-c", QUICKSTART, str(site), str(course)])
    for path in (*(ROOT / "lessons").glob("*.ipynb"), *(ROOT / "exercises").glob("*/*.ipynb")):
        assert (course / path.relative_to(ROOT)).read_bytes() == path.read_bytes()
    assert (course / "start.ipynb").is_file()
    assert not list(course.rglob("judge.py"))


#: Import the wheel's tcplab, not that of the editable install, whose finder comes first.
QUICKSTART = """
import sys
sys.meta_path = [f for f in sys.meta_path if "editable" not in type(f).__module__.lower()]
sys.path.insert(0, sys.argv[1])
from tcplab.cli import main
sys.exit(main(["quickstart", sys.argv[2]]))
"""


def run_checked(command: list[str]) -> None:
    ran = completed(command)
    assert ran.returncode == 0, ran.stderr
