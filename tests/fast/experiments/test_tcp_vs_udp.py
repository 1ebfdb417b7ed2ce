import pytest
from tests.support.nonempty import each

from tcplab.experiments import table, tcp_vs_udp
from tcplab.models import Encapsulation, goodput_mbyte_s


@pytest.mark.parametrize("key", tcp_vs_udp.PUBLISHED)
def test_published_figures_agree_with_themselves(key: tuple[str, str, int]) -> None:
    """Each rate must equal 5000 blocks divided by the elapsed time, unless we copied it wrongly."""
    text = tcp_vs_udp.PUBLISHED[key]
    megabytes = key[2] * tcp_vs_udp.PUBLISHED_COUNT / 1e6
    assert text.mb_per_s == pytest.approx(megabytes / text.wall_s, rel=2e-3)
    assert text.user_s + text.system_s < text.wall_s
    assert (text.lost is None) == (key[1] == "tcp")


def test_both_tables_have_fifty_runs_beside_each_published_row() -> None:
    shown = tcp_vs_udp.measure(runs=50, servers=["bsd", "localhost", "sparc"])
    rows = {row["variant"]: row for row in shown.rows()}
    assert len(rows) == 3 * 2 * 2
    for (server, protocol, size), text in each(tcp_vs_udp.PUBLISHED.items()):
        assert len(shown[server, protocol, size].runs) == (5 if server == "sparc" else 50)
        row = rows[f"{server} {protocol} {size}"]
        assert row["mb_per_s_min"] <= row["mb_per_s"] <= row["mb_per_s_max"]
        assert row["published_wall_s"] == text.wall_s
        assert row["published_mb_per_s"] == text.mb_per_s
        assert row["published_lost_percent"] == (text.lost and text.lost / 50)
    # The cost of a datagram hardly depends on its size.
    assert 0.8 < rows["bsd udp 300"]["blocks_per_s"] / rows["bsd udp 1440"]["blocks_per_s"] < 1.25
    assert rows["localhost tcp 300"]["published_mb_per_s"] is None  # no such row was published
    assert "2.8800" in table(shown).text()
    assert "50 runs (5 to sparc); published: 50 runs" in shown.published_table(1440).caption
    assert [len(shown.published_table(size).rows) for size in (1440, 300)] == [6, 6]
    assert "Blocks of 300 bytes, 50 runs" in shown.spread_table(300).caption


def test_no_wire_exceeds_its_rate() -> None:
    shown = tcp_vs_udp.measure(runs=50, servers=["bsd", "localhost", "sparc"])
    far = tcp_vs_udp.measure(runs=3, servers=["router"], write_bytes=[1440])
    for tcp in (shown["sparc", "tcp", 1440], far["router", "tcp", 1440]):
        for run in each(tcp.runs):
            assert 0.9 * goodput_mbyte_s(10) < run.arrived_mb_per_s <= 1.01 * goodput_mbyte_s(10)
    most = goodput_mbyte_s(10, around=Encapsulation("udp"), payload_bytes=1440)
    assert most == pytest.approx(1.195, abs=0.001)
    text = tcp_vs_udp.PUBLISHED["sparc", "udp", 1440]
    assert text.mb_per_s > most > text.arrived_mb_per_s  # the published rate exceeds the wire's
