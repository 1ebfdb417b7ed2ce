"""Untrusted text has no effect on terminals, pages or spreadsheets."""

import csv
import io
import sys
import unicodedata

import pytest
from tests.support.nonempty import each

from tcplab.grading.neutral import one_line, picture, table_cell, unfit_id, whole

EVERY = [chr(code) for code in range(sys.maxunicode + 1)]
FORMULAS = tuple("=+-@＝＋－＠")


def test_no_character_moves_a_cursor_or_breaks_a_line() -> None:
    shown = one_line("".join(EVERY), len(EVERY) * 10)
    assert len(shown.splitlines()) == 1
    assert {unicodedata.category(character) for character in shown} & {"Cc", "Cf", "Cs"} == set()
    shown.encode()
    assert one_line("a\x1b[2J\r\nb\u202ec\ud83d") == "a\\x1b[2J\\r\\nb\\u202ec\\ud83d"
    assert one_line("Ångström, 你好 🙂") == "Ångström, 你好 🙂"
    assert one_line("x" * 400) == "x" * 299 + "…"


@pytest.mark.parametrize("separator", [",", ";", "\t", "|", ":", " "])
def test_no_cell_is_a_formula_at_any_separator(separator: str) -> None:
    """Put each character that is not a letter or digit around signs that start a formula. Write
    the table with commas, and read it with `separator`."""
    signs = [c for c in EVERY[:0x10000] if not c.isalnum() and unicodedata.category(c) != "Co"]
    rows = [[table_cell(f"{c}=1+1{c}+2;{c}@SUM(1){c}-3"), "1"] for c in each(signs)]
    rows += [
        [table_cell(text)] for text in (";=1+1;@SUM(1)", "\r=1", "＝1", "link: ';=HYPERLINK(1)'")
    ]
    written = io.StringIO(newline="")
    csv.writer(written).writerows(rows)
    for quoting in (csv.QUOTE_MINIMAL, csv.QUOTE_NONE):
        written.seek(0)
        for row in csv.reader(written, delimiter=separator, quoting=quoting):
            for cell in row:
                assert not cell.lstrip('" \t').startswith(FORMULAS), row


def test_numbers_words_and_addresses_stay_as_they_are() -> None:
    for text in ("ada", "ada-lovelace", "a.b@example.org", "x=1", "q1: 2-3", "Müller"):
        assert table_cell(text) == text


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("*", "pattern"),
        ("[a-z]*", "pattern"),
        ("who?", "pattern"),
        ("two\nlines", "invisible"),
        ("\x1b[31mred", "invisible"),
        ("\rback", "invisible"),
        ("rtl\u202eoverride", "invisible"),
        ("not-utf8-\udcff", "invisible"),
        (" ada", "space"),
        ("ada ", "space"),
        (".ada", "dot"),
        ("--replace", "hyphen"),
        ("ｂob", "width"),
        ("a" * 201, "200 bytes"),
        *((name, "") for name in ("ada", "=frank", "a.b@example.org", "Ada Lovelace", "20261234")),
        *((name, "") for name in ("jürgen", "李雷")),
    ],
)
def test_folder_that_cannot_be_an_id_says_why(name: str, complaint: str) -> None:
    reason = unfit_id(name)
    assert complaint in reason if reason else complaint == ""


def test_halves_of_characters_are_replaced_and_whole_ones_kept() -> None:
    assert whole("a\ud83db🙂\udc00") == "a\ufffdb🙂\ufffd"


def test_picture_is_one_of_the_type_that_it_claims() -> None:
    import base64

    png = base64.b64encode(b"\x89PNG\r\n\x1a\n...").decode()
    assert picture("image/png", png) == picture("image/png", f"{png[:4]}\n{png[4:]}\n") == png
    for kind, data in (
        ("image/jpeg", png),
        ("image/svg+xml", png),
        ("image/png", base64.b64encode(b"<svg onload=alert(1)>").decode()),
        ("image/png", f"{png}' onload='alert(1)"),
        ("image/png", [png]),
        (None, png),
    ):
        assert picture(kind, data) is None
