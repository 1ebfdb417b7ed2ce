"""Read cases.toml, which has the peer of each lesson's program and the facts of its exercise."""

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final

from tcplab.course.short_c import rules
from tcplab.course.short_c.ran import Ran


@dataclass(frozen=True, slots=True)
class Fact:
    """One demand of an exercise."""

    id: str  #: short name, unique in its case
    says: str  #: the fact in plain English, without the full stop
    rule: Callable[[Ran], str]  #: returns in one sentence how a run differs from the fact, or ""
    hint: str = ""  #: a sentence for a learner whose program does not show the fact
    timed: bool = False  #: True if a busy machine could change the result


@dataclass(frozen=True, slots=True)
class Case:
    """The peer of a lesson's program, and the check of a changed program."""

    #: the course's program at the other end, where {0} is the first argument; "" for a UDP socket
    #: of this process. A check chooses among commands with "|" between them
    peer: str
    facts: Sequence[Fact]
    #: arguments of each run in a check. "10..30..5" stands for 10, 15, 20, 25 or 30, at random
    runs: Sequence[str] = ("",)
    listens: bool = False  #: True if the lesson's program is the server and the peer connects to it
    link: Mapping[str, Any] = field(default_factory=dict)  #: parameters of the Lab in a check
    narrow: Mapping[str, Any] = field(default_factory=dict)  #: further ones of the client's data
    script: str = ""  #: what the link does to the client's packets in a check
    rival: str = ""  #: arguments of the original, if it runs on a second client meanwhile, or ""
    compares: bool = False  #: True if the original runs first in the same lab, to compare with
    file_bytes: Sequence[str] = ()  #: size of the file that the program is given in each run
    stdin: str = ""  #: standard input of the program in a check; see run()
    records: bool = False  #: True if a check records the client's system calls

    def drawn(self, random: Random) -> list[tuple[list[str], int]]:
        """Choose the arguments and the size of the file, or 0, for each run of a check."""
        sizes = self.file_bytes or ["0"] * len(self.runs)
        return [
            ([_drawn(word, random) for word in words.split()], int(_drawn(size, random)))
            for words, size in zip(self.runs, sizes, strict=True)
        ]


def _drawn(word: str, random: Random) -> str:
    if not (match := re.fullmatch(r"(\d+)\.\.(\d+)(?:\.\.(\d+))?", word)):
        return word
    first, last, step = (int(number or 1) for number in match.groups())
    return str(random.randrange(first, last + 1, step))


def _case(slug: str, table: Mapping[str, Any]) -> Case:
    facts = []
    for name, given in table["facts"].items():
        values = {**_SHARED.get(name, {}), **given}
        rule = getattr(rules, values.pop("rule"))
        about = {key: values.pop(key) for key in ("says", "hint", "timed") if key in values}
        values |= {"slug": slug} if rule is rules.sends else {}
        facts.append(Fact(name, rule=partial(rule, **values), **about))
    return Case(**{**table, "facts": facts})


_TABLES: Final = tomllib.loads(Path(__file__).with_name("cases.toml").read_text())
_SHARED: Final = _TABLES.pop("shared")
#: The case of each lesson's program, by slug.
CASES: Final[Mapping[str, Case]] = {slug: _case(slug, table) for slug, table in _TABLES.items()}
