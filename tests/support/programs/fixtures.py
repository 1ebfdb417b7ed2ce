"""Provide the C programs as installed, and built with AddressSanitizer and UBSan."""

import fcntl
import os
import shutil
import sys
from pathlib import Path

import pytest
from tests.support.commands import completed
from tests.support.needs import SANITIZERS, need
from tests.support.paths import ROOT
from tests.support.programs.harness import Programs

from tcplab.lab import program_path


@pytest.fixture(scope="session")
def sanitized_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of the sanitized C programs, kept between runs where possible."""
    need("cc")
    build = ROOT / "build/sanitized"
    if not os.access(ROOT, os.W_OK):
        build = tmp_path_factory.getbasetemp().parent / "sanitized"
    build.parent.mkdir(parents=True, exist_ok=True)
    with build.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # only one worker of pytest-xdist builds
        _build(build)
    return build


def _build(build: Path) -> None:
    cache = build / "CMakeCache.txt"
    if (
        cache.exists()
        and f"CMAKE_HOME_DIRECTORY:INTERNAL={ROOT / 'src'}\n" not in cache.read_text()
    ):
        shutil.rmtree(build)  # the directory was moved
    # Without optimization, compilation takes half the time.
    options = ["-G", "Ninja", "-DTCPLAB_SANITIZE=ON", "-DCMAKE_BUILD_TYPE=None"]
    tools = Path(sys.executable).parent
    environment = os.environ | {"PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}
    # Once configured, the build detects changes to its sources.
    source = ROOT / "src"
    configured = (build / "build.ninja").exists()
    steps = [] if configured else [["-S", str(source), "-B", str(build), *options]]
    for arguments in [*steps, ["--build", str(build)]]:
        done = completed([tools / "cmake", *arguments], env=environment)
        output = done.stdout + done.stderr
        if "cannot find" in output and "asan" in output:
            pytest.skip(SANITIZERS)
        assert done.returncode == 0, output


@pytest.fixture(scope="session")
def installed() -> Programs:
    return Programs(program_path("netcat").parent, "")


@pytest.fixture(scope="session")
def programs(sanitized_directory: Path) -> Programs:
    """Use the sanitized programs; tests/slow/programs runs the same tests on the installed ones."""
    # A program that gives up leaves its buffers to the kernel. Whether the search for leaks still
    # finds a pointer to them depends on the compiler, and the search needs ptrace(2).
    return Programs(sanitized_directory, "detect_leaks=0")
