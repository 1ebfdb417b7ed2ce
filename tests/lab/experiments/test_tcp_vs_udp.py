import json
import threading
from typing import Any

import pytest
from tests.support.nonempty import each

from tcplab import LabError
from tcplab.experiments import recordings, tcp_vs_udp, udp_batching, udp_receive_buffers
from tcplab.lab import Loopback, Network
from tcplab.programs import udp_bulk, writepattern_peer

needs_lab = pytest.mark.needs_lab


@needs_lab
def test_every_row_is_measured_and_accounted_for() -> None:
    result = tcp_vs_udp.measure(runs=1, count=40)
    assert len(result.variants) == 4 * 2 * 2
    for series in each(result.variants):
        (run,) = series.runs
        assert series.count == 40
        assert run.wall_s > 0
        if series.protocol == "udp":
            assert series.bytes_per_segment == series.write_bytes
            assert run.data_segments == 40
            assert run.lost is not None
            assert 0 <= run.lost <= 40
            # On one machine, only the receive buffer loses datagrams, and perhaps an end marker
            # with them.
            assert series.server not in ("bsd", "localhost") or run.lost <= (run.drops or 0)
        else:
            assert series.bytes_per_segment <= (16_332 if series.server == "localhost" else 1448)
            assert (run.lost, series.lost) == (None, [])
    origin = result.provenance
    # In Snader's listings 2.18 and 2.19, udpsink.c asks for 5000 × 1440 bytes.
    for asked in ("tcpsink -p 0 -b 32768", "udpsink -p 0 -b 7200000", "udpsource -p PORT -b auto"):
        assert any(asked in command for command in origin["host_commands"])
    assert origin["count"]["sparc tcp 1440"] == 40
    assert origin["published_count"] == 5000
    assert origin["lo_mtu"] == {"bsd": 1500, "localhost": 16384}
    assert 1448 * origin["router_queue_packets"] > 2 * origin["tcp_buffers_bytes"]
    assert (origin["wire_mbit"], origin["congestion"], origin["runs"]) == (10, "cubic", 1)
    assert origin["interrupted"] is False
    assert recordings.decode(recordings.encode(result)) == result


@needs_lab
def test_behind_the_slow_card_all_rows_run_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row to sparc has its own laboratory; the rows on one machine run one after the other."""
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
            together.wait()  # this fails if no other row runs
        done = udp_bulk(network, **options)
        inside.remove(interface)
        return done

    monkeypatch.setattr(tcp_vs_udp, "udp_bulk", seen)
    done = tcp_vs_udp.measure(runs=11, servers=["bsd", "sparc"], protocols=["udp"], count=5)
    assert most == {"lo": 1, "eth0": 2}
    assert len(labs) == 2
    # Rows to sparc, which use the slow wire, are measured only in every tenth round.
    assert [len(series.runs) for series in done.variants] == [11, 2, 11, 2]
    assert "11 runs (2 to sparc)" in done.published_table(300).caption


@needs_lab
def test_missing_tbf_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    import pyroute2

    def refuse(*_: object, **__: object) -> None:
        raise pyroute2.NetlinkError(2, "Specified qdisc kind is unknown")

    monkeypatch.setattr(pyroute2.IPRoute, "tc", refuse, raising=False)
    with pytest.raises(LabError, match=r"cannot limit a rate .*sudo modprobe sch_tbf"):
        tcp_vs_udp.measure(runs=1, servers=["sparc"], write_bytes=[300], count=1)


# ---- receive buffers, batches, memory ------------------------------------------------------------


def test_no_datagram_is_lost_if_the_buffer_has_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use plain loopback. 212992 bytes is the usual maximum, which the kernel doubles."""
    monkeypatch.setenv("TCPLAB_MODE", "loopback")
    result = udp_receive_buffers.measure([2304, 212_992], runs=2, count=120)
    tiny, large = result.variants
    assert tiny.granted_bytes == 2 * 2304
    assert 0 < tiny.room_datagrams <= 4608 // 1440
    assert 120 <= large.room_datagrams <= large.granted_bytes // 1440
    assert list(large.lost) == [0, 0]
    assert result.provenance["network"] == "loopback"
    assert [row["lost_elsewhere"] for row in result.rows()] == [0, 0]
    assert recordings.decode(recordings.encode(result)) == result


def test_a_batch_is_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCPLAB_MODE", "loopback")
    result = udp_batching.measure(runs=1)
    rows = {row["variant"]: row for row in result.rows()}
    assert list(rows) == ["udp", "udp-gso", "udp-gso-gro", "tcp", "tcp-large"]
    assert rows["udp"]["calls"] == 50_000
    assert rows["udp-gso"]["calls"] == rows["udp-gso-gro"]["calls"] == 1112
    assert rows["udp-gso"]["bytes_per_call"] == rows["tcp-large"]["bytes_per_call"] == 64_800
    assert rows["tcp"]["lost_percent"] is None
    assert recordings.decode(recordings.encode(result)) == result


def test_program_leaves_an_untouched_block_alone() -> None:
    """The block's pages are mapped when they are sent, not earlier."""
    with Loopback() as network, writepattern_peer(network) as port:
        block = ["tcpsource", "--json", "-p", f"{port}", "-b", "auto", "-s", f"{1 << 25}", "-c1"]
        written, untouched = (
            json.loads(network.client.run([*block, *option, network.server.address]).stdout)
            for option in ([], ["--untouched"])
        )
    assert untouched["usage"]["minor_faults"] > written["usage"]["minor_faults"]
