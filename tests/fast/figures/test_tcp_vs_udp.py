"""Test the text and legibility of the figures of TCP against UDP, on made-up results."""

from __future__ import annotations

from functools import cache

import pytest
from tests.support.figures.readable import assert_readable

from tcplab import figures
from tcplab.experiments.tcp_vs_udp import (
    PROTOCOLS,
    SERVERS,
    WRITE_BYTES,
    Protocol,
    Run,
    Server,
    TableRow,
    TcpVsUdp,
)
from tcplab.experiments.udp_batching import Batching, BatchingVariant
from tcplab.experiments.udp_receive_buffers import ReceiveBuffer, ReceiveBuffers

RATES = {"bsd": 400.0, "localhost": 1200.0, "sparc": 1.17, "router": 1.17}


def table_row(server: Server, protocol: Protocol, size: int, times: float = 1) -> TableRow:
    udp = protocol == "udp"
    rate = times * (RATES["bsd"] if udp and server != "sparc" else RATES[server])
    runs = [
        Run(
            0.01,
            0.001,
            0.008,
            rate * part,
            rate / 2,
            700 if udp else None,
            700,
            5000,
            None if udp else 0,
        )
        for part in (0.5, 1, 2)
    ]
    return TableRow(server, protocol, size, 5000, runs)


def tables(times: float = 1) -> TcpVsUdp:
    rows = [
        table_row(server, protocol, size, times)
        for size in WRITE_BYTES
        for protocol in PROTOCOLS
        for server in SERVERS
    ]
    return TcpVsUdp(rows, {})


def buffers() -> ReceiveBuffers:
    rows = [
        ReceiveBuffer(4096, 8192, 3, 3000, [2997, 100, 310], [2998, 100, 310]),
        ReceiveBuffer(262_144, 524_288, 227, 3000, [0, 0, 3000], [0, 0, 3001]),
        ReceiveBuffer(8 << 20, 8 << 20, 3640, 3000, [0, 0, 0], [0, 0, 0]),
    ]
    return ReceiveBuffers(rows, {})


def batches() -> Batching:
    rows = [
        BatchingVariant(
            "udp", "UDP, 1440 bytes per call", 1440, 50_000, [700, 690], [1.5, 1.4], [0]
        ),
        BatchingVariant(
            "udp-gso-gro", "UDP, batched by both (and UDP_GRO)", 64_800, 1112, [7000], [0.2], [9]
        ),
        BatchingVariant("tcp", "TCP, 1440 bytes per call", 1440, 50_000, [2000, 2600], [0.5], []),
    ]
    return Batching(rows, {})


PICTURES = {
    "tables": cache(lambda: figures.tcp_vs_udp(tables())),
    "faster": cache(lambda: figures.tcp_vs_udp(tables(4.0))),
    "buffers": cache(lambda: figures.receive_buffers(buffers())),
    "batches": cache(lambda: figures.batching(batches())),
}


@pytest.mark.parametrize("name", PICTURES)
def test_texts_do_not_overlap(name: str) -> None:
    assert_readable(PICTURES[name]())


def test_title_compares_with_the_published_ratio() -> None:
    picture = PICTURES["tables"]()
    assert picture.title == "TCP is 3.0 times as fast to localhost as to bsd"
    assert picture.note == "TCP: 3.0 times (published: 3.0) · UDP: 1.0 times (published: 1.0)"
    rows = {(row["protocol"], row["server"], row["write_bytes"]): row for row in picture.table.rows}
    assert len(rows) == 16
    assert rows["TCP", "bsd", 1440]["published_mb_per_s"] == 2.5
    assert rows["TCP", "bsd", 1440]["mb_per_s_max"] == 800


def test_single_row_makes_a_figure() -> None:
    picture = figures.tcp_vs_udp(TcpVsUdp([table_row("sparc", "tcp", 1440)], {}))
    assert picture.title == "Over a slow link, TCP hands over 1.17 MB/s"
    assert picture.note == "10 Mbit/s · blocks of 1440 bytes"


def test_title_compares_protocols_of_one_server() -> None:
    rows = [table_row("bsd", "tcp", 1440), table_row("bsd", "udp", 1440, 2)]
    picture = figures.tcp_vs_udp(TcpVsUdp(rows, {}))
    assert picture.title == "On one machine, UDP hands over data 2 times as fast as TCP"
    assert picture.note == (
        "MTU 1500 · blocks of 1440 bytes · UDP 800 MB/s, TCP 400 MB/s · published: 1.5 times"
    )
    assert_readable(picture)
    equal = [table_row("bsd", "tcp", 300), table_row("bsd", "udp", 300)]
    picture = figures.tcp_vs_udp(TcpVsUdp(equal, {}))
    assert picture.title == "On one machine, TCP and UDP hand over data equally fast"
    assert picture.note.endswith("UDP 400 MB/s, TCP 400 MB/s · published: 0.65 times")
    other = [table_row("router", "tcp", 64), table_row("router", "udp", 64, 0.001)]
    assert figures.tcp_vs_udp(TcpVsUdp(other, {})).title == (
        "Through a router to a slow link, TCP hands over data 2.9 times as fast as UDP"
    )


def test_loss_in_the_buffer_is_told_from_loss_elsewhere() -> None:
    picture = PICTURES["buffers"]()
    plain = picture.title.replace("\N{NO-BREAK SPACE}", " ")
    assert plain == "A receive buffer that is too small loses up to 100 % of the datagrams"
    assert picture.note.endswith("room for 3640: none lost")
    elsewhere = ReceiveBuffers([ReceiveBuffer(4096, 8192, 3, 100, [50], [20])], {})
    [row] = figures.receive_buffers(elsewhere).table.rows
    assert row["lost_elsewhere"] == 30


def test_title_states_the_gain_of_batches() -> None:
    picture = PICTURES["batches"]()
    assert picture.title.startswith("With more data per call, UDP carries 10.1 times as much")
    assert [row["calls"] for row in picture.table.rows] == [50_000, 1112, 50_000]
