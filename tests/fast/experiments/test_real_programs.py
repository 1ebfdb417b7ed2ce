import pytest
from tests.support.nonempty import each

from tcplab import machine
from tcplab.experiments import any_command, real_programs

NAGLE = "Nagle × delayed ACK"


def test_httpserver_waits_in_each_answer_and_one_line_fixes_it() -> None:
    http = real_programs.measure_http_server()
    slow, fixed, undelayed = http.variants
    assert [run.verdict == NAGLE for run in http.variants] == [True, False, False]
    assert sum(fixed.answer()[0]) == sum(slow.answer()[0])
    assert slow.held_ms > 10 * max(fixed.held_ms, undelayed.held_ms)
    for run in each(http.variants):
        assert run.messages == 12
        assert ("nodelay", 1) in run.options("client")  # http.client sets it, without effect
    assert any_command.measure().variants[0].verdict == NAGLE


def test_nginx_directives_decide_on_writes_and_segments() -> None:
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


def test_redis_pipelining_needs_fewer_round_trips() -> None:
    redis = real_programs.measure_redis()
    for run in each(redis.variants):
        assert run.commands_per_s == pytest.approx(run.model_per_s, rel=0.05)
        assert run.explanation.verdict is not None
        assert run.explanation.verdict.kind != "fault"


def test_missing_program_is_shown_from_its_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCPLAB_MODE", "live")
    monkeypatch.setattr(machine, "find", lambda _name: None)
    nginx = real_programs.measure_nginx()
    why = nginx.provenance["recorded"]["why"]
    assert why == "nginx is not installed: apt install nginx-light"
    assert nginx["sendfile"].verdict == NAGLE
