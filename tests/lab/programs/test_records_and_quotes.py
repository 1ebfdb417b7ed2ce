"""Test the programs of the MSDN article: recordsource, recordsink, quoteclient, quoteserver."""

from pathlib import Path
from typing import Any

import pytest
from tests.support.programs.harness import Programs

from tcplab.programs import read_log

ONE_CPU = ["--cpu", 0, "--congestion", "reno"]


def records(
    programs: Programs, source: list[object], sink: list[object]
) -> tuple[dict[str, Any], dict[str, Any]]:
    return programs.pair(
        ["recordsink", "--bind", "127.0.0.1", *ONE_CPU, *sink],
        ["recordsource", "-p", "PORT", "127.0.0.1", *ONE_CPU, *source],
    )


def test_ten_thousand_records_arrive_in_fewer_segments(programs: Programs) -> None:
    sent, received = records(programs, [], [])
    assert sent["records"] == received["records"] == sent["sends"] == 10_000
    assert sent["bytes"] == received["bytes"]
    assert 20 * 10_000 < sent["bytes"] < 100 * 10_000
    # Nagle's algorithm joined many sends into few segments.
    assert sent["tcp_info"]["data_segs_out"] < 10_000


@pytest.mark.parametrize("batch", [None, 7])
@pytest.mark.parametrize("read_bytes", [1, 104, 1 << 20])
def test_records_survive_any_read(programs: Programs, read_bytes: int, batch: int | None) -> None:
    source = ["-c", 301, *(["--batch", batch] if batch else [])]
    sent, received = records(programs, source, ["-r", read_bytes])
    assert received["records"] == 301
    assert sent["bytes"] == received["bytes"]
    if batch:
        assert sent["sends"] == received["batches"] == -(-301 // batch)
        assert sent["bytes"] == 301 * 100 + 4 * sent["sends"]
    if read_bytes < 20:
        assert received["split_records"] == (301 if not batch else received["split_records"])
        assert received["one_record_reads"] == 0


def test_unbuffered_source_logs_each_write_and_its_ack(programs: Programs, tmp_path: Path) -> None:
    log = tmp_path / "log"
    records(programs, ["-c", 5, "--unbuffered", "--log", log], [])
    events = read_log(log)
    assert [event.name for event in events] == ["write", "acknowledged"] * 5
    assert all(a.bytes == b.bytes for a, b in zip(events[::2], events[1::2], strict=True))


def quotes(
    programs: Programs, client: list[object], server: list[object]
) -> tuple[dict[str, Any], dict[str, Any]]:
    return programs.pair(
        ["quoteserver", "--bind", "127.0.0.1", *ONE_CPU, *server],
        ["quoteclient", "-p", "PORT", "127.0.0.1", *ONE_CPU, *client],
    )


@pytest.mark.parametrize("shape", [[], ["--single"]])
@pytest.mark.parametrize("batch", [1, 7, 1000])
def test_each_request_gets_its_quote(programs: Programs, shape: list[object], batch: int) -> None:
    client = [*shape, "-c", 1001, "--batch", batch]
    asked, answered = quotes(programs, client, shape)
    assert asked["quotes"] == answered["quotes"] == 1001
    assert asked["single"] is answered["single"] is bool(shape)
    assert asked["tcp_info"]["bytes_sent"] == 8 * 1001
    assert answered["reads"] >= -(-1001 // batch)


def test_client_and_server_log_each_request_and_quote(programs: Programs, tmp_path: Path) -> None:
    client_log, server_log = tmp_path / "client", tmp_path / "server"
    quotes(programs, ["-c", 5, "--log", client_log], ["--log", server_log])
    expected = [("request", 8), ("quote", 32)] * 5
    for log in (client_log, server_log):
        assert [(event.name, event.bytes) for event in read_log(log)] == expected
