"""Changes to the lessons' short C programs, and the verdict that the check must give on each.

`tests/data/short_c/SLUG.txt` has a section for each change. Its first line is "= NAME: PASS", or
"= NAME: FACT" with the id of the fact that the program then fails to show. It is FACT|FACT if
machines differ, and "runs" if the program fails. Lines with "-" and "+" are a text of the program
and its replacement. A changed program includes all usual headers.
"""

import re
from pathlib import Path
from typing import Final, NamedTuple
from unittest.mock import patch

from tests.support.paths import ROOT

from tcplab.course import short_c

#: Headers that a changed program may use. "sharing.c" includes linux/tcp.h, which defines the same
#: names as netinet/tcp.h.
_HEADERS: Final = (
    "arpa/inet errno fcntl linux/sockios poll pthread signal stdint stdio stdlib string sys/epoll"
    " sys/ioctl sys/mman sys/sendfile sys/socket sys/uio sys/wait unistd netinet/udp netinet/tcp"
)


class Change(NamedTuple):
    """A named change to a program, and the verdict on it."""

    slug: str
    name: str
    fails: str  #: the id of the first fact that does not hold, or "PASS"
    swaps: dict[str, str]  #: texts of the program and their replacements

    def __str__(self) -> str:
        return f"{self.slug}: {self.name}"


def _changes(slug: str) -> list[Change]:
    found: list[Change] = []
    old, new = "", ""
    for line in (ROOT / f"tests/data/short_c/{slug}.txt").read_text().splitlines():
        if line[0] == "=":
            name, fails = line[2:].rsplit(": ", 1)
            found.append(Change(slug, name, fails, {}))
        elif line[0] == "-":
            old = line[1:] if new or not old else f"{old}\n{line[1:]}"
            new = ""
        else:
            new += f"{line[1:]}\n"
            found[-1].swaps[old] = new
        if line[0] == "=":
            old, new = "", ""
    return found


CHANGES: Final = {slug: _changes(slug) for slug in short_c.CASES}


def few() -> list[Change]:
    """Return the unchanged program of each lesson, and the first right change."""
    return [
        next(change for change in changes if (change.fails == "PASS") is passes)
        for changes in CHANGES.values()
        for passes in (False, True)
    ]


def write(change: Change, folder: Path) -> Path:
    """Write the changed program into a folder, and return its path."""
    path = short_c.copy(change.slug, folder)
    text = path.read_text()
    assert all(text.count(old) == 1 for old in change.swaps), change
    if change.swaps:
        pattern = "|".join(map(re.escape, change.swaps))
        headers = [h for h in _HEADERS.split() if (h, change.slug) != ("netinet/tcp", "sharing")]
        lines = ["#define _GNU_SOURCE", *(f"#include <{header}.h>" for header in headers)]
        text = re.sub(pattern, lambda old: change.swaps[old[0]], text)
        path.write_text("\n".join([*lines, text]))
    return path


def assert_judged_as_expected(change: Change, folder: Path) -> None:
    """Let the check judge a changed program.

    A wrong one runs once, since the second and third run on a busy machine decide nothing here.
    """
    source = write(change, folder)
    with patch.object(short_c, "_TRIES", short_c._TRIES if change.fails == "PASS" else 1):
        verdict = short_c.check(change.slug, source)
    if change.fails == "PASS":
        assert verdict.passed, verdict
    else:  # passed is None if the machine was too busy to be sure
        assert not verdict.passed, verdict
        assert verdict.counts["fails"] in change.fails.split("|"), verdict
