"""Test the packaged servers and clients of lesson real-programs live, by counts and comparisons.

The lesson's statements about them are asserted in tests/fast/experiments/test_real_programs.py.
"""

from collections.abc import Callable

import pytest
from tests.support.nonempty import each

from tcplab.experiments import real_programs

pytestmark = pytest.mark.needs_lab

Tool = Callable[[str], str]


def test_nginx_directives_determine_the_writes(tool: Tool) -> None:
    tool("nginx"), tool("curl")
    nginx = real_programs.measure_nginx(["none", "sendfile+nodelay", "sendfile+nopush+nodelay"])
    assert [len(run.answer()[0]) for run in nginx.variants] == [1, 2, 2]
    # With a cork, nginx never sets TCP_NODELAY.
    assert [(run.nodelay_set, run.corked) for run in nginx.variants[1:]] == [(1, 0), (0, 6)]


def test_redis_pipelining_saves_round_trips(tool: Tool) -> None:
    tool("redis-server"), tool("redis-benchmark")
    redis = real_programs.measure_redis((1, 20), commands=40)
    one, many = redis.variants
    assert one.server_reads >= 40 > 10 > many.server_reads
    assert one.server_writes == 40 > many.server_writes
    assert many.commands_per_s > 5 * one.commands_per_s
    for run in each(redis.variants):
        assert run.commands_per_s < 1.05 * run.model_per_s * 40 / (40 - run.pipeline)


def test_broker_sends_more_segments_with_nodelay(tool: Tool) -> None:
    tool("mosquitto"), tool("mosquitto_pub")
    mqtt = real_programs.measure_mosquitto(readings=30, rtt_ms=60)
    delayed, undelayed = mqtt[False], mqtt[True]
    assert delayed.broker_writes == undelayed.broker_writes >= 30
    assert delayed.broker_segments < undelayed.broker_segments
    assert delayed.delay_ms > undelayed.delay_ms >= 30


def test_go_makes_two_writes_unless_it_buffers(tool: Tool) -> None:
    tool("go"), tool("curl")
    plain, delayed, buffered = real_programs.measure_go(requests=2).variants
    assert [len(run.answer()[0]) for run in (plain, delayed, buffered)] == [2, 2, 1]
    assert delayed.held_ms > plain.held_ms
