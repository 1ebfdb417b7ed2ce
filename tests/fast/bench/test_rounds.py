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
from bench import capture, goals, peers, programs, report, rounds
from bench.peers import Setting
from bench.rounds import DISTURBED, Measured, Others, Rules, contest, summary
from tests.support.paths import ROOT

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
    monkeypatch.setattr(rounds, "Others", Quiet)


# ---- rounds ----


@pytest.mark.usefixtures("quiet_machine")
def test_entrants_take_turns_in_being_first() -> None:
    order: list[str] = []

    def run(name: str) -> Measured:
        order.append(name)
        return Measured(1.0)

    contest({name: lambda name=name: run(name) for name in "abc"}, Rules(rounds=3))  # type: ignore[misc]
    assert "".join(order) == "abcbcacab"


@pytest.mark.usefixtures("quiet_machine")
def test_disturbed_rounds_are_repeated_and_the_quietest_counts() -> None:
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
def test_failure_of_a_guest_ends_only_its_part(
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
def test_no_round_is_repeated_after_the_time_limit() -> None:
    Quiet.shares = itertools.repeat(0.5)
    rules = Rules(rounds=3, repeats=9, repeat_until=time.monotonic())
    samples = contest({"a": lambda: Measured(1.0)}, rules)["a"]
    assert [each.runs for each in samples] == [1, 1, 1]


def test_other_processes_are_noticed() -> None:
    # An orphan is nobody's descendant, and so not ours.
    busy = "import time; end = time.monotonic() + 20\nwhile time.monotonic() < end: pass"
    script = 'exec "$0" -c "$1" >&- 2>&- & echo $!'
    done = subprocess.run(
        ["sh", "-c", script, sys.executable, busy], capture_output=True, text=True, check=True
    )
    try:
        shares = [_share_while_it_computes(int(done.stdout)) for _ in range(3)]
        assert max(shares) > 0  # what ends meanwhile takes its time with it, and may be more
    finally:
        os.kill(int(done.stdout), 9)


def _share_while_it_computes(pid: int) -> float:
    with Others() as others:
        enough = _cpu_ticks(pid) + 10
        deadline = time.monotonic() + 5
        while _cpu_ticks(pid) < enough and time.monotonic() < deadline:
            time.sleep(0.05)
    return others.share


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
        (lambda s: peers.iperf3_bulk(s, 1440), json.dumps(IPERF3), 8.0),
        (lambda s: peers.nuttcp_bulk(s, 1440), NUTTCP, 8.0),
        (lambda s: peers.qperf_bulk(s, 1440), "tcp_bw:\n    bw  =  1000000000 bytes/sec", 8.0),
        (lambda s: peers.netperf_bulk(s, 1440), "MIGRATED TCP\nTHROUGHPUT=8000.00\n", 8.0),
        (lambda s: peers.qperf_exchange(s, 1, 1), "tcp_lat:\n    latency  =  5000 ns", 100_000),
        (lambda s: peers.sockperf_exchange(s, 1, 1), SOCKPERF, 100_000),
        (lambda s: peers.netperf_exchange(s, 30, 2), "TRANSACTION_RATE=100000.0", 100_000),
        (lambda s: peers.iperf3_udp(s, 1440), json.dumps(IPERF3), 8.0),
        (lambda s: peers.nuttcp_udp(s, 1440), f"{NUTTCP} data_loss=1.50000", 8.0),
        (
            lambda s: peers.qperf_udp(s, 1440),
            "send_bw  =  1015228426 bytes/sec\n recv_bw  =  1000000000 bytes/sec",
            8.0,
        ),
        (
            lambda s: peers.netperf_udp(s, 1440),
            "LOCAL_SEND_THROUGHPUT=8121.83\nREMOTE_RECV_THROUGHPUT=8000.00",
            8.0,
        ),
    ],
)
def test_output_of_peers_is_parsed(
    run: Callable[[Setting], Measured], text: str, value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "_run", lambda *_: text)
    with Loopback() as network:
        measured = run(Setting(Pair(network.client, network.server), 0, 0, 1))
    assert measured.value == pytest.approx(value)
    if "lost_percent" in measured.more:
        assert measured.more["lost_percent"] == pytest.approx(1.5, abs=0.001)


ORIGIN = {
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
def test_a_goal_is_judged_round_by_round(ours: tuple[float, ...], verdict: str) -> None:
    values = {"tcplab": ours, "qperf": (8.0, 9.5, 20.0), "nuttcp": (1.0, 9.6, 2.0)}
    rows = [
        {"entrant": name, "values": taken, "ours": name == "tcplab"}
        for name, taken in values.items()
    ]
    goal = programs.judge("bulk", rows, "tcplab", 1.0, None)
    assert goal.wanted == "1 × qperf"
    assert goal.verdict() == verdict
    alone = programs.judge("bulk", rows[:1], "tcplab", 1.0, None)
    assert (alone.verdict(), alone.measured()) == ("nothing to compare with", "–")


@pytest.mark.parametrize(
    ("count", "outside"),
    [(1, 0), (5, 0), (6, 0), (8, 0), (9, 1), (11, 1), (12, 2), (20, 5)],  # tables of the sign test
)
def test_median_interval_follows_the_binomial(count: int, outside: int) -> None:
    values = [float(number) for number in range(count)]
    assert goals.median_interval(values) == (outside, count - 1 - outside)


def test_recorder_climbs_until_it_loses_twice() -> None:
    def limited(limit: int) -> capture.Climber:
        climber = capture.Climber("any", None, 5)  # type: ignore[arg-type]
        while climber.stopped_by is None:
            rate = capture.RATES[climber._step]
            climber.learn(Measured(rate, more={"kept": float(rate <= limit)}))
        return climber

    assert (limited(220_000).best_pps, limited(220_000).stopped_by) == (200_000, "loss")
    assert limited(2_000).best_pps == 2_000
    assert limited(1).best_pps == 0


# ---- all together ----


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--rounds", "0"], "'0' must be a whole number from 1"),
        (["--only", "wire"], "give --output DIR"),
    ],
)
def test_mistakes_on_the_command_line_are_named(words: list[str], message: str) -> None:
    argv = [sys.executable, "-m", "bench", *words]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert message in done.stderr


def test_file_methods_are_measured_and_written_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: Callable[[str], str]
) -> None:
    tool("ip")  # sets the congestion control of the contests
    monkeypatch.setattr(programs, "FILE_BYTES", 16 << 20)
    part = programs.measure(Rules(rounds=1, repeats=0), only="file")
    rows: list[Any] = list(part.tables[0].rows)
    calls = {row["entrant"]: row["system_calls"] for row in rows}
    assert set(calls) == {f"sendfile_client -m {method}" for method in programs.METHODS}
    assert calls["sendfile_client -m sendfile"] < calls["sendfile_client -m read"]
    for row in rows:
        row["others"] = 0.0
    assert "was busy" not in report.markdown(ORIGIN, [part])
    rows[0]["others"] = 0.5
    report.write(ORIGIN, [part], tmp_path)
    text = (tmp_path / "benchmarks.md").read_text()
    assert "| sendfile_client -m sendfile" in text
    assert "1.5 × sendfile_client -m read" in text
    assert "busy: others took up to 50 % of the processors in 1 of 5 rows" in text
    assert "not there to compare with: netperf" in text
    (kept,) = json.loads((tmp_path / "benchmarks.json").read_text())["parts"]
    assert kept["tables"][0]["rows"] == rows
    assert [goal["entrant"] for goal in kept["goals"]] == ["sendfile_client -m sendfile"]
    assert (tmp_path / "images" / "benchmarks.svg").stat().st_size < 200_000


def test_routes_of_a_pair_name_its_network() -> None:
    with Loopback() as network:
        veth = Host(network, "client", "10.0.1.1", "direct0")
    assert peers._routes(veth) == ["10.0.1.0/24 dev direct0 proto kernel scope link src 10.0.1.1"]
