"""Make untrusted text harmless for the terminals, pages and spreadsheets that show it."""

import base64
import binascii
import re
import unicodedata
from typing import Final

#: A spreadsheet's formula begins with one of these signs. Some programs also accept wide forms.
_FORMULA: Final = re.compile("(?<![^\\W_])(?=[=+\\-@＝＋－＠﹦﹢﹣﹫−])")
#: nbgrader finds folders with glob(3), in which these characters form a pattern.
_PATTERN: Final = re.compile(r"[*?\[\]]")
_MAX_ID_BYTES: Final = 200
#: Lone surrogates, for example of an emoji that an editor cut in two, cannot be encoded.
_LONE: Final = re.compile("[\ud800-\udfff]")
#: The bytes with which a picture's file may begin, by its MIME type.
_PICTURES: Final = {
    "image/png": (b"\x89PNG\r\n\x1a\n",),
    "image/jpeg": (b"\xff\xd8\xff",),
    "image/gif": (b"GIF87a", b"GIF89a"),
}


def one_line(text: object, most: int = 300) -> str:
    """Return a text on one line of at most `most` characters, with control characters escaped."""
    # Characters that are not printable are those that move a cursor, change the state of a terminal
    # or the direction of writing, break a line, or cannot be encoded, and all spaces except " ".
    shown = "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in str(text)[: most + 1]
    )
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def table_cell(text: object) -> str:
    """Return a text as a cell of a CSV file that no spreadsheet takes for a formula.

    A spreadsheet may split cells at a character other than the comma, so an apostrophe is put
    before each "=", "+", "-" and "@" that does not follow a letter or a digit.
    """
    return _FORMULA.sub("'", one_line(text, 30_000))


def unfit_id(name: str) -> str | None:
    """Return why the name of a folder cannot be a student's id, or None if it can."""
    if one_line(name, len(name) + 1) != name:
        return "contains an invisible character"
    if _PATTERN.search(name):
        return "has one of * ? [ ], which nbgrader takes for a pattern"
    if "\\" in name:
        return "has a backslash, which may begin a macro of MathJax"
    if name != name.strip() or name.startswith((".", "-")):
        return "begins with a dot, a hyphen or a space, or ends with a space"
    if unicodedata.normalize("NFKC", name) != unicodedata.normalize("NFC", name):
        return "has a letter of unusual width or form"
    if len(name.encode()) > _MAX_ID_BYTES:
        return f"is longer than {_MAX_ID_BYTES} bytes"
    return None


def same_for_people(name: str) -> str:
    """Return the same text for all names that differ only in case or in Unicode form."""
    return unicodedata.normalize("NFKC", name).casefold()


def whole(text: str) -> str:
    """Return a text in which each lone surrogate is replaced by U+FFFD."""
    return _LONE.sub("\ufffd", text)


def picture(kind: object, data: object) -> str | None:
    """Return a picture's base64 on one line; None if the data is not of the MIME type `kind`."""
    beginnings = _PICTURES.get(kind) if isinstance(kind, str) else None
    if beginnings is None or not isinstance(data, str):
        return None
    try:
        decoded = base64.b64decode("".join(data.split()), validate=True)
    except (ValueError, binascii.Error):
        return None
    return base64.b64encode(decoded).decode() if decoded.startswith(beginnings) else None
