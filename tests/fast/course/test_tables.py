import re
from dataclasses import replace

import pytest

from tcplab.tables import Column, Table, digits

TABLE = Table(
    [Column("name", "variant"), Column("ms", "time (ms)", ".2f")],
    [{"name": "a<b", "ms": 1.234, "hidden": 1}, {"name": "c", "ms": None}],
    caption="Times <here>",
)


def test_numbers_are_formatted_and_missing_ones_are_dashes() -> None:
    text = str(TABLE)
    assert text.startswith("Times <here>\n\n")
    assert "1.23" in text
    assert "1.234" not in text
    assert text.splitlines()[-1].split() == ["c", "–"]
    assert "hidden" not in text


def test_html_is_escaped_and_carries_the_caption() -> None:
    html = TABLE._repr_html_()
    assert "<caption>Times &lt;here&gt;</caption>" in html
    assert "a&lt;b" in html
    assert '<td style="text-align: left;">' in html
    assert "<td>" not in html


def test_setting_that_is_the_same_in_all_rows_is_in_the_caption() -> None:
    columns = [Column("rtt_ms", "RTT (ms)", "g", is_setting=True), Column("lost", "lost", "d")]
    rows = [{"rtt_ms": 20.0, "lost": 0}, {"rtt_ms": 20.0, "lost": 0}]
    same, one = str(Table(columns, rows)), str(Table(columns, rows[:1]))
    assert same.startswith("In all rows RTT (ms): 20.\n\n")
    assert same.splitlines()[2].split() == ["lost"]  # measured values stay, even if equal
    assert "RTT" in one.splitlines()[0]
    other = str(Table(columns, [*rows, {"rtt_ms": 40.0, "lost": 0}], "Losses."))
    assert other.startswith("Losses.\n\n")
    assert "RTT" in other.splitlines()[2]


def test_a_table_of_tuples() -> None:
    table = Table.of(["ack", "ms"], [("delayed", 40.123), ("at once", 0.0513), ("never", 1e6)])
    assert [line.split()[-1] for line in str(table).splitlines()] == [
        "ms",
        "---------",
        "40.1",
        "0.0513",
        "1,000,000",
    ]
    html = Table.of(["ack", ""], [(1, "again")])._repr_html_()
    assert (html.count("<th "), html.count("</td>")) == (1, 3)
    assert str(Table.of(["ack"], [])).split() == ["ack", "-----"]


def test_thousands_are_alike_in_each_form_and_numbers_at_the_right() -> None:
    table = Table(
        [Column("size", "size"), Column("bytes", "bytes", "d")],
        [{"size": "1,448", "bytes": 65160}, {"size": "65,536", "bytes": 1448}],
    )
    for shown in (str(table), table._repr_html_(), table._repr_markdown_()):
        assert re.findall(r"\d[\d,]+", shown) == ["1448", "65,160", "65,536", "1448"]
    assert table._repr_html_().count("text-align: right;") == 6
    assert table._repr_markdown_().splitlines()[0].count("|") == 3


def test_empty_columns_are_not_shown() -> None:
    columns = [Column("way", "way"), Column("note", "note"), Column("ms", "ms", ".1f")]
    assert "note" not in str(Table(columns, [{"way": "a", "note": ""}, {"way": "b", "note": ""}]))
    assert "note" in str(Table(columns, [{"way": "a", "note": ""}, {"way": "b", "note": "c"}]))
    assert "ms" in str(Table(columns, [{"way": "a"}]))
    assert "note" in str(Table(columns, []))


def test_narrow_tables_break_headings_then_are_transposed() -> None:
    small = Table.of(["way", "rate"], [["a", 1]])
    assert small.narrow(20) == small.text()
    headings = ["the way it went", "segments of a message", "system calls"]
    rows = [["one write", 1, 2], ["many writes", 15, 16]]
    table = Table.of(headings, rows, "d")
    assert table.narrow(80) == table.text()
    broken = table.narrow(44)
    assert max(map(len, broken.splitlines())) <= 44
    assert [line.split()[-2:] for line in broken.splitlines()[-2:]] == [["1", "2"], ["15", "16"]]
    turned = table.narrow(35)
    assert [line.split()[-1:] for line in turned.splitlines()] == [
        [word] for word in ("write", "1", "2")
    ] + [[]] + [[word] for word in ("writes", "15", "16")]
    assert max(map(len, turned.splitlines())) <= 35
    assert Table.of(headings, []).narrow(20).startswith("the way it")


@pytest.mark.parametrize(
    ("value", "significant", "text"),
    [
        (1234.5, 3, "1230"),
        (99.96, 3, "100"),
        (0.012345, 3, "0.0123"),
        (169_812, 2, "170,000"),
        (7, 2, "7"),
        (0, 3, "0"),
    ],
)
def test_digits_rounds_to_significant_digits(value: float, significant: int, text: str) -> None:
    assert digits(value, significant) == text


def test_commands_are_folded_under_the_html_and_not_in_the_text() -> None:
    shown = Table.of(["variant"], [("a",)])
    commands = replace(shown, commands="client$ cat < file\nserver$ tcpsink")
    html = commands._repr_html_()
    assert html.endswith("client$ cat &lt; file\nserver$ tcpsink</pre></details>")
    assert "<details>" not in shown._repr_html_()
    assert str(commands) == str(shown)
