"""Test the figure of lesson path-mtu on a made-up result."""

from __future__ import annotations

from tests.support.figures.readable import assert_readable

from tcplab import figures
from tcplab.experiments.path_mtu import PathMtu, PathMtuVariant, SentSegment


def case(name: str, *, finished: bool, fix: str = "") -> PathMtuVariant:
    sizes = [1448] * 10 + ([1148] * 20 if finished else [])
    sent = [
        SentSegment(0.002 * 1.5**i, size, size + 52, size + 52 <= 1200, i >= 10)
        for i, size in enumerate(sizes)
    ]
    icmp = [0.03] if name == "ICMP arrives" else []
    mtu_bytes = 1200 if icmp else None
    after_ms = 3.2 if finished else 2000
    return PathMtuVariant(name, finished, "", sent, 0, after_ms, icmp, mtu_bytes, 10, fix)


def paths() -> PathMtu:
    cases = [
        case("ICMP arrives", finished=True),
        case("black hole", finished=False),
        case("TCP_MAXSEG", finished=True, fix="setsockopt TCP_MAXSEG 1160"),
        case("always probe", finished=True, fix="sysctl net.ipv4.tcp_mtu_probing=2"),
    ]
    return PathMtu(cases, {}, 1200)


def test_dropped_segments_have_their_own_mark() -> None:
    picture = figures.path_mtu(paths())
    assert_readable(picture)
    assert picture.title == (
        "All data gets through in the case 'ICMP arrives', but the transfer never ends in the case"
        " 'black hole'"
    )
    assert picture.note == "ICMP arrives: after 3.20 ms · black hole: 10 packets dropped"
    [axes] = picture.figure.axes
    marks = {line.get_label(): line.get_marker() for line in axes.lines}
    assert marks["segment that fits MTU 1200"] == "o"
    assert marks["segment too long: dropped"] == "X"
    assert marks["ICMP: fragmentation needed"] == "v"
    assert len(picture.table.rows) == 4
