"""The experiment behind Microsoft's second case, and its command line."""

from __future__ import annotations

import json

import pytest

from tcplab import Loopback, figures
from tcplab.cli import main
from tcplab.experiments import as_json, quotes, recordings, table


@pytest.fixture(scope="module")
def result() -> quotes.Quotes:
    return quotes.measure(count=12, batch=4, variants=["two", "single, batch"])


def test_a_row_a_way_and_server(result: quotes.Quotes) -> None:
    rows = result.rows()
    assert [(row["variant"], row["server"]) for row in rows] == [
        ("two", "linux"),
        ("single, batch 4", "linux"),
        ("two", "delaying"),
        ("single, batch 4", "delaying"),
    ]
    assert [row["exchanges"] for row in rows] == [12, 3, 12, 3]
    assert [row["published_quotes_per_s"] for row in rows] == [None, None, 5, None]
    assert result.provenance["capture_drops"] == 0


def test_each_quote_and_request_is_in_the_capture(result: quotes.Quotes) -> None:
    two = result["two", "linux"]
    segments = two.exchange.captured
    assert int(segments["payload_bytes"].sum()) == 12 * (8 + 32)
    assert len(set(segments["connection"])) == 2
    assert two.segments_per_quote is not None
    assert two.segments_per_quote >= 2
    assert len(two.exchange_ms()) == 12
    assert len(two.timeline().writes) == 12


def test_it_can_be_recorded_and_is_small(result: quotes.Quotes) -> None:
    coded = recordings.encode(result)
    assert recordings.decode(coded).rows() == result.rows()
    assert set(json.loads(as_json(result))) == {"experiment", "rows", "provenance"}
    assert len(json.dumps(coded)) < 200_000


def test_the_picture_says_what_it_shows(result: quotes.Quotes) -> None:
    picture = figures.quotes(result)
    assert "quotes per second" in picture.title
    assert picture.table.text() == table(result).text()


def test_on_plain_loopback_nothing_is_recorded() -> None:
    with Loopback() as loop:
        result = quotes.measure(count=5, variants=["single"], servers=["linux"], network=loop)
        with pytest.raises(ValueError, match="segments=True: loopback records none"):
            quotes.measure(segments=True, network=loop)
    (variant,) = result.variants
    assert variant.segments_per_quote is None
    with pytest.raises(ValueError, match="no segments were recorded"):
        variant.timeline()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--count", "1"], "count=1 must be a whole number from 2 to 10000"),
        (["--batch", "0"], "batch=0 must be a whole number from 1 to 1000"),
    ],
)
def test_a_mistake_costs_one_line(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "quotes", *words]) == 2
    assert message in capsys.readouterr().err


def test_no_such_way() -> None:
    with pytest.raises(ValueError, match="variants='x' is not known; use one of two, two"):
        quotes.measure(variants=["x"])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="servers is empty"):
        quotes.measure(servers=[])
