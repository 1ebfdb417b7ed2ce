"""Test behaviour without the right to make a laboratory: loopback instead, and refusals."""

import os
import uuid
from typing import Any

import pytest
from tests.support.lifetime import processes_with, start_and_kill, until
from tests.support.tables import table

from tcplab import Lab, LabError, Loopback
from tcplab.errors import ParameterError
from tcplab.lab import program_path
from tcplab.lab.host import started_commands


def test_loopback_runs_commands_and_refuses_the_rest_by_name() -> None:
    with Loopback() as loop:
        assert loop.server.address == "127.0.0.2"
        assert loop.client.run(["id", "-u"]).stdout.strip() == str(os.getuid())
        assert loop.client.sysctl("net.ipv4.tcp_rmem")
        with pytest.raises(LabError, match="Loopback has no link"):
            loop.link.update(rtt_ms=5)
        with pytest.raises(LabError, match="does not change the real machine"):
            loop.client.sysctl("net.ipv4.tcp_rmem", "1 2 3")
    with pytest.raises(LabError, match="closed"):
        loop.client.run(["true"])


def test_a_missing_program_is_named_with_the_fix() -> None:
    with pytest.raises(LabError, match=r"'no-such-program' is not built; .*run 'make setup'"):
        program_path("no-such-program")


def test_loopback_commands_die_with_a_sigkilled_owner_too() -> None:
    mark = f"MARK={uuid.uuid4()}"
    start_and_kill("Loopback", 2, mark, processes=5)
    until(lambda: not processes_with(mark))


@pytest.mark.parametrize(("parameters", "message"), table("mistakes")["laboratories"])
def test_bad_parameters_are_named_with_limits(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message) as caught:
        Lab(**parameters)
    assert "\n" not in str(caught.value)


def test_nested_collections_of_commands_end_separately() -> None:
    with Loopback() as loop, started_commands() as outer:
        with started_commands() as inner:
            loop.client.run(["true"])
        loop.server.run(["true"])
    assert list(inner) == ["client$ true"]
    assert list(outer) == ["client$ true", "server$ true"]
