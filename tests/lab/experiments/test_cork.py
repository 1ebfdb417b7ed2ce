import pytest
from tests.support.nonempty import each

from tcplab.experiments import cork, recordings, table

pytestmark = pytest.mark.needs_lab


def test_message_is_sent_by_each_method() -> None:
    result = cork.measure(messages=3)
    assert result.provenance["capture_drops"] == 0
    assert [message.mode for message in result.variants] == list(cork.MODES)
    for message in result.variants:
        assert sum(message.sizes) == 3 * 30
        # A message that is held until it is complete leaves in one segment.
        if message.mode not in ("default", "no_delay"):
            assert message.message_sizes() == [(30,)] * 3
    assert result["default"].message_sizes()[0][0] == 2
    assert [message.calls_per_message for message in result.variants] == [16, 16, 18, 16, 2, 18]


def test_forgotten_corks_wait_for_a_timer() -> None:
    (waited,) = cork.measure_forgotten((20,)).variants
    assert waited.manual_ms == 200 < min(waited.cork_ms, waited.more_ms)


def test_scripts_are_a_table_and_a_recording() -> None:
    scripts = cork.measure_scenarios(cork.DEFAULT_SCRIPTS[1:3])
    assert len(table(scripts).rows) >= 2
    assert recordings.decode(recordings.encode(scripts)).rows() == scripts.rows()
    for scenario in each(scripts.variants):
        assert sum(segment.payload_bytes for segment in scenario.sent()) == 300
