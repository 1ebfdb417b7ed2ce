"""Text by strangers, made neutral for the place where it is shown.

Ids are names of folders, repairs and flags quote files and cells, and an error's message quotes
what it stumbled over. All of it goes to a terminal, into pages and into tables for spreadsheets.
"""

from __future__ import annotations

import base64
import binascii
import re
import unicodedata
from pathlib import Path
from typing import Any, Final

#: A formula of a spreadsheet begins with one of these; some take the wide ones, too.
_FORMULA: Final = re.compile("(?<![^\\W_])(?=[=+\\-@＝＋－＠﹦﹢﹣﹫−])")
#: nbgrader looks for folders with glob(3), in which these are patterns.
_PATTERN: Final = re.compile(r"[*?\[\]]")
_MAX_ID_BYTES: Final = 200
#: Half of a character: an editor cut an emoji in two. It cannot be encoded.
_LONE: Final = re.compile("[\ud800-\udfff]")
#: How a picture of each type begins.
_PICTURES: Final = {
    "image/png": (b"\x89PNG\r\n\x1a\n",),
    "image/jpeg": (b"\xff\xd8\xff",),
    "image/gif": (b"GIF87a", b"GIF89a"),
}


def one_line(text: object, most: int = 300) -> str:
    """A text on one line that moves no cursor; what is hidden in it is written out, as \\x1b.

    Args:
        text: anything; its str() is shown.
        most: characters that are kept; "…" stands for the rest.
    """
    shown = "".join(map(_visible, str(text)[: most + 1]))
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def _visible(character: str) -> str:
    # Not printable are those that move a cursor, change a terminal's state or the direction of
    # writing, break a line, or cannot be encoded; and all spaces but one.
    if character.isprintable():
        return character
    return character.encode("unicode_escape").decode()


def page_of(template: Path, **values: Any) -> str:
    """A page by a template of Jinja's, in which `shown` is one_line()."""
    from jinja2 import Template

    made = Template(template.read_text(), autoescape=True, keep_trailing_newline=True)
    page: str = made.render(shown=one_line, **values)
    return page


def table_cell(text: object) -> str:
    """A text as a cell of a CSV file that no spreadsheet takes for a formula.

    A spreadsheet may split at another character than the comma, and then a formula may begin in
    the middle of a cell. So an apostrophe stands before each "=", "+", "-" and "@" that does not
    follow a letter or a digit.
    """
    return _FORMULA.sub("'", one_line(text, 30_000))


def unfit_id(name: str) -> str | None:
    """None for the name of a folder that can be a student's id, else why it cannot."""
    if one_line(name, len(name) + 1) != name:
        return "has a character that is not shown"
    if _PATTERN.search(name):
        return "has one of * ? [ ], which nbgrader takes for a pattern"
    if name != name.strip() or name.startswith((".", "-")):
        return "begins with a dot, a hyphen or a space, or ends with a space"
    if unicodedata.normalize("NFKC", name) != unicodedata.normalize("NFC", name):
        return "has a letter of unusual width or form"
    if len(name.encode()) > _MAX_ID_BYTES:
        return f"is longer than {_MAX_ID_BYTES} bytes"
    return None


def same_for_people(name: str) -> str:
    """Return one form for all names that differ only by the case of their letters."""
    return unicodedata.normalize("NFKC", name).casefold()


def whole(text: str) -> str:
    """A text in which each half of a character is replaced by U+FFFD."""
    return _LONE.sub("\ufffd", text)


def picture(kind: object, data: object) -> str | None:
    """A picture's base64 in one piece; None if it is none of the type that it claims to be.

    Args:
        kind: its type, such as "image/png".
        data: the base64, perhaps in lines.
    """
    beginnings = _PICTURES.get(kind) if isinstance(kind, str) else None
    if beginnings is None or not isinstance(data, str):
        return None
    try:
        decoded = base64.b64decode("".join(data.split()), validate=True)
    except (ValueError, binascii.Error):
        return None
    return base64.b64encode(decoded).decode() if decoded.startswith(beginnings) else None
