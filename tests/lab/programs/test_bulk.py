"""Test tcpsource, tcpsink, udpsource and udpsink."""

import itertools
import json
import socket
import struct
from pathlib import Path

import pytest
from tests.support.needs import IPV6
from tests.support.nonempty import each
from tests.support.programs.harness import PATIENCE_S, Programs, as_text, last_object

SINK = ["tcpsink", "--bind", "127.0.0.1", "--congestion", "reno"]
SOURCE = ["tcpsource", "-p", "PORT", "127.0.0.1", "--congestion", "reno"]
UDP_SINK = ["udpsink", "--bind", "127.0.0.1"]
UDP_SOURCE = ["udpsource", "-p", "PORT", "127.0.0.1"]


# ---- TCP ----


def test_tcp_defaults_are_those_of_the_book(programs: Programs) -> None:
    sent, received = programs.pair([*SINK], [*SOURCE])
    assert sent["bytes"] == received["bytes"] == 5000 * 1440
    assert sent["writes"] == sent["system_calls"] == 5000
    assert (sent["write_bytes"], received["read_bytes"]) == (1440, 32768)
    for report, buffer in ((sent, "sndbuf"), (received, "rcvbuf")):
        assert report[f"{buffer}_requested_bytes"] == 32768
        assert report[f"{buffer}_granted_bytes"] == 65536  # socket(7): the kernel doubles it
        assert report[f"{buffer}_end_bytes"] == 65536  # a size that was set does not grow
        assert report["options"][f"{buffer}_bytes"] == 65536
        assert report["options"]["congestion"] == "reno"
    assert sent["tcp_info"]["bytes_sent"] >= sent["bytes"]
    assert received["smallest_read_bytes"] <= received["largest_read_bytes"] <= 32768


def test_automatic_buffers_grow(programs: Programs) -> None:
    many = ["-s", 131072, "-c", 2000]
    sent, received = programs.pair([*SINK, "-S", "-b", "auto"], [*SOURCE, "-b", "auto", *many])
    assert received["discard"] is True
    assert sent["bytes"] == received["bytes"] == 2000 * 131_072
    assert sent["sndbuf_requested_bytes"] == received["rcvbuf_requested_bytes"] == 0
    assert sent["sndbuf_end_bytes"] > sent["sndbuf_granted_bytes"]
    assert received["rcvbuf_end_bytes"] >= received["rcvbuf_granted_bytes"]
    assert received["read_bytes"] == 131072


def test_a_small_mss_makes_small_segments(programs: Programs) -> None:
    mss, source = ["--mss", 536], [*SOURCE, "-c", 100, "-s", 5360]
    for pair in (([*SINK, *mss], source), (SINK, [*source, *mss])):
        sent, _received = programs.pair(*pair)
        assert sent["options"]["mss_bytes"] <= 536
        # Offload sends many segments as one packet, but TCP counts them all.
        assert sent["tcp_info"]["segs_out"] >= 1000


def test_samples_of_tcp_info_come_at_the_interval(programs: Programs) -> None:
    with programs.listening("tcpsink", "-p", 0, "-S", "-b", "auto") as (sink, port):
        arguments = ["-p", port, "-t", 0.5, "--interval", 50, "localhost", "--json"]
        done = programs.run("tcpsource", *arguments)
        programs.finish(sink)
    *samples, result = map(json.loads, done.stdout.splitlines())
    assert result["usage"]["wall_s"] >= 0.5
    assert result["bytes"] == 1440 * result["writes"]
    assert 2 <= len(samples) <= 12
    times = [sample["sample_s"] for sample in samples]
    assert times[0] == 0
    assert all(later - earlier >= 0.045 for earlier, later in each(itertools.pairwise(times)))
    acked = [sample["bytes_acked"] for sample in samples]
    assert acked == sorted(acked)
    assert acked[-1] <= result["bytes"] + 2  # the SYN and the FIN count as a byte each
    assert all(sample["snd_cwnd"] > 0 for sample in each(samples))


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_result_is_printed_as_text(programs: Programs, host: str) -> None:
    if host == "::1" and not Path("/proc/net/if_inet6").exists():
        pytest.skip(IPV6)
    with programs.listening("tcpsink", "-p", 0) as (sink, port):
        sent = as_text(programs.run("tcpsource", "-p", port, host).stdout)
        received = as_text(programs.finish(sink).stdout)
    assert (sent["program"], received["program"]) == ("tcpsource", "tcpsink")
    assert (sent["bytes"], sent["writes"], sent["write_bytes"]) == ("7200000", "5000", "1440")
    assert sent["options.peer"] == received["options.local"] == f"{host} port {port}"
    assert received["bytes"] == "7200000"
    assert received["discard"] == "false"


# ---- UDP ----


def test_paced_datagrams_all_arrive(programs: Programs) -> None:
    # Any kernel grants the sink a buffer that holds all datagrams.
    paced = [*UDP_SOURCE, "-c", 150, "--pace", 10]
    sent, received = programs.pair([*UDP_SINK, "-b", 2_000_000], paced)
    assert sent["datagrams"] == sent["arrived"] == received["arrived"] == received["sent"] == 150
    assert received["lost"] == received["duplicated"] == received["foreign"] == 0
    assert received["bytes"] == sent["bytes"] == 150 * 1440
    # Pacing is a limit, so the source cannot be faster, whatever the machine does.
    assert sent["usage"]["wall_s"] >= 149 * 1440 * 8 / 10e6 * 0.99


def test_offload_makes_fewer_system_calls_of_the_same_datagrams(programs: Programs) -> None:
    options = ["-c", 150, "-s", 1000, "--pace", 400]
    sent, received = programs.pair(
        [*UDP_SINK, "-b", 4_000_000, "--gro"], [*UDP_SOURCE, *options, "--gso"]
    )
    assert received["arrived"] == 150
    assert received["bytes"] == 150_000
    assert sent["system_calls"] == -(-150 // 64) + sent["end_markers"]
    assert received["reads"] < 150


@pytest.mark.parametrize("size", [16, 65507])
def test_the_smallest_and_the_largest_datagrams_arrive(programs: Programs, size: int) -> None:
    options = ["-s", size, "-c", 4, "--pace", 20, "-b", 200_000]
    _sent, received = programs.pair([*UDP_SINK, "-b", 4_000_000], [*UDP_SOURCE, *options])
    assert (received["arrived"], received["bytes"]) == (4, 4 * size)


def header(kind: bytes, run: bytes, number: int) -> bytes:
    return kind + run + struct.pack("!Q", number)


def test_every_fate_of_a_datagram_is_counted(programs: Programs) -> None:
    run, other = b"run1", b"run0"
    datagrams = [
        header(b"data", run, 0),
        header(b"data", run, 1) + b"filling",
        header(b"data", run, 4),  # 2 and 3 come late, and 5 never
        header(b"data", run, 2),
        header(b"data", run, 2),
        header(b"data", run, 3),
        header(b"data", run, 6),
        header(b"data", run, 0),
        header(b"data", other, 7),  # another run sent it
        header(b"end.", other, 1),
        b"",
        b"data",
        header(b"what", run, 8),
        header(b"data", run, 2**64 - 1),
        header(b"data", run, 100_000_000),
        header(b"end.", run, 3),  # it counts fewer than have arrived
        header(b"end.", run, 2**63),
    ]
    with programs.listening(*UDP_SINK, "-p", 0, "--json") as (sink, port):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as source:
            source.settimeout(PATIENCE_S)
            source.connect(("127.0.0.1", port))
            for datagram in datagrams:
                source.send(datagram)
            source.send(header(b"end.", run, 8))
            assert source.recv(100) == header(b"done", run, 6)
            # A source repeats its end marker if the answer was lost, and the sink answers again.
            source.send(header(b"end.", run, 8))
            assert source.recv(100) == header(b"done", run, 6)
        report = last_object(programs.finish(sink).stdout)
    expected = {
        "sent": 8,
        "arrived": 6,
        "lost": 2,
        "reordered": 2,
        "duplicated": 2,
        "foreign": 9,
        "drops": 0,
    }
    assert {name: report[name] for name in expected} == expected
