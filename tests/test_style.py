"""`make lint`, target by target: style, types and compiler warnings fail like any other test."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


TARGETS = ["lint-style", "lint-types", "lint-c", "lint-shell", "lint-analysis"]


@pytest.mark.timeout(600)  # a first run of mypy, on a busy machine
@pytest.mark.parametrize("target", TARGETS)
def test_lint(target: str) -> None:
    if not os.access(ROOT, os.W_OK):
        pytest.skip("the checks write into build/, and this user may not write there")
    needed = ["make", *(["shellcheck"] if target == "lint-shell" else [])]
    for tool in needed:
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed: apt install {tool}")
    # Not the make that may have started pytest: its flags and depth are not for this one.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    ran = subprocess.run(
        ["make", "--no-print-directory", target],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, f"make {target}\n{ran.stdout}{ran.stderr}"
