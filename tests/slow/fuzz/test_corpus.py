"""Every input that the fuzz targets keep, with sanitizers; tests/fuzz/run finds others."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from tests.support.needs import SANITIZERS, need
from tests.support.paths import ROOT

HERE = ROOT / "tests/fuzz"
COMMON = ROOT / "src/common"
FLAGS = ["-std=gnu17", "-O1", "-g", "-Wno-return-type", "-fno-sanitize-recover=all", f"-I{COMMON}"]


@pytest.mark.parametrize("target", ["command_line", "udpsink", "recordsink"])
def test_corpus(target: str, tmp_path: Path) -> None:
    compiler = need("cc")
    program = tmp_path / target
    sources = [str(HERE / f"{target}.c"), str(HERE / "standalone.c")]
    command = [compiler, *FLAGS, "-fsanitize=address,undefined", *sources, "-o", str(program)]
    built = subprocess.run([*command, "-lm"], capture_output=True, text=True, check=False)
    if "cannot find -lasan" in built.stderr or "cannot find libasan" in built.stderr:
        pytest.skip(SANITIZERS)
    assert built.returncode == 0, built.stderr
    inputs = sorted(map(str, (HERE / "corpus" / target).iterdir()))
    assert len(inputs) >= 8
    done = subprocess.run(
        [str(program), *inputs],
        # LeakSanitizer needs ptrace(2), which many containers forbid; the tests of the programs
        # look for leaks where they can.
        env=os.environ | {"ASAN_OPTIONS": "detect_leaks=0"},
        capture_output=True,
        text=True,
        errors="replace",  # it quotes what is not text
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
