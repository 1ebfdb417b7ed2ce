"""Test Python's client and server; tests/slow/experiments tests the packaged servers."""

from typing import Any

import pytest
from tests.support.lessons import BY_SLUG, notebook

from tcplab.experiments import any_command, real_programs

pytestmark = pytest.mark.needs_lab

CLIENT = """\
import http.client
connection = http.client.HTTPConnection("server", 8000)
for _ in range(3):
    connection.request("GET", "/page.txt")
    connection.getresponse().read()
"""


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
