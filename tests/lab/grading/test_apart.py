"""A step in a separate process ends at its limits, and reports the reason in one line."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tcplab.errors import StepError
from tcplab.grading.processes import StepLimits, apart


def answer(value: Any) -> Any:
    return {"value": value}


def spin() -> None:
    while True:
        pass


def search_long() -> None:
    import re

    re.match(r"(a*)*b", "a" * 60)


def allocate() -> None:
    kept: list[Any] = []
    while True:
        kept.append(bytearray(1 << 20))


def crash() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def say_much() -> str:
    return "x" * (2 << 20)


def write_much(path: str) -> None:
    Path(path).write_bytes(b"x" * (3 << 20))


LIMITS = StepLimits(
    wall_s=60, cpu_s=1, memory_bytes=200 << 20, file_bytes=1 << 20, result_bytes=1 << 20
)


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (spin, "it took more than 1 s of processor time"),
        (search_long, "it took more than 1 s of processor time"),
        (allocate, "it took more than 200 MiB of memory"),
        (crash, "the grading process died (SIGKILL)"),
        (say_much, "it has 2097166 bytes to say"),
    ],
)
def test_step_at_its_limit_gives_the_reason(step: Callable[[], Any], reason: str) -> None:
    with pytest.raises(StepError) as raised:
        apart(step, limits=LIMITS)
    assert str(raised.value) == reason


def test_step_that_waits_or_writes_too_much_ends(tmp_path: Path) -> None:
    with pytest.raises(StepError, match=r"it took more than 0\.5 s"):
        apart(time.sleep, 60, limits=StepLimits(wall_s=0.5))
    with pytest.raises(StepError, match=r"OSError: .*File too large"):
        apart(write_much, str(tmp_path / "x"), limits=LIMITS)


def test_step_returns_what_it_found_and_its_errors_are_one_line() -> None:
    assert apart(answer, [1, "two", None]) == {"value": [1, "two", None]}
    with pytest.raises(StepError) as raised:
        apart(json.loads, "two\nlines \x1b")
    assert "JSONDecodeError: " in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1
