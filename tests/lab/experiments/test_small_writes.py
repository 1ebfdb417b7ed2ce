import json

import pytest
from tests.support.nonempty import each

from tcplab import Lab, Loopback
from tcplab.experiments import as_json, small_writes, table, write_patterns

MESSAGES = 3


@pytest.mark.needs_lab
def test_segments_calls_and_json_of_each_variant() -> None:
    result = small_writes.measure(messages=MESSAGES)
    sizes = {variant.mode: variant.data_segment_sizes or [] for variant in result.variants}
    assert all(sum(payloads) == 30 * MESSAGES for payloads in each(sizes.values()))
    # Ten segments leave at once (RFC 6928). The rest waits and is sent together.
    assert sizes["no_delay"][:10] == [2] * 10
    assert sizes["default"][0] == 2
    assert sizes["cork"] == sizes["writev"] == [30] * MESSAGES
    assert all(len(variant.message_ms()) == MESSAGES for variant in result.variants)
    # A message takes 15 writes or one, a read of the reply and, for the cork, two more calls.
    calls = {row["variant"]: row["system_calls_per_message"] for row in result.rows()}
    assert calls == {"default": 16, "no_delay": 16, "cork": 18, "writev": 2}
    assert {row["congestion"] for row in result.rows()} == {"cubic"}
    data = json.loads(as_json(result))
    assert set(data) == {"experiment", "rows", "provenance"}
    assert data["experiment"] == "small-writes"
    assert {"kernel", "cpu", "cores", "sysctls", "link"} <= set(data["provenance"])
    assert data["provenance"]["capture_drops"] == 0


@pytest.mark.needs_lab
def test_result_names_each_command_with_its_host() -> None:
    result = small_writes.measure(MESSAGES, variants=["default", "cork"])
    started = [command.split() for command in result.provenance["host_commands"]]
    assert len({*result.provenance["host_commands"]}) == len(started)
    clients = [words for words in started if words[1] == "tcp_nodelay_client"]
    assert [words[:6] for words in clients] == [
        ["client$", "tcp_nodelay_client", "10.0.0.2", "PORT", str(MESSAGES), mode]
        for mode in ("default", "cork")
    ]
    assert any(words[:2] == ["server$", "tcp_nodelay_server"] for words in started)
    assert all("/tmp" not in command for command in result.provenance["host_commands"])


def test_on_loopback_the_table_says_that_nothing_was_recorded() -> None:
    with Loopback() as loop:
        result = small_writes.measure(5, variants=["cork"], network=loop)
    assert result["cork"].data_segment_sizes is None
    assert result.provenance["capture_drops"] is None
    assert "–" in table(result).text()


@pytest.mark.needs_lab
def test_segments_of_patterns() -> None:
    alone = write_patterns.measure([(4, 100), (1448, 100), (1449, 100)])
    segments = [row["segments"] for row in alone.rows()]
    assert segments == ["4 + 100", "1448 + 100", "1448 + 1 + 100"]
    assert alone.provenance["capture_drops"] == 0


@pytest.mark.needs_lab
def test_segment_sent_again_starts_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    def losing() -> Lab:
        lab = Lab()
        lab.link.script("client->server", "drop data every=5")
        return lab

    monkeypatch.setattr(write_patterns, "Lab", losing)
    lossy = write_patterns.measure([(4, 100)], nodelay=True)
    assert [row["segments"] for row in lossy.rows()] == ["4 + 100"]
