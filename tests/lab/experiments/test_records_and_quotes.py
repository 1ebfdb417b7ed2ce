import pytest

from tcplab import Loopback
from tcplab.experiments import quotes, recordings, records


@pytest.mark.needs_lab
def test_records_are_counted_and_unbuffered_ones_kept() -> None:
    result = records.measure(500, unbuffered_count=6, batch=50, variants=["unbuffered", "batch"])
    rows = result.rows()
    assert [(row["variant"], row["receiver"], row["records"]) for row in rows] == [
        ("unbuffered", "linux", 6),
        ("batch 50", "linux", 500),
        ("unbuffered", "delaying", 6),
        ("batch 50", "delaying", 500),
    ]
    assert [row["published_records_per_s"] for row in rows] == [None, None, 5, None]
    assert result["batch", "linux"].result.sends == 10
    assert result.provenance["capture_drops"] == 0
    assert result.provenance["runs"] == 4
    variant = result["unbuffered", "delaying"]
    assert variant.segments_per_record == 1
    assert records.model_per_s("unbuffered", "linux") is None
    assert records.model_per_s("unbuffered", "delaying") == pytest.approx(45, rel=0.1)
    assert len(variant.send_ms()) == 6 <= len(variant.timeline().segments)
    with pytest.raises(ValueError, match="no segments were recorded"):
        result["batch", "linux"].timeline()
    with pytest.raises(KeyError, match=r"'nodelay', 'linux'\) was not measured"):
        result["nodelay", "linux"]
    assert recordings.decode(recordings.encode(result)).rows() == rows


@pytest.mark.needs_lab
def test_each_quote_and_request_is_in_the_capture() -> None:
    result = quotes.measure(count=12, batch=4, variants=["two", "single+batch"])
    assert [(case.label, case.server, len(case.exchange_ms())) for case in result.variants] == [
        ("two", "linux", 12),
        ("single, batch 4", "linux", 3),
        ("two", "delaying", 12),
        ("single, batch 4", "delaying", 3),
    ]
    assert result.provenance["capture_drops"] == 0
    two = result["two", "linux"]
    segments = two.exchange.captured
    assert int(segments.data(retransmissions=False)["payload_bytes"].sum()) == 12 * (8 + 32)
    assert len(set(segments["connection"])) == 2
    assert len(two.exchange_ms()) == len(two.timeline().writes) == 12
    assert recordings.decode(recordings.encode(result)).rows() == result.rows()


def test_on_plain_loopback_the_kernel_counts_and_nothing_is_recorded() -> None:
    with Loopback() as loop:
        sent = records.measure(count=200, variants=["default"], receivers=["linux"], network=loop)
        asked = quotes.measure(count=5, variants=["single"], servers=["linux"], network=loop)
        for measure in (records.measure, quotes.measure):
            with pytest.raises(ValueError, match="segments=True: loopback cannot record segments"):
                measure(segments=True, network=loop)
    (variant,) = sent.variants
    assert 0 < variant.segments_per_record <= 1
    assert variant.exchange.segments is None
    assert sent.provenance["capture_drops"] is None
    (single,) = asked.variants
    assert single.pure_acks_per_quote is None
