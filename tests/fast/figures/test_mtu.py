"""Test the figures of lessons segments and path-mtu on made-up results: texts and legibility."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from tests.support.figures.readable import assert_readable

from tcplab import figures
from tcplab.experiments.mtu import MTUS, LoopbackMtu, Mtu, WireMtu
from tcplab.experiments.path_mtu import PathMtu, PathMtuVariant, SentSegment


def row(mtu_bytes: int, offload: bool) -> LoopbackMtu:
    mss = min(mtu_bytes, 65_535) - 52
    packet = 45 * mss if offload and mss < 1449 else mss
    sizes = np.full(1_000_000 // packet + 1, packet, dtype=np.int32)
    sizes[-1] = 1_000_000 - int(sizes[:-1].sum())
    rate = 6000.0 if offload else 500 + mtu_bytes / 10
    cost = 0.2 if offload else 1000 / mtu_bytes
    rates = [rate, rate / 2]
    return LoopbackMtu(mtu_bytes, offload, mss, mss + 12, rates, [cost], 10**6, [700], sizes)


def sweep() -> Mtu:
    rows = [row(mtu, offload) for offload in (False, True) for mtu in MTUS]
    goodput = {576: 10.6, 1500: 11.75, 9000: 12.36}
    return Mtu([*rows, *(WireMtu(mtu, 100, [rate]) for mtu, rate in goodput.items())], {})


def case(name: str, *, finished: bool, fix: str = "") -> PathMtuVariant:
    sizes = [1448] * 10 + ([1148] * 20 if finished else [])
    sent = [
        SentSegment(0.002 * 1.5**i, size, size + 52, size + 52 <= 1200, i >= 10)
        for i, size in enumerate(sizes)
    ]
    icmp = [0.03] if name == "ICMP tells" else []
    mtu_bytes = 1200 if icmp else None
    after_ms = 3.2 if finished else 2000
    return PathMtuVariant(name, finished, "", sent, 0, after_ms, icmp, mtu_bytes, 10, fix)


def paths() -> PathMtu:
    cases = [
        case("ICMP tells", finished=True),
        case("black hole", finished=False),
        case("TCP_MAXSEG", finished=True, fix="setsockopt TCP_MAXSEG 1160"),
        case("always probe", finished=True, fix="sysctl net.ipv4.tcp_mtu_probing=2"),
    ]
    return PathMtu(cases, {}, 1200)


PICTURES = {
    "headers": cache(lambda: figures.headers(sweep())),
    "paths": cache(lambda: figures.path_mtu(paths())),
}


@pytest.mark.parametrize("name", PICTURES)
def test_texts_do_not_overlap(name: str) -> None:
    assert_readable(PICTURES[name]())


def test_header_shares_are_on_the_derived_curve() -> None:
    picture = PICTURES["headers"]()
    [axes] = picture.figure.axes
    x, y = map(np.asarray, axes.lines[0].get_data())
    curve = dict(zip(x.tolist(), y.tolist(), strict=True))
    assert curve[1] == pytest.approx(100 / 91)
    assert curve[1448] == pytest.approx(100 * 1448 / 1538)
    assert "94.0 % with MTU 1500" in picture.note.replace("\N{NO-BREAK SPACE}", " ")
    with pytest.raises(ValueError, match="nothing was measured on the wire"):
        figures.headers(Mtu(sweep().loopback, {}))


def test_dropped_segments_have_their_own_mark() -> None:
    picture = PICTURES["paths"]()
    assert picture.title == (
        "All data gets through in the case 'ICMP tells', but the transfer never ends in the case"
        " 'black hole'"
    )
    assert picture.note == "ICMP tells: after 3.20 ms · black hole: 10 packets dropped"
    [axes] = picture.figure.axes
    marks = {line.get_label(): line.get_marker() for line in axes.lines}
    assert marks["segment that fits MTU 1200"] == "o"
    assert marks["segment too long: dropped"] == "X"
    assert marks["ICMP: fragmentation needed"] == "v"
    assert len(picture.table.rows) == 4


def test_shares_of_a_busy_machine_are_readable() -> None:
    """On a busy machine the points are below the curve and not in the order of the sizes."""
    goodput = {576: 10.59, 1500: 10.34, 9000: 12.11}
    wire = [WireMtu(mtu, 100, [rate]) for mtu, rate in goodput.items()]
    assert_readable(figures.headers(Mtu(wire, {})))
