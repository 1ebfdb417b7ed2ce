"""Test the benchmark of the link emulator, which also measures other forwarders."""

from typing import Any

import pytest
from bench import wire
from bench.rounds import Rules
from tests.support.nonempty import each

from tcplab import machine
from tcplab.lab import Host, Pair


def test_delay_rate_and_throughput_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "goals", lambda *_rows: [])
    rules = Rules(rounds=2, repeats=0)
    part = wire.measure(rules, delays=[(30.0, 200)], rates_mbit=[10])
    delays, rates, through = (table.rows for table in part.tables)
    delay = next(row for row in delays if row["through"] == wire.WIRE)
    assert delay["rounds"] == len(delay["values"]) == 2
    assert delay["lost"] < 400
    # However busy the machine is, no packet comes early.
    assert 0 <= delay["median"] <= delay["p99"] <= delay["max"]
    forwarders = [] if machine.lacking("cc") else list(wire.FORWARDERS)
    # A wire without delay shows the time that the machine itself takes.
    bare = {row["through"]: row for row in delays if row["through"] in (wire.FORWARDER, wire.BARE)}
    assert list(bare) == ([wire.FORWARDER, wire.BARE] if forwarders else [])
    assert all(0 < row["median"] <= row["p99"] for row in bare.values())
    rate = next(row for row in rates if row["through"] == wire.WIRE)
    assert rate["segments"] >= 1600  # 170 writes of 10 segments take 2 s at 10 Mbit/s
    # A late first segment makes the others look faster than they were, but not by much.
    assert 0 < rate["measured_mbit"] < 20
    assert 0 < rate["goodput_mb_per_s"] < 2 * rate["expected_mb_per_s"]
    assert not {row["through"] for row in rates} & set(bare)
    links = {row["through"] for row in (*delays, *rates)}
    assert ("netem" in links) != ("netem" in part.text)
    # Other forwarders emulate no link. They replace the wire where they can be compiled.
    assert [row["entrant"] for row in through] == [wire.WIRE, wire.WHOLE, *forwarders]
    assert all(row["median"] > 0 and row["wire_cpu_s_per_gb"] > 0 for row in each(through))


def test_disturbed_round_does_not_spoil_the_row(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = iter([[9.0] * 10, [10.0] * 9 + [900.0], [8.1e3] * 6])

    class Still(wire._Link):
        def set(self, **_values: float) -> None: ...

    def echo(_client: Host, _address: str, _rtt_ms: float, _pps: float, _sent: int) -> list[float]:
        return next(rounds)

    monkeypatch.setattr(wire, "echo_errors_us", echo)
    host = Host(None, "client", "", "")  # type: ignore[arg-type]
    link = Still("any", Pair(host, host))
    (row,) = wire._delay_rows([link], 20.0, 10, Rules(rounds=3, repeats=0))
    assert (row["median"], row["p99"], row["late"]) == (10, 900, 10)
    assert (row["lost"], row["max"], row["late_us_p99"]) == (4, 8.1e3, None)


def test_goals_take_the_best_round_and_the_median() -> None:
    link = {"through": wire.WIRE}
    delay: list[dict[str, Any]] = [
        {**link, "pps": 10_000, "rtt_ms": 20, "median": 51, "p99": 299, "late": 0.9},
        {"through": wire.FORWARDER, "pps": 10_000, "rtt_ms": 20, "late": 0.6},
    ]
    rate = [
        {**link, "rate_mbit": 500, "rate_error_percent": -0.6, "goodput_error_percent": 0.1},
        {**link, "rate_mbit": 1000, "rate_error_percent": 9, "goodput_error_percent": 0.2},
    ]
    through: list[dict[str, Any]] = [
        {"entrant": wire.WIRE, "median": 4.9, "highest": 5.1, "values": [9.0, 9.0, 9.0]},
        {"entrant": wire.WHOLE, "median": 20.0, "highest": 21.0, "values": [20.0]},
        *({"entrant": name, "values": [6.0, 5.0, 9.5]} for name in wire.FORWARDERS),
    ]
    goals = wire.goals(delay, rate, through)
    limits, ratios = goals[:9], goals[9:]
    reached = [False, True, True, False, True, True, False, True, True]
    assert [goal.reached for goal in limits] == reached
    assert goals[2].was == pytest.approx(1.5)
    assert [goal.reached for goal in ratios] == [False, True]
    assert len(wire.goals(delay[:1], rate, through[:2])) == 8
