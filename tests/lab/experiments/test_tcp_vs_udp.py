"""TCP against UDP: published figures, the shape of the result, bad input, Ctrl-C."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.nonempty import each

from tcplab import LabError
from tcplab.cli import main
from tcplab.experiments import as_json, recordings, table, tcp_vs_udp
from tcplab.experiments.tcp_vs_udp import networks
from tcplab.lab import Lab, Network
from tcplab.programs import tcp_bulk, udp_bulk


@pytest.fixture(scope="module")
def small() -> tcp_vs_udp.TcpVsUdp:
    """Every row, with little data."""
    return tcp_vs_udp.measure(runs=1, count=40)


@pytest.mark.parametrize("key", tcp_vs_udp.PUBLISHED)
def test_published_figures_agree_with_themselves(key: tuple[str, str, int]) -> None:
    """MB/s are 5000 blocks over the time by the clock; a figure copied wrongly would stand out."""
    text = tcp_vs_udp.PUBLISHED[key]
    megabytes = key[2] * tcp_vs_udp.PUBLISHED_COUNT / 1e6
    assert text.mb_per_s == pytest.approx(megabytes / text.wall_s, rel=2e-3)
    assert text.user_s + text.system_s < text.wall_s
    assert (text.lost is None) == (key[1] == "tcp")


def test_tables_have_every_published_row(small: tcp_vs_udp.TcpVsUdp) -> None:
    rows = {row["variant"]: row for row in small.rows()}
    assert len(rows) == 4 * 2 * 2
    for server, protocol, size in tcp_vs_udp.PUBLISHED:
        row = rows[f"{server} {protocol} {size}"]
        text = tcp_vs_udp.PUBLISHED[server, protocol, size]
        assert row["published_wall_s"] == text.wall_s
        assert row["published_mb_per_s"] == text.mb_per_s
        assert row["published_lost"] == text.lost
        assert row["published_lost_percent"] == (text.lost and text.lost / 50)
    assert rows["localhost tcp 300"]["published_mb_per_s"] is None  # no such row was published
    assert "2.8800" in table(small).text()
    for size in (1440, 300):
        assert len(small.published_table(size).rows) == 8
        assert f"Blocks of {size} bytes, 1 runs" in small.spread_table(size).caption


def test_what_was_sent_is_accounted_for(small: tcp_vs_udp.TcpVsUdp) -> None:
    for series in each(small.variants):
        (run,) = series.runs
        assert series.count == 40
        assert run.wall_s > 0
        if series.protocol == "udp":
            assert run.lost is not None
            assert 0 <= run.lost <= 40
            assert run.data_segments == 40
        else:
            assert run.lost is None
            assert series.lost_percent is None
            assert run.data_segments >= 1


def test_provenance_tells_how_much_a_run_sends(small: tcp_vs_udp.TcpVsUdp) -> None:
    origin = small.provenance
    assert origin["count"]["sparc tcp 1440"] == 40
    assert origin["published_count"] == 5000
    assert origin["lo_mtu"] == {"bsd": 1500, "localhost": 16384}
    assert (origin["wire_mbit"], origin["congestion"], origin["runs"]) == (10, "cubic", 1)
    assert origin["interrupted"] is False


def test_published_programs_ask_for_these_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    """udpsink.c asks for 5000 × 1440 bytes, udpsource.c for nothing; listings 2.18 and 2.19."""
    asked: list[tuple[int, int]] = []

    def tcp(network: Network, **options: Any) -> Any:
        done = tcp_bulk(network, **options)
        asked.append((done.source.sndbuf_requested_bytes, done.sink.rcvbuf_requested_bytes))
        return done

    def udp(network: Network, **options: Any) -> Any:
        done = udp_bulk(network, **options)
        asked.append((done.source.sndbuf_requested_bytes, done.sink.rcvbuf_requested_bytes))
        return done

    monkeypatch.setattr(networks, "tcp_bulk", tcp)
    monkeypatch.setattr(networks, "udp_bulk", udp)
    few: dict[str, Any] = {"runs": 1, "servers": ["bsd"], "write_bytes": [300], "count": 10}
    tcp_vs_udp.measure(**few)
    tcp_vs_udp.measure(**few, tcp_buffers_bytes=None, udp_rcvbuf_bytes=32_768)
    assert asked == [(32_768, 32_768), (0, 7_200_000), (0, 0), (0, 32_768)]


def test_slow_wire_carries_the_published_count_in_a_round_of_ten() -> None:
    done = tcp_vs_udp.measure(runs=11, servers=["bsd", "sparc"], write_bytes=[300], count=5)
    assert [len(series.runs) for series in done.variants] == [11, 2, 11, 2]
    assert "11 runs (2 to sparc)" in done.published_table(300).caption
    assert tcp_vs_udp._count("sparc") == tcp_vs_udp.PUBLISHED_COUNT


def test_router_drops_segments_only_of_large_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    """32 KiB are less than the queue holds; what the kernel chooses is more."""
    drops: list[int] = []

    def tcp(network: Lab, **options: Any) -> Any:
        done = tcp_bulk(network, **options)
        drops.append(sum(each["dropped"]["queue"] for each in network.link.counters().values()))
        return done

    monkeypatch.setattr(networks, "tcp_bulk", tcp)
    run: dict[str, Any] = {"runs": 1, "servers": ["router"], "write_bytes": [1440]}
    run |= {"protocols": ["tcp"], "count": 2000}
    tcp_vs_udp.measure(**run)
    large = tcp_vs_udp.measure(**run, tcp_buffers_bytes=None).variants[0]
    assert drops[0] == 0 < drops[1]
    assert large.retransmissions is not None
    assert large.retransmissions >= drops[1]


def test_behind_the_slow_card_all_rows_run_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each in a laboratory of its own; the rows on one machine follow each other."""
    inside: list[object] = []
    most = {"lo": 0, "eth0": 0}
    together = threading.Barrier(2, timeout=30)
    labs = set()

    def seen(network: Network, **options: Any) -> Any:
        interface = network.client.interface
        inside.append(interface)
        most[interface] = max(most[interface], inside.count(interface))
        if interface != "lo":
            labs.add(id(network))
            together.wait()  # for ever, were it alone
        done = udp_bulk(network, **options)
        inside.remove(interface)
        return done

    monkeypatch.setattr(networks, "udp_bulk", seen)
    done = tcp_vs_udp.measure(runs=2, servers=["bsd", "sparc"], protocols=["udp"], count=20)
    assert most == {"lo": 1, "eth0": 2}
    assert len(labs) == 2
    assert [len(series.runs) for series in done.variants] == [2, 1, 2, 1]


def test_json_and_recording(small: tcp_vs_udp.TcpVsUdp) -> None:
    data = json.loads(as_json(small))
    assert data["experiment"] == "tcp-vs-udp"
    assert len(data["rows"]) == 16
    assert recordings.decode(recordings.encode(small)) == small


def test_ctrl_c_keeps_the_complete_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0

    def interrupted(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 5:  # in the middle of the third round
            raise KeyboardInterrupt
        return udp_bulk(*args, **kwargs)

    monkeypatch.setattr(networks, "udp_bulk", interrupted)
    done = tcp_vs_udp.measure(
        runs=50, servers=["bsd", "localhost"], write_bytes=[300], protocols=["udp"]
    )
    assert [len(series.runs) for series in done.variants] == [2, 2]
    assert done.provenance["runs"] == 2
    assert done.provenance["interrupted"] is True


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tcp_vs_udp.measure(runs=0), "runs=0 must be a whole number from 1 to 10000"),
        (
            lambda: tcp_vs_udp.measure(write_bytes=[15]),
            "write_bytes=15 must be a whole number from 16 to 65507",
        ),
        (
            lambda: tcp_vs_udp.measure(write_bytes=[65508]),
            "write_bytes=65508 must be a whole number from 16",
        ),
        (lambda: tcp_vs_udp.measure(write_bytes=[]), "write_bytes is empty"),
        (lambda: tcp_vs_udp.measure(write_bytes=[300, 300]), "write_bytes: 300 is given twice"),
        (lambda: tcp_vs_udp.measure(count=0), "count=0 must be a whole number from 1 to 1000000"),
        (lambda: tcp_vs_udp.measure(servers=["vax"]), "servers='vax' is not known"),  # type: ignore[list-item]
        (lambda: tcp_vs_udp.measure(protocols=["sctp"]), "protocols='sctp' is not known"),  # type: ignore[list-item]
    ],
)
def test_bad_values_are_named(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["run", "tcp-vs-udp", "--runs", "1", "--servers", "localhost", "--write-bytes", "300"]
    assert main([*command, "--count", "20", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [row["variant"] for row in data["rows"]] == ["localhost tcp 300", "localhost udp 300"]
    assert {row["count"] for row in data["rows"]} == {20}


def test_missing_tbf_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    import pyroute2

    def refuse(*_: object, **__: object) -> None:
        raise pyroute2.NetlinkError(2, "Specified qdisc kind is unknown")

    monkeypatch.setattr(pyroute2.IPRoute, "tc", refuse, raising=False)
    with pytest.raises(LabError, match=r"no queue of a given rate .*sudo modprobe sch_tbf"):
        tcp_vs_udp.measure(runs=1, servers=["sparc"], write_bytes=[300], count=1)
