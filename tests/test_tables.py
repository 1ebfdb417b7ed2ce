from __future__ import annotations

from tcplab.tables import Column, Table

TABLE = Table(
    [Column("name", "variant"), Column("ms", "time (ms)", ".2f")],
    [{"name": "a<b", "ms": 1.234, "hidden": 1}, {"name": "c", "ms": None}],
    caption="Times <here>",
)


def test_numbers_are_formatted_and_what_is_missing_is_a_dash() -> None:
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


def test_markdown() -> None:
    assert TABLE._repr_markdown_().splitlines()[0].count("|") == 3


def test_a_table_of_tuples() -> None:
    table = Table.of(["ack", "ms"], [("delayed", 40.123), ("at once", 0.0513)])
    assert [line.split()[-1] for line in str(table).splitlines()] == [
        "ms",
        "------",
        "40.1",
        "0.0513",
    ]
    assert str(Table.of(["ack"], [])).split() == ["ack", "-----"]
