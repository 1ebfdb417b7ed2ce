"""The wheel that a package index would serve: programs, sources and licences."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tests.fast.course.test_packaging import PROGRAMS, PROJECT
from tests.support.paths import ROOT


def test_wheel_has_programs_sources_and_licences(tmp_path: Path) -> None:
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    if uv is None:
        pytest.skip("uv is not installed: make setup-dev")
    build = [uv, "build", "--quiet", "--wheel", "--offline", "--no-build-isolation"]
    run_checked(
        [*build, "-C", f"build-dir={tmp_path}/build", "-o", str(tmp_path / "dist"), str(ROOT)]
    )
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    assert wheel.name.startswith(f"tcplab-{PROJECT['version']}-py3-none-linux")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        licences = {each for each in names if "/licenses/" in each}
        assert {Path(each).name for each in licences} == set(PROJECT["license-files"])
        template = (ROOT / "src").glob("tcplab/grading/template/**/*.*")
        style = ROOT / "src/tcplab/figures/tcplab.mplstyle"
        sources = [*(ROOT / "src").glob("tcplab/**/*.py"), *template, style]
        assert {str(each.relative_to(ROOT / "src")) for each in sources} <= names

    # The archive keeps the permission to execute, and an installer honours it.
    site = tmp_path / "site"
    install = [uv, "pip", "install", "--quiet", "--offline", "--no-deps"]
    run_checked([*install, "--python", sys.executable, "--target", str(site), str(wheel)])
    assert {each.name for each in (site / "tcplab" / "bin").iterdir()} == PROGRAMS
    assert all(os.access(site / "tcplab" / "bin" / each, os.X_OK) for each in PROGRAMS)
    c_files = list((ROOT / "src").glob("[!t]*/**/*.[ch]"))  # without those of tcplab itself
    assert c_files
    for source in c_files:
        copied = site / "tcplab/sources" / source.relative_to(ROOT / "src")
        assert copied.read_bytes() == source.read_bytes()

    # With `tcplab quickstart`, the wheel alone is enough for a learner.
    course = tmp_path / "course"
    words = [sys.executable, "-P", "-c", QUICKSTART, str(site), str(course)]
    run_checked(words)
    for path in (*(ROOT / "lessons").glob("*.ipynb"), *(ROOT / "exercises").glob("*/*.ipynb")):
        assert (course / path.relative_to(ROOT)).read_bytes() == path.read_bytes()
    assert (course / "start.ipynb").is_file()
    assert not list(course.rglob("judge.py"))


#: Not the editable install's tcplab, whose finder comes first.
QUICKSTART = """
import sys
sys.meta_path = [each for each in sys.meta_path if "editable" not in type(each).__module__.lower()]
sys.path.insert(0, sys.argv[1])
from tcplab.cli import main
sys.exit(main(["quickstart", sys.argv[2]]))
"""


def run_checked(command: list[str]) -> None:
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
