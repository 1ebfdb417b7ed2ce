"""The facts that lesson 02 states, from the same experiments.

Rates of a few milliseconds say nothing on a busy machine. So counts are compared where there are
any, and elsewhere the best of some longer runs: what disturbs a run makes it slower.
"""

from __future__ import annotations

import pytest
from tests.support.nonempty import each

from tcplab.experiments import routes, tcp_vs_udp, udp_batching, udp_receive_buffers
from tcplab.models import goodput_mbyte_s


@pytest.fixture(scope="module")
def result() -> tcp_vs_udp.TcpVsUdp:
    return tcp_vs_udp.measure(runs=2)


@pytest.fixture(scope="module")
def long_runs() -> tcp_vs_udp.TcpVsUdp:
    """72 MB per run, where the text sends 7.2."""
    rows: list[tcp_vs_udp.Server] = ["bsd", "localhost"]
    return tcp_vs_udp.measure(
        runs=4, servers=rows, write_bytes=[1440], protocols=["tcp"], count=50_000
    )


@pytest.fixture(scope="module")
def batches() -> udp_batching.Batching:
    return udp_batching.measure(runs=3)


def test_lesson_shows_both_tables_with_fifty_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As it was recorded: the lesson's own call."""
    monkeypatch.setenv("TCPLAB_MODE", "recorded")
    shown = tcp_vs_udp.measure(runs=50, servers=["bsd", "localhost", "sparc"])
    for server, protocol, size in tcp_vs_udp.PUBLISHED:
        series = shown[server, protocol, size]
        assert len(series.runs) == (5 if server == "sparc" else 50)
        row = series.row()
        assert row["mb_per_s_min"] <= row["mb_per_s"] <= row["mb_per_s_max"]
        assert row["published_mb_per_s"] == tcp_vs_udp.PUBLISHED[server, protocol, size].mb_per_s
    assert "50 runs (5 to sparc); published: 50 runs" in shown.published_table(1440).caption


def best(series: tcp_vs_udp.TableRow) -> float:
    return max(run.sent_mb_per_s for run in series.runs)


def least_cpu_s(series: tcp_vs_udp.TableRow) -> float:
    return min(run.user_s + run.system_s for run in series.runs)


def test_tcp_to_localhost_needs_few_segments(result: tcp_vs_udp.TcpVsUdp) -> None:
    bsd, local = (result[server, "tcp", 1440] for server in ("bsd", "localhost"))
    assert bsd.bytes_per_segment <= 1448
    assert local.bytes_per_segment <= 16332
    assert local.bytes_per_segment >= 2.5 * bsd.bytes_per_segment


def test_tcp_to_localhost_is_faster_than_to_bsd(long_runs: tcp_vs_udp.TcpVsUdp) -> None:
    """By 1.3 on a quiet machine, by 2 and more on a busy one."""
    bsd, local = (long_runs[server, "tcp", 1440] for server in ("bsd", "localhost"))
    assert least_cpu_s(bsd) > least_cpu_s(local)
    assert best(local) > best(bsd)


def test_udp_sends_each_block_by_itself(result: tcp_vs_udp.TcpVsUdp) -> None:
    for server in tcp_vs_udp.SERVERS:
        for size in each(tcp_vs_udp.WRITE_BYTES):
            assert result[server, "udp", size].bytes_per_segment == size


def test_cost_of_a_datagram_does_not_depend_on_its_size() -> None:
    datagrams_only: list[tcp_vs_udp.Protocol] = ["udp"]
    done = tcp_vs_udp.measure(runs=3, servers=["bsd"], protocols=datagrams_only, count=50_000)
    small, large = (least_cpu_s(done["bsd", "udp", size]) for size in (300, 1440))
    assert small > 0.5 * large  # by the byte it would be a fifth
    assert len(done.block_table("bsd").rows) == 2


def test_no_wire_carries_more_than_its_rate(result: tcp_vs_udp.TcpVsUdp) -> None:
    for server in ("sparc", "router"):
        tcp = result[server, "tcp", 1440]
        assert 0.1 * goodput_mbyte_s(10) < best(tcp) < 1.25


def test_own_card_holds_udp_back_and_a_router_does_not(
    result: tcp_vs_udp.TcpVsUdp,
) -> None:
    card, router = (result[server, "udp", 1440] for server in ("sparc", "router"))
    assert best(card) < 2  # MB/s; what the send buffer holds besides what the wire carried
    assert best(router) > 2 * best(card)
    lost = [result["router", "udp", size].lost_percent or [] for size in tcp_vs_udp.WRITE_BYTES]
    assert max(map(max, lost)) > 20


def test_loss_on_one_machine_is_at_the_receive_buffer(
    result: tcp_vs_udp.TcpVsUdp,
) -> None:
    for server in ("bsd", "localhost"):
        for size in tcp_vs_udp.WRITE_BYTES:
            for run in each(result[server, "udp", size].runs):
                assert run.lost is not None
                assert run.drops is not None
                # An end marker may be dropped as well.
                assert run.lost <= run.drops


def test_published_rate_exceeds_the_wire() -> None:
    from tcplab.models import Encapsulation

    most = goodput_mbyte_s(10, around=Encapsulation("udp"), payload_bytes=1440)
    assert most == pytest.approx(1.195, abs=0.001)
    text = tcp_vs_udp.PUBLISHED["sparc", "udp", 1440]
    assert text.mb_per_s > most > text.arrived_mb_per_s


def test_on_linux_every_own_address_leads_through_loopback() -> None:
    seen = routes.measure()
    assert seen["localhost"].interface == seen["its own address"].interface == "lo"


def test_a_buffer_with_room_for_all_loses_none() -> None:
    buffers = udp_receive_buffers.measure(runs=2, count=1000)
    book = buffers.variants[1]
    assert book.granted_bytes == 65_536
    assert 10 <= book.room_datagrams <= 45
    rooms = [each.room_datagrams for each in buffers.variants]
    assert rooms == sorted(rooms)
    for buffer in buffers.variants:
        assert all(lost <= drops for lost, drops in zip(buffer.lost, buffer.drops, strict=True))
        if buffer.room_datagrams >= 1000:  # where the system grants so much
            assert set(buffer.lost) == {0}


def test_batches_make_udp_as_fast_as_tcp(batches: udp_batching.Batching) -> None:
    udp, both = batches["udp"], batches["udp-gso-gro"]
    assert (udp.calls, both.calls) == (50_000, 1112)
    assert max(both.mb_per_s) > 2 * max(udp.mb_per_s)
    assert max(both.mb_per_s) > 0.5 * max(batches["tcp"].mb_per_s)


def test_the_challenge_can_be_solved() -> None:
    """Four times the data asked for is room enough for datagrams of 200 bytes."""
    tried = udp_receive_buffers.measure([200_000, 800_000], runs=1, count=1000, datagram_bytes=200)
    first, solved = tried.variants
    assert first.room_datagrams < 1000
    if solved.granted_bytes == 1_600_000:  # where the system grants so much
        assert solved.room_datagrams >= 1000
        assert list(solved.lost) == [0]
