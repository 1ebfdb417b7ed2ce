"""Learners read the programs, so files and functions are short, and a file begins with a manual."""

import re
import statistics
from pathlib import Path

import pytest
from tests.support.paths import ROOT

from tcplab.programs.sources import shared_sources, source_path

PROGRAMS = sorted(path.stem for path in (ROOT / "src/programs").glob("*.c"))
#: Prefixes of programs without a published source: those of lesson diagnosis and a test driver.
OUR_OWN = ("faulty_", "writepattern")


def functions(path: Path) -> dict[str, int]:
    """Map each function to its number of lines, from the line with its name to the last brace."""
    lengths = {}
    start = name = None
    for number, line in enumerate(path.read_text().splitlines()):
        if match := re.match(r"(?!struct|enum|typedef)\w[^=;]*?\b(\w+)\(", line):
            start, name = number, match[1]
        if line == "}" and start is not None and name is not None:
            lengths[name] = number - start + 1
            start = None
    return lengths


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_is_one_short_file(program: str) -> None:
    path = ROOT / "src/programs" / f"{program}.c"
    text = path.read_text()
    own = program.startswith(OUR_OWN)
    assert text.count("\n") <= (275 if own else 250)
    assert text.startswith(f"/*\n * {program} - ")
    manual = text[: text.index("*/")]
    if not own:
        assert re.search(r"Snader|Red Hat|MSDN|ChinaUnix|Chen Shuo", manual), "names no source"
    assert re.search(rf"^ \*     {program} ", manual, re.MULTILINE), "shows no command line"
    assert max(functions(path).values()) <= 60


@pytest.mark.parametrize("path", shared_sources(), ids=lambda path: path.name)
def test_shared_files_are_short_and_have_one_subject(path: Path) -> None:
    header = path.with_suffix(".h").read_text()
    assert header.startswith(f"/*\n * {path.stem}.h - ")
    assert path.read_text().startswith(f"/* {path.name} - see {path.stem}.h. */\n")
    assert path.read_text().count("\n") <= 300
    assert max(functions(path).values()) <= 60


def test_median_function_is_short() -> None:
    paths = [*(ROOT / "src/programs" / f"{program}.c" for program in PROGRAMS), *shared_sources()]
    assert statistics.median(n for path in paths for n in functions(path).values()) <= 10


def test_net_h_lists_the_shared_headers() -> None:
    manual, _end, code = source_path("net.h").read_text().partition("*/")
    listed = set(re.findall(r"^ \*     (\w+)\.h  ", manual, re.MULTILINE))
    assert listed == set(re.findall(r'^#include "(\w+)\.h"$', code, re.MULTILINE))


@pytest.mark.parametrize("path", sorted((ROOT / "src").rglob("*.[ch]")), ids=lambda path: path.name)
def test_tcp_options_come_from_the_kernel_header(path: Path) -> None:
    """netinet/tcp.h has only the first half of struct tcp_info, and conflicts with linux/tcp.h."""
    assert "netinet/tcp.h>" not in re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)
