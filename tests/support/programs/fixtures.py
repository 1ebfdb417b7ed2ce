"""The C programs, as they are installed and once more with AddressSanitizer and UBSan."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.needs import SANITIZERS, need
from tests.support.paths import ROOT
from tests.support.programs.harness import Programs

from tcplab.lab import program_path


@pytest.fixture(scope="session")
def sanitized_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the build with sanitizers is; kept from run to run where the course may be written."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    cmake = shutil.which("cmake", path=path) or need("cmake")
    build = ROOT / "build/sanitized"
    if not os.access(ROOT, os.W_OK):
        build = tmp_path_factory.mktemp("sanitized")
    with one_at_a_time(build):
        build_sanitized(cmake, build, path)
    return build


@contextlib.contextmanager
def one_at_a_time(build: Path) -> Iterator[None]:
    """Test processes that run side by side (pytest-xdist) share the build: one makes it."""
    build.parent.mkdir(parents=True, exist_ok=True)
    with build.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def build_sanitized(cmake: str, build: Path, path: str) -> None:
    """Configures and compiles what has changed."""
    if build.exists() and not was_made_here(build):
        shutil.rmtree(build, ignore_errors=True)
    configure = [cmake, "-S", str(ROOT), "-B", str(build), "-DTCPLAB_SANITIZE=ON"]
    configure += ["-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_C_FLAGS=-O1"]
    configure += ["-G", "Ninja"] if shutil.which("ninja", path=path) else []
    for command in (configure, [cmake, "--build", str(build), "--parallel", "2"]):
        done = subprocess.run(
            command,
            env=os.environ | {"PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        output = done.stdout + done.stderr
        if "cannot find -lasan" in output or "cannot find libasan" in output:
            pytest.skip(SANITIZERS)
        assert done.returncode == 0, output


def was_made_here(build: Path) -> bool:
    """A folder that was moved, or made by another generator, has to be configured anew."""
    cache = build / "CMakeCache.txt"
    return cache.exists() and f"CMAKE_HOME_DIRECTORY:INTERNAL={ROOT}\n" in cache.read_text()


@pytest.fixture(scope="session")
def installed() -> Programs:
    return Programs(program_path("netcat").parent, "")


@pytest.fixture(scope="session", params=["installed", "sanitized"])
def programs(request: pytest.FixtureRequest) -> Programs:
    """The programs, in both builds."""
    if request.param == "installed":
        result: Programs = request.getfixturevalue("installed")
        return result
    directory: Path = request.getfixturevalue("sanitized_directory")
    # A program that gives up leaves its buffers to the kernel; whether the search for leaks still
    # finds a pointer to them depends on the compiler, and without ptrace(2) it cannot search.
    return Programs(directory, "detect_leaks=0")
