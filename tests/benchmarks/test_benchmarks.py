"""The benchmarks measure what they say: turns, disturbed rounds, what the peers print, goals."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.benchmarks import bench_capture, bench_programs, bench_wire, quiet, report, tools
from tests.benchmarks.quiet import (
    DISTURBED,
    Measured,
    Others,
    Rules,
    contest,
    median_interval,
    summary,
)
from tests.benchmarks.tools import Setting

from tcplab.errors import LabError
from tcplab.lab import Host, Loopback, Pair


class Quiet:
    """Stands for Others: what each round is to find."""

    shares: Iterator[float] = itertools.repeat(0.0)

    def __enter__(self) -> Quiet:
        self.share = next(Quiet.shares)
        return self

    def __exit__(self, *_: object) -> None: ...


@pytest.fixture
def quiet_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    Quiet.shares = itertools.repeat(0.0)
    monkeypatch.setattr(quiet, "Others", Quiet)


# ---- rounds ----


@pytest.mark.usefixtures("quiet_machine")
def test_the_entrants_take_turns_and_each_is_first_in_turn() -> None:
    order: list[str] = []

    def run(name: str) -> Measured:
        order.append(name)
        return Measured(1.0)

    contest({name: lambda name=name: run(name) for name in "abc"}, Rules(rounds=3))  # type: ignore[misc]
    assert "".join(order) == "abcbcacab"


@pytest.mark.usefixtures("quiet_machine")
def test_a_disturbed_round_is_run_again_and_the_quietest_counts() -> None:
    Quiet.shares = iter([0.5, DISTURBED / 2, 0.9, 0.4, 0.8])
    values = itertools.count(1.0)
    samples = contest({"a": lambda: Measured(next(values))}, Rules(rounds=2, repeats=2))["a"]
    assert [(each.measured.value, each.runs) for each in samples] == [(2.0, 2), (4.0, 3)]
    assert summary(samples) == {
        "median": 3.0,
        "lowest": 2.0,
        "highest": 4.0,
        "rounds": 2,
        "values": [2.0, 4.0],
        "repeated": 3,
        "others": (DISTURBED / 2 + 0.4) / 2,
    }


@pytest.mark.usefixtures("quiet_machine")
def test_a_guest_who_fails_is_out_and_a_failure_of_ours_ends_all(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail() -> Measured:
        raise LabError("no such option")

    entrants: dict[str, Callable[[], Measured]] = {
        "ours": lambda: Measured(1.0),
        "guest": fail,
        "other": lambda: Measured(2.0),
    }
    samples = contest(entrants, Rules(rounds=3), "race", guests=["guest", "other"])
    assert {name: len(taken) for name, taken in samples.items()} == {"ours": 3, "other": 3}
    assert "race: guest is out: no such option" in capsys.readouterr().err
    with pytest.raises(LabError, match="no such option"):
        contest(entrants, Rules(rounds=1))


@pytest.mark.usefixtures("quiet_machine")
def test_after_its_time_no_round_is_run_again() -> None:
    Quiet.shares = itertools.repeat(0.5)
    rules = Rules(rounds=3, repeats=9, repeat_until=time.monotonic())
    samples = contest({"a": lambda: Measured(1.0)}, rules)["a"]
    assert [each.runs for each in samples] == [1, 1, 1]


def test_the_processes_of_others_are_noticed() -> None:
    # An orphan is nobody's descendant, and so not ours.
    busy = "import time; end = time.monotonic() + 20\nwhile time.monotonic() < end: pass"
    script = 'exec "$0" -c "$1" >&- 2>&- & echo $!'
    done = subprocess.run(
        ["sh", "-c", script, sys.executable, busy], capture_output=True, text=True, check=True
    )
    try:
        with Others() as others:
            enough = _cpu_ticks(int(done.stdout)) + 10
            deadline = time.monotonic() + 15
            while _cpu_ticks(int(done.stdout)) < enough and time.monotonic() < deadline:
                time.sleep(0.05)
        assert others.share > 0
    finally:
        os.kill(int(done.stdout), 9)


def _cpu_ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


# ---- what the peers print ----

IPERF3 = {"end": {"sum_received": {"bits_per_second": 8e9, "lost_percent": 1.5}}}
NUTTCP = "megabytes=4739.4992 real_seconds=1.00 rate_Mbps=8000.0 tx_cpu=33 rx_cpu=66"
SOCKPERF = """sockperf: [Total Run] RunTime=1.000 sec; SentMessages=9; ReceivedMessages=9
sockperf: [Valid Duration] RunTime=0.500 sec; SentMessages=50000; ReceivedMessages=50000"""


@pytest.mark.parametrize(
    ("run", "text", "value"),
    [
        (lambda s: tools.iperf3_bulk(s, 1440), json.dumps(IPERF3), 8.0),
        (lambda s: tools.nuttcp_bulk(s, 1440), NUTTCP, 8.0),
        (lambda s: tools.qperf_bulk(s, 1440), "tcp_bw:\n    bw  =  1000000000 bytes/sec", 8.0),
        (lambda s: tools.netperf_bulk(s, 1440), "MIGRATED TCP\nTHROUGHPUT=8000.00\n", 8.0),
        (lambda s: tools.qperf_exchange(s, 1, 1), "tcp_lat:\n    latency  =  5000 ns", 100_000),
        (lambda s: tools.sockperf_exchange(s, 1, 1), SOCKPERF, 100_000),
        (lambda s: tools.netperf_exchange(s, 30, 2), "TRANSACTION_RATE=100000.0", 100_000),
        (lambda s: tools.iperf3_udp(s, 1440), json.dumps(IPERF3), 8.0),
        (lambda s: tools.nuttcp_udp(s, 1440), f"{NUTTCP} data_loss=1.50000", 8.0),
        (
            lambda s: tools.qperf_udp(s, 1440),
            "send_bw  =  1015228426 bytes/sec\n recv_bw  =  1000000000 bytes/sec",
            8.0,
        ),
        (
            lambda s: tools.netperf_udp(s, 1440),
            "LOCAL_SEND_THROUGHPUT=8121.83\nREMOTE_RECV_THROUGHPUT=8000.00",
            8.0,
        ),
    ],
)
def test_what_a_peer_prints_is_understood(
    run: Callable[[Setting], Measured], text: str, value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools, "_run", lambda *_: text)
    with Loopback() as network:
        measured = run(Setting(Pair(network.client, network.server), 0, 0, 1))
    assert measured.value == pytest.approx(value)
    if "lost_percent" in measured.more:
        assert measured.more["lost_percent"] == pytest.approx(1.5, abs=0.001)


# ---- goals ----


@pytest.mark.parametrize(
    ("ours", "verdict"),
    [
        # The machine grew faster from round to round: the medians differ, the ratios don't.
        ((8.0, 9.5, 20.0), "reached"),
        ((8.1, 9.4, 19.0), "missed, within the error"),
        ((5.0, 6.0, 7.0), "**missed**"),
    ],
)
def test_a_goal_is_judged_round_by_round_and_the_error_is_told(
    ours: tuple[float, ...], verdict: str
) -> None:
    values = {"tcplab": ours, "qperf": (8.0, 9.5, 20.0), "nuttcp": (1.0, 9.6, 2.0)}
    rows = {name: {"values": each} for name, each in values.items()}
    wanted = bench_programs.Goal("tcplab", 1.0)
    goal = bench_programs._judge(wanted, rows, bench_programs._is_ours)
    assert goal["of"] == "qperf"
    assert report._verdict(goal) == verdict
    alone = {"tcplab": rows["tcplab"]}
    told = bench_programs._judge(wanted, alone, bench_programs._is_ours)
    assert report._verdict(told) == "nothing to compare with"


@pytest.mark.parametrize(
    ("count", "outside"),
    [(1, 0), (5, 0), (6, 0), (8, 0), (9, 1), (11, 1), (12, 2), (20, 5)],  # tables of the sign test
)
def test_the_interval_of_a_median_leaves_out_as_many_as_the_binomial_allows(
    count: int, outside: int
) -> None:
    values = [float(number) for number in range(count)]
    assert median_interval(values) == [outside, count - 1 - outside]


def test_a_recorder_climbs_until_it_loses_twice() -> None:
    def limited(limit: int) -> bench_capture.Climber:
        climber = bench_capture.Climber("any", None, 5)  # type: ignore[arg-type]
        while climber.stopped_by is None:
            rate = bench_capture.RATES[climber._step]
            climber.learn(Measured(rate, more={"kept": float(rate <= limit)}))
        return climber

    assert (limited(220_000).best_pps, limited(220_000).stopped_by) == (200_000, "loss")
    assert limited(2_000).best_pps == 2_000
    assert limited(1).best_pps == 0


# ---- all together ----


def test_the_file_methods_are_measured_and_written_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: Callable[[str], str]
) -> None:
    tool("ip")  # sets the congestion control of the contests
    monkeypatch.setattr(bench_programs, "FILE_BYTES", 16 << 20)
    (found,) = bench_programs.measure(Rules(rounds=1, repeats=0), only="file")
    rows: dict[str, Any] = {row["entrant"]: row for row in found["rows"]}
    assert set(rows) == {f"filesend -m {method}" for method in bench_programs.METHODS}
    calls = {name: row["system_calls"] for name, row in rows.items()}
    assert calls["filesend -m sendfile"] < calls["filesend -m read"]
    origin = {
        "versions": {"qperf": "0.4"},
        "measured_at": "now",
        "kernel": "6",
        "cpu": "any",
        "cores": 2,
        "load_average": 0.1,
        "compiler": "GCC",
        "rounds": 1,
        "repeats": 0,
        "seconds": 1,
        "disturbed_percent": 3.0,
        "took_s": 60,
        "absent": ["netperf"],
    }
    for row in found["rows"]:
        row["others"] = 0.0
    assert "was busy" not in report.markdown({"provenance": origin, "programs": [found]})
    found["rows"][0]["others"] = 0.5
    report.write({"provenance": origin, "programs": [found]}, tmp_path)
    text = (tmp_path / "benchmarks.md").read_text()
    assert "| filesend -m sendfile" in text
    assert "busy: others took up to 50 % of the processors in 1 of 5 rows" in text
    assert "not there to compare with: netperf" in text
    assert json.loads((tmp_path / "benchmarks.json").read_text())["programs"] == [found]
    assert (tmp_path / "images" / "benchmarks.svg").stat().st_size < 200_000


# ---- the wire ----


def test_the_wire_carries_beside_forwarders_that_know_of_no_link(
    tool: Callable[[str], str],
) -> None:
    tool("cc")
    rows = bench_wire.measure(Rules(rounds=1, repeats=0))
    assert [row["entrant"] for row in rows] == [bench_wire.WIRE, *bench_wire.MODES]
    assert all(row["median"] > 0 and row["wire_cpu_s_per_gb"] > 0 for row in rows)


def test_the_wires_goals_take_the_best_round_and_the_median() -> None:
    road = {"road": bench_wire.WIRE}
    rows = {"the wire": (9.0, 9.0, 9.0), **dict.fromkeys(bench_wire.MODES, (6.0, 5.0, 9.5))}
    wire = {
        "delay": [{**road, "pps": 10_000, "error_us_p50": 51, "error_us_p99": 299}],
        "rate": [
            {**road, "rate_mbit": 500, "rate_error_percent": -0.6, "goodput_error_percent": 0.1},
            {**road, "rate_mbit": 1000, "rate_error_percent": 9, "goodput_error_percent": 0.2},
        ],
        "throughput": [
            {"offload": "off", "gbit_per_s": 4.9, "highest": 5.1},
            {"offload": "on", "gbit_per_s": 20.0, "highest": 21.0},
        ],
        "forwarders": [{"entrant": name, "values": values} for name, values in rows.items()],
    }
    reached = [goal["reached"] for goal in bench_wire.goals(wire)]
    assert reached == [False, True, False, True, True, False, True, True, False, True]
    assert len(bench_wire.goals({**wire, "forwarders": []})) == 8


def test_the_routes_of_a_pair_name_its_own_network() -> None:
    with Loopback() as network:
        veth = Host(network, "client", "10.0.1.1", "direct0")
    assert tools._routes(veth) == ["10.0.1.0/24 dev direct0 proto kernel scope link src 10.0.1.1"]
