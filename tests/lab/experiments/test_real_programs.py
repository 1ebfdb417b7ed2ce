"""Facts of lesson 11, from the same experiments: counts and order of one run. Of a program that is
not installed the test is skipped, with the line that installs it."""

from __future__ import annotations

import pytest
from tests.support.needs import need
from tests.support.nonempty import each

from tcplab import machine
from tcplab.errors import ParameterError
from tcplab.experiments import any_command, real_programs

pytestmark = pytest.mark.needs_lab

NAGLE = "Nagle × delayed ACK"


def test_httpserver_waits_in_each_answer_and_one_line_mends_it() -> None:
    http = real_programs.measure_http_server()
    slow, mended, undelayed = http.variants
    assert slow.verdict == NAGLE
    assert slow.answer() == undelayed.answer()
    assert [len(part) for part in slow.answer()] == [2, 2]
    assert [len(part) for part in mended.answer()] == [1, 1]
    assert sum(mended.answer()[0]) == sum(slow.answer()[0])
    assert slow.held_ms > 10 * max(mended.held_ms, undelayed.held_ms)
    assert (slow.nodelay_set, undelayed.nodelay_set) == (0, 1)
    for run in each(http.variants):
        assert run.messages == 12
        assert ("nodelay", 1) in run.options("client")  # of http.client, which cannot help


def test_nginx_directives_decide_on_writes_and_segments() -> None:
    need("nginx", "curl")
    nginx = real_programs.measure_nginx()
    shapes = {run.case: tuple(len(part) for part in run.answer()) for run in nginx.variants}
    assert shapes == {
        "none": (1, 1),
        "nopush": (1, 1),
        "sendfile": (2, 2),
        "sendfile+nodelay": (2, 2),
        "sendfile+nopush": (2, 1),
        "sendfile+nopush+nodelay": (2, 1),
    }
    assert [run.case for run in nginx.variants if run.verdict == NAGLE] == ["sendfile"]
    # A cork takes the place of TCP_NODELAY, which is then never set.
    corked = {run.case: (run.nodelay_set, run.corked) for run in nginx.variants}
    assert corked["sendfile+nodelay"] == (1, 0)
    assert corked["sendfile+nopush+nodelay"] == (0, 6)
    assert corked["nopush"] == (0, 0)


def test_the_small_end_of_a_large_answer_waits_for_a_round_trip() -> None:
    need("nginx", "curl")
    far = real_programs.measure_nginx(file_bytes=10_000, rtt_ms=50)
    plain, undelayed, corked = (
        far[case] for case in ("sendfile", "sendfile+nodelay", "sendfile+nopush")
    )
    assert plain.held_ms > 6 * 0.9 * 50
    assert max(undelayed.held_ms, corked.held_ms) < plain.held_ms / 4
    assert plain.answer()[1][0] == plain.answer()[0][0]  # the header, alone
    assert [run.answer()[1].count(1448) for run in (plain, corked)] == [6, 7]


def test_redis_is_asked_once_per_round_trip_or_once_in_all() -> None:
    need("redis-server", "redis-benchmark")
    redis = real_programs.measure_redis((1, 20), commands=40, rtt_ms=20)
    one, many = redis.variants
    assert one.server_reads >= 40 > 10 > many.server_reads
    assert one.server_writes == 40 > many.server_writes
    assert many.commands_per_s > 5 * one.commands_per_s
    for run in each(redis.variants):
        assert run.commands_per_s < 1.05 * run.model_per_s * 40 / (40 - run.pipeline)
        assert run.explanation.verdict is not None
        assert run.explanation.verdict.kind != "fault"


def test_a_broker_sends_more_segments_sooner_with_nodelay() -> None:
    need("mosquitto", "mosquitto_pub")
    mqtt = real_programs.measure_mosquitto(readings=30, rtt_ms=60)
    delayed, undelayed = mqtt[False], mqtt[True]
    assert delayed.broker_writes == undelayed.broker_writes >= 30
    assert delayed.broker_segments < undelayed.broker_segments
    assert delayed.delay_ms > 1.2 * undelayed.delay_ms
    assert delayed.delay_ms >= 30


def test_go_makes_the_same_two_writes_and_waits_only_without_nodelay() -> None:
    need("go", "curl")
    go = real_programs.measure_go()
    plain, delayed, buffered = go.variants
    assert plain.answer() == delayed.answer()
    assert [len(part) for part in plain.answer()] == [2, 2]
    assert [len(part) for part in buffered.answer()] == [1, 1]
    assert [run.case for run in go.variants if run.verdict == NAGLE] == ["SetNoDelay(false)"]


def test_any_command_finds_its_files() -> None:
    need("curl")
    mine = any_command.measure(server="python3 {folder}/buffered.py")
    [run] = mine.variants
    assert run.messages == 12
    assert [len(part) for part in run.answer()] == [1, 1]


@pytest.mark.parametrize(
    ("client", "message"),
    [
        ("", "no client: give a command such as curl http://server:8000/"),
        ("curl 'x", "curl 'x: no closing quotation"),
    ],
)
def test_a_bad_command_is_one_line(client: str, message: str) -> None:
    with pytest.raises(ParameterError) as raised:
        any_command.measure(client=client)
    assert str(raised.value).lower() == message.lower()


def test_what_is_not_installed_is_shown_from_its_recording(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(machine, "find", lambda _name: None)
    nginx = real_programs.measure_nginx()
    why = nginx.provenance["recorded"]["why"]
    assert why == "nginx is not installed: apt install nginx-light"
    assert nginx["sendfile"].verdict == NAGLE
