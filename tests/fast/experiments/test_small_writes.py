from tcplab.experiments import small_writes, table


def test_published_mean_is_shown_only_for_its_own_case() -> None:
    shown = small_writes.measure(segments=True)
    text = table(shown).text()
    assert "published mean" in text
    assert "40.013" in text
    assert len(text.splitlines()) == 2 + 4
    for provenance in (
        {"writes": 9},
        {"quickack": "always"},
        {"link": {"client->server": {"delay_ms": 10.0}}},
    ):
        other = small_writes.SmallWrites(shown.variants, {**shown.provenance, **provenance})
        assert "published" not in table(other).text()
