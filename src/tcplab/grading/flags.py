"""Flag code and data that an honest submission has no reason to contain, and copied programs.

A flag costs no points. It shows where a person should look, or which students should explain their
programs. Short programs may agree by chance. Comments, white space and declared names do not count.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from tcplab.grading.release import released_files, without_marks

_FILE: Final = Path(__file__).with_name("suspicious.toml")
#: Kinds of flags, each with the pattern to look for in a cell or a C file.
PATTERNS: Final[Mapping[str, str]] = {
    kind: "|".join(parts) for kind, parts in tomllib.loads(_FILE.read_text()).items()
}


def suspicious_source(name: str, source: str) -> list[str]:
    """Return a flag for the first match of each kind in a cell or file, as "kind: place"."""
    flags = []
    for kind, pattern in PATTERNS.items():
        if hit := re.search(pattern, source):
            line = source.count("\n", 0, hit.start()) + 1
            flags.append(f"{kind}: {name} line {line}, {hit.group(0).strip()[:40]!r}")
    return flags


def suspicious_answers(answers: Mapping[str, object]) -> Iterable[str]:
    """Yield a flag for each answer that is not plain data."""
    for name, value in answers.items():
        if isinstance(value, Mapping) and set(value) == {"unsupported"}:
            yield f"not-plain-data: {name} is of type {str(value['unsupported'])[:60]}"


# ---- copied programs -----------------------------------------------------------------------------


#: A comment, white space, or (in the group) a token: a string, a character, a word or a sign.
_TOKEN = re.compile(
    rb"""/\*.*?(?:\*/|\Z)|//[^\n]*|\s+|("(?:\\.|[^"\\])*"?|'(?:\\.|[^'\\])*'?|\w+|.)""", re.DOTALL
)
#: The most bytes of a program that are compared. Programs of the course have less than 16 KiB.
_MOST_BYTES = 1 << 18
_TYPES = set(b"char const double float int long short signed static unsigned void volatile".split())
#: The other keywords. A name after one of them is used, not declared, unless it is after goto.
_OTHERS = set(
    b"break case continue default do else enum for if return sizeof struct switch typedef union"
    b" while".split()
)
_KEYWORDS = _TYPES | _OTHERS | {b"goto"}


def like_others(source: Path, submissions: Mapping[str, Path]) -> dict[str, list[str]]:
    """Return each student's flags for C programs. `source` has the model solution."""
    flags: dict[str, list[str]] = {student: [] for student in submissions}
    for name, given in released_files(source).items():
        model = _bare(without_marks((source / "hidden" / name).read_text()).encode())
        alike: dict[bytes, list[str]] = {}
        for student, folder in submissions.items():
            if (folder / name).is_file():
                alike.setdefault(_bare((folder / name).read_bytes()), []).append(student)
        alike.pop(_bare(given), None)  # ignore files that are still as they were handed out
        for program, students in alike.items():
            for student in students:
                if program == model:
                    flags[student].append(f"like-the-model: {name}")
                elif others := [other for other in students if other != student]:
                    flags[student].append(f"like-another: {name}, as of {', '.join(others[:5])}")
    return flags


def _bare(program: bytes) -> bytes:
    """Return the tokens, with the names that the program declares numbered as they first occur."""
    tokens = [token for token in _TOKEN.findall(program[:_MOST_BYTES]) if token]
    own, numbers = _declared(tokens), dict[bytes, int]()
    return b" ".join(
        b"#%d" % numbers.setdefault(token, len(numbers)) if token in own else token
        for token in tokens
    )


def _declared(tokens: Sequence[bytes]) -> set[bytes]:
    """Return the names that a program seems to declare, without parsing it."""
    own: set[bytes] = set()
    latest = -2  # index of the latest declaration, which "int a, b" continues after its comma
    for at, (before, name, after) in enumerate(zip(tokens, tokens[1:], tokens[2:], strict=False)):
        if _is_word(name) and name not in _KEYWORDS:
            typed = before == b"*" or (_is_word(before) and before not in _OTHERS)
            listed = before == b"," and (after in b";=[" or (latest == at - 2 and after == b","))
            constant = (before, after) == (b"{", b"=") or before == b"define"
            tag = before in (b"struct", b"enum", b"union") and after == b"{"
            if (typed and after in b";,=[():") or listed or constant or tag:
                own.add(name)
                latest = at
    return own


def _is_word(token: bytes) -> bool:
    return token[:1].isalpha() or token[:1] == b"_"
