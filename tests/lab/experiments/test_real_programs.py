"""Test Python's client and server; tests/slow/experiments tests the packaged servers."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.lessons import BY_SLUG, notebook
from tests.support.nonempty import each

from tcplab.experiments import any_command, real_programs

pytestmark = pytest.mark.needs_lab

CLIENT = """\
import http.client
connection = http.client.HTTPConnection("server", 8000)
for _ in range(3):
    connection.request("GET", "/page.txt")
    connection.getresponse().read()
"""


def test_httpserver_writes_twice_and_one_line_fixes_it() -> None:
    http = real_programs.measure_http_server(requests=4)
    slow, fixed, undelayed = http.variants
    assert slow.answer() == undelayed.answer()
    assert [len(part) for part in slow.answer()] == [2, 2]
    assert [len(part) for part in fixed.answer()] == [1, 1]
    assert sum(fixed.answer()[0]) == sum(slow.answer()[0])
    assert slow.held_ms > max(fixed.held_ms, undelayed.held_ms)
    assert (slow.nodelay_set, undelayed.nodelay_set) == (0, 1)
    for run in each(http.variants):
        assert run.messages == 4
        assert ("nodelay", 1) in run.options("client")  # http.client sets it, without effect


def test_any_command_finds_its_files() -> None:
    [run] = any_command.measure(
        client=f"python3 -c '{CLIENT}'", server="python3 {folder}/buffered.py"
    ).variants
    assert run.messages == 3
    assert [len(part) for part in run.answer()] == [1, 1]


@pytest.fixture(scope="module")
def as_it_comes() -> Any:
    return real_programs.measure_http_server([""])


@pytest.mark.parametrize(
    ("line", "verdict"),
    [
        ("wbufsize = -1", "Accepted: "),
        ("disable_nagle_algorithm = True", "Not accepted yet: "),
        ("wbufsize = 1", "Not accepted yet: "),  # too small for the header
        ('wbufsize = -1; server_version = ""', "Not accepted: "),  # it changes the response header
    ],
)
def test_lesson_judges_the_learners_line_by_counting(
    line: str, verdict: str, as_it_comes: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    cells = notebook(BY_SLUG["real-programs"])["cells"]
    [source] = ["".join(c["source"]) for c in cells if c["id"].endswith("your-turn-check")]
    changed = source.replace('line = ""', f"line = {line!r}")
    exec(changed, {"real_programs": real_programs, "first": as_it_comes})
    assert capsys.readouterr().out.splitlines()[-1].startswith(verdict)
