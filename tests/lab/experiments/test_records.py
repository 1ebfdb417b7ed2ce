"""The experiment behind Microsoft's first case, and its command line."""

from __future__ import annotations

import json

import pytest

from tcplab import Loopback, figures
from tcplab.cli import main
from tcplab.experiments import as_json, recordings, records, table


@pytest.fixture(scope="module")
def result() -> records.Records:
    return records.measure(
        count=500, unbuffered_count=6, batch=50, variants=["unbuffered", "batch"]
    )


def test_a_row_a_way_and_receiver(result: records.Records) -> None:
    rows = result.rows()
    assert [(row["variant"], row["receiver"]) for row in rows] == [
        ("unbuffered", "linux"),
        ("batch 50", "linux"),
        ("unbuffered", "delaying"),
        ("batch 50", "delaying"),
    ]
    assert [row["records"] for row in rows] == [6, 500, 6, 500]
    assert [row["published_records_per_s"] for row in rows] == [None, None, 5, None]
    assert result.provenance["capture_drops"] == 0
    assert result.provenance["runs"] == 4


def test_segments_of_unbuffered_records_are_kept(result: records.Records) -> None:
    variant = result["unbuffered", "delaying"]
    assert variant.data_segments == 6
    assert len(variant.send_ms()) == 6
    assert len(variant.timeline().segments) == 6
    with pytest.raises(ValueError, match="the segments of 'batch 50' were only counted"):
        result["batch", "linux"].timeline()
    with pytest.raises(KeyError, match=r"'nodelay', 'linux'\) was not measured"):
        result["nodelay", "linux"]


def test_it_can_be_recorded_and_is_small(result: records.Records) -> None:
    coded = recordings.encode(result)
    assert recordings.decode(coded).rows() == result.rows()
    assert set(json.loads(as_json(result))) == {"experiment", "rows", "provenance"}
    assert len(json.dumps(coded)) < 200_000


def test_the_picture_says_what_it_shows(result: records.Records) -> None:
    picture = figures.records(result)
    assert "with a receiver" in picture.title
    assert "The published rate, 5, is marked" in picture.alt
    assert picture.table.text() == table(result).text()
    assert picture.png()[:4] == b"\x89PNG"


def test_on_plain_loopback_the_kernel_counts() -> None:
    with Loopback() as loop:
        result = records.measure(count=200, variants=["default"], receivers=["linux"], network=loop)
        with pytest.raises(ValueError, match="segments=True: loopback records none"):
            records.measure(segments=True, network=loop)
    (variant,) = result.variants
    assert variant.data_segments >= 1
    assert variant.exchange.segments is None
    assert result.provenance["capture_drops"] is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--count", "0"], "count=0 must be a whole number from 1 to 10000000"),
        (["--unbuffered-count", "1"], "unbuffered_count=1 must be a whole number from 2 to 10000"),
        (["--batch", "1001"], "batch=1001 must be a whole number from 1 to 1000"),
        (["--rtt-ms", "-1"], "rtt_ms=-1.0 must be a number"),
    ],
)
def test_a_mistake_costs_one_line(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "records", *words]) == 2
    assert message in capsys.readouterr().err


def test_no_such_way() -> None:
    with pytest.raises(ValueError, match="variants='x' is not known; use one of default, nodelay"):
        records.measure(variants=["x"])  # type: ignore[list-item]
    with pytest.raises(
        ValueError, match="receivers is empty; give at least one of linux, delaying"
    ):
        records.measure(receivers=[])
