import pytest
from tests.support.nonempty import each

from tcplab.cli import main
from tcplab.experiments import recordings, send_queue, sendfile, table
from tcplab.experiments.sendfile import SendFiles
from tcplab.models import goodput_mbyte_s

A, B, C = "A: read 4096 + send", "B: sendfile", "C: cork, sendfile"
needs_lab = pytest.mark.needs_lab


def assert_carried_out(result: SendFiles) -> None:
    """Assert that each transfer was measured and can be shown and recorded."""
    assert all(transfer.seconds > 0 for transfer in each(result.variants))
    assert len(table(result).text().splitlines()) == 2 + len(result.variants)
    assert recordings.decode(recordings.encode(result)).rows() == result.rows()


def test_each_method_makes_its_number_of_system_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCPLAB_MODE", "loopback")
    result = sendfile.measure([1, 3], runs=1)
    assert_carried_out(result)
    calls = {
        A: 2 * -(-3_000_000 // 4096),
        "read 1024 + send": 2 * -(-3_000_000 // 1024),
        "read 8192 + send": 2 * -(-3_000_000 // 8192),
        "read 131072 + send": 2 * -(-3_000_000 // 131_072),
        "mmap + send": -(-3_000_000 // 131_072),
    }
    assert {name: result.find(name, 3).system_calls for name in calls} == calls
    assert 1 <= result.find(B, 3).system_calls < 50
    assert 2 <= result.find(C, 3).system_calls < 51  # the cork is set, and never cleared


@needs_lab
def test_no_method_is_faster_than_the_wire() -> None:
    wire = sendfile.measure_wire([2], [1024], runs=2)
    assert_carried_out(wire)
    for row in each(wire.rows()):
        assert row["seconds_min"] >= 0.99 * 2 / goodput_mbyte_s(100)
        assert row["runs"] == 2
    assert wire.find("read 1024 + send").system_calls == 2 * -(-2_000_000 // 1024)


def test_clients_are_served_at_once_by_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "sendfile-clients", "--size-mb", "1", "--runs", "1"]) == 0
    assert "B: sendfile, 64 clients" in capsys.readouterr().out
    clients = sendfile.measure_clients([1, 4], size_mb=1, runs=1)
    assert_carried_out(clients)
    assert [variant.plan.connections for variant in clients.variants] == [1, 1, 4, 4]


@needs_lab
def test_only_cork_or_msg_more_joins_header_and_file() -> None:
    header = sendfile.measure_header(1)
    alone, joined = [100, *[1448] * 6, 1312], [*[1448] * 6, 1412]
    assert {variant.option: list(variant.segments) for variant in header.variants} == {
        "default": alone,
        "TCP_NODELAY": alone,
        "TCP_CORK": joined,
        "TCP_CORK, never cleared": joined,
        "TCP_CORK and TCP_NODELAY": joined,
        "MSG_MORE": joined,
    }
    assert header.provenance["capture_drops"] == 0


def test_send_queues_copies_and_sendfile_queues_pages() -> None:
    queues = send_queue.measure(clients=2)
    copied, shared = queues["read + send"], queues["sendfile"]
    assert min(copied.queued_bytes, shared.queued_bytes) > 2 * 100_000
    assert copied.copied_bytes == copied.queued_bytes
    assert shared.copied_per_byte < 0.1
    assert len(table(queues).text().splitlines()) == 2 + 2
