"""Test the benchmarks: order and repetition of rounds, parsing of the peers' output, and goals."""

import contextlib
import functools
import itertools
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import bench.__main__
import pytest
from bench import capture, goals, peers, programs, report, rounds, sources
from bench.__main__ import main
from bench.peers import Setting
from bench.rounds import DISTURBED, Measured, Rules, contest, summary

from tcplab.errors import LabError
from tcplab.lab import Host, Loopback, Pair
from tcplab.tables import Column, Table

# ---- rounds ----


def test_disturbed_rounds_are_repeated_and_the_quietest_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shares = iter([0.5, DISTURBED / 2, 0.9, 0.4, 0.8])
    monkeypatch.setattr(
        rounds, "Others", lambda: contextlib.nullcontext(SimpleNamespace(share=next(shares)))
    )
    values = itertools.count(1.0)
    samples = contest({"a": lambda: Measured(next(values))}, Rules(rounds=2, repeats=2))["a"]
    assert [(sample.measured.value, sample.runs) for sample in samples] == [(2.0, 2), (4.0, 3)]
    assert summary(samples) == {
        "median": 3.0,
        "lowest": 2.0,
        "highest": 4.0,
        "rounds": 2,
        "values": [2.0, 4.0],
        "repeated": 3,
        "others": (DISTURBED / 2 + 0.4) / 2,
    }


def test_entrants_take_turns_and_a_guest_that_fails_ends_only_its_part(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    disturbed = SimpleNamespace(share=0.5)
    monkeypatch.setattr(rounds, "Others", lambda: contextlib.nullcontext(disturbed))
    order: list[str] = []

    def run(name: str) -> Measured:
        order.append(name)
        if name == "guest":
            raise LabError("no such option")
        return Measured(1.0)

    entrants = {name: functools.partial(run, name) for name in ("a", "guest", "b", "c")}
    over = Rules(rounds=3, repeat_until=time.monotonic())  # so no round is repeated
    samples = contest(entrants, over, "race", guests=["guest", "b"])
    assert order == ["a", "guest", "b", "c", *"bca", *"cab"]
    assert {name: len(taken) for name, taken in samples.items()} == {"a": 3, "b": 3, "c": 3}
    assert "race: guest is out: no such option" in capsys.readouterr().err
    with pytest.raises(LabError, match="no such option"):
        contest(entrants, over)


# ---- what the peers print ----

IPERF3 = {"end": {"sum_received": {"bits_per_second": 8e9, "lost_percent": 1.5}}}
NUTTCP = "megabytes=4739.4992 real_seconds=1.00 rate_Mbps=8000.0 tx_cpu=33 rx_cpu=66"
SENT = "1015228426 bytes/sec"
NETPERF_UDP = "LOCAL_SEND_THROUGHPUT=8121.83\nREMOTE_RECV_THROUGHPUT=8000.00"
SOCKPERF = """sockperf: [Total Run] RunTime=1.000 sec; SentMessages=9; ReceivedMessages=9
sockperf: [Valid Duration] RunTime=0.500 sec; SentMessages=50000; ReceivedMessages=50000"""


@pytest.mark.parametrize(
    ("run", "text", "value"),
    [
        (lambda s: peers.iperf3_bulk(s, 1440), json.dumps(IPERF3), 8.0),
        (lambda s: peers.nuttcp_bulk(s, 1440), NUTTCP, 8.0),
        (lambda s: peers.netperf_bulk(s, 1440), "MIGRATED TCP\nTHROUGHPUT=8000.00\n", 8.0),
        (lambda s: peers.qperf_exchange(s, 1, 1), "tcp_lat:\n    latency  =  5000 ns", 100_000),
        (lambda s: peers.netperf_exchange(s, 30, 2), "TRANSACTION_RATE=100000.0", 100_000),
        (lambda s: peers.iperf3_udp(s, 1440), json.dumps(IPERF3), 8.0),
        (lambda s: peers.qperf_udp(s, 1440), f"send_bw = {SENT}\nrecv_bw = 1000000000", 8.0),
        (lambda s: peers.netperf_udp(s, 1440), NETPERF_UDP, 8.0),
        (lambda s: peers.qperf_bulk(s, 1440), "tcp_bw:\n    bw  =  1000000000 bytes/sec", 8.0),
        (lambda s: peers.sockperf_exchange(s, 1, 1), SOCKPERF, 100_000),
        (lambda s: peers.nuttcp_udp(s, 1440), f"{NUTTCP} data_loss=1.50000", 8.0),
    ],
)
def test_output_of_peers_is_parsed(
    run: Callable[[Setting], Measured], text: str, value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "_run", lambda *_: text)
    with Loopback() as network:
        measured = run(Setting(Pair(network.client, network.server), 0, 0, 1))
        (route,) = peers._routes(Host(network, "client", "10.0.1.1", "direct0"))
    assert route == "10.0.1.0/24 dev direct0 proto kernel scope link src 10.0.1.1"
    assert measured.value == pytest.approx(value)
    if "lost_percent" in measured.more:
        assert measured.more["lost_percent"] == pytest.approx(1.5, abs=0.001)


# ---- goals ----


@pytest.mark.parametrize(
    ("ours", "verdict"),
    [
        # The machine became faster from round to round, so only the ratios in each round count.
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


@pytest.mark.parametrize(("count", "outside"), [(1, 0), (5, 0), (8, 0), (9, 1), (12, 2), (20, 5)])
def test_median_interval_follows_the_binomial(count: int, outside: int) -> None:
    """The expected ranks are those of the tables of the sign test."""
    values = [float(number) for number in range(count)]
    assert goals.median_interval(values) == (outside, count - 1 - outside)


@pytest.mark.parametrize(("limit", "best"), [(220_000, 200_000), (2_000, 2_000), (1, 0)])
def test_recorder_climbs_until_it_loses_twice(limit: int, best: int) -> None:
    climber = capture.Climber("any", None, 5)  # type: ignore[arg-type]
    while climber.stopped_by is None:
        rate = capture.RATES[climber._step]
        climber.learn(Measured(rate, more={"kept": float(rate <= limit)}))
    assert (climber.best_pps, climber.stopped_by) == (best, "loss")


# ---- all together ----

MACHINE = ["kernel", "cpu", "cores", "load_average", "compiler", "measured_at"]
ORIGIN: dict[str, Any] = dict.fromkeys(
    [*MACHINE, "rounds", "seconds", "repeats", "disturbed_percent"], 3
)
ORIGIN |= {"versions": {}, "absent": ["netperf"]}


def a_part(title: str, others: float = 0.0) -> Callable[[Rules], report.Part]:
    row = {"entrant": "tcplab", "others": others, "ours": True, "unit": "Gbit/s"}
    rows = [row | {"median": 2.0, "lowest": 1.0, "highest": 3.0}]
    table = Table([Column("entrant", "ours"), Column("median", "rate", "+.3f")], rows, "Contest")
    return lambda _rules: report.Part(title, "Text.", [table], [goals.at_least(title, "x", 1, 2)])


def test_each_part_is_written_at_once_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(_rules: Rules) -> report.Part:
        assert "## Fast" in (tmp_path / "benchmarks.md").read_text()
        raise LabError("no laboratory")

    monkeypatch.setattr(bench.__main__, "_origin", lambda _rules: dict(ORIGIN))
    monkeypatch.setattr(sources, "commit", lambda: "cafe")
    parts = {"programs": a_part("Fast"), "lab": fails, "wire": a_part("Busy", others=0.5)}
    monkeypatch.setattr(bench.__main__, "PARTS", parts)
    monkeypatch.setattr("sys.argv", ["bench", "--output", str(tmp_path)])
    with pytest.raises(SystemExit, match="not measured: lab; the other parts are written"):
        main()
    assert "bench: lab: no laboratory" in capsys.readouterr().err
    monkeypatch.setattr(sources, "commit", lambda: "beef")
    parts["lab"] = a_part("Late")
    monkeypatch.setattr("sys.argv", ["bench", "--only", "lab", "--output", str(tmp_path)])
    main()
    page = (tmp_path / "benchmarks.md").read_text()
    assert page.count("at commit cafe") == 2
    assert page.index("## Fast") < page.index("## Late") < page.index("at commit beef")
    assert "| tcplab | +2.000 |" in " ".join(page.split())
    assert page.count("busy: others took up to 50 % of the processors in 1 of 1 rows") == 1
    assert "netperf is not installed, so it was not compared" in page
    assert (tmp_path / "images" / "benchmarks.svg").stat().st_size < 200_000


def test_digest_ignores_comments_and_other_programs(tmp_path: Path) -> None:
    shutil.copytree(sources.ROOT / "src" / "common", tmp_path / "src" / "common")
    one = tmp_path / "src" / "laboratory" / "capture.c"
    one.parent.mkdir()
    digests = []
    for code in ("int a; /* b */\n", "int  a;// c", "int b;"):
        one.write_text(code)
        digests.append((sources.digest("capture", tmp_path), sources.digest("programs", tmp_path)))
    assert digests[0] == digests[1]
    assert digests[0][0] != digests[2][0]
    assert len({programs for _, programs in digests}) == 1


@pytest.mark.parametrize("part", sources.MEASURED)
def test_page_describes_the_present_programs(part: str) -> None:
    stored = json.loads((sources.ROOT / "docs" / "benchmarks.json").read_text())["parts"][part]
    assert stored["provenance"]["measured_c"] == sources.digest(part), "run `make bench`"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rounds", "0"], "'0' must be a whole number from 1"),
        (["--short"], "give --output DIR"),
    ],
)
def test_mistakes_on_the_command_line_are_named(
    arguments: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.argv", ["bench", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert message in capsys.readouterr().err
