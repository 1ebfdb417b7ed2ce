"""Test the runner of a pair: ports, reports, error messages, and events during a run."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.lifetime import until
from tests.support.nonempty import each

from tcplab import Lab, LabError, Loopback
from tcplab.programs import RunOptions, run_pair, tcp_transfer, writepattern_peer
from tcplab.programs.pair import Running, await_listener, held_port
from tcplab.programs.patterns import write_patterns

LISTENS = "echo '{\"listening\": 9}'; "
REPORTS = "echo '{\"done\": 1}'"


def shell(script: str) -> list[str]:
    return ["sh", "-c", script]


@pytest.fixture(scope="module")
def loopback() -> Iterator[Loopback]:
    with Loopback() as network:
        yield network


def test_the_port_of_the_listener_goes_into_the_other_command(loopback: Loopback) -> None:
    client = ["sh", "-c", 'echo "debugging"; echo "{\\"port\\": $0}"', "{port}"]
    sent, received = run_pair(loopback, shell(LISTENS + REPORTS), client)
    assert (sent["port"], sent["earlier_lines"]) == (9, ["debugging"])
    assert received["done"] == 1


@pytest.mark.parametrize(
    ("server", "client", "message"),
    [
        ("echo no >&2; exit 3", REPORTS, "sh failed (exit 3): no"),
        ("exit 0", REPORTS, "sh ended without listening"),
        (LISTENS + REPORTS, "echo 5", "sh printed no result (a JSON object, with --json)"),
        ("echo hello", REPORTS, "sh printed 'hello' instead of its port"),
        (LISTENS + REPORTS, "echo hello", "sh printed no result (a JSON object, with --json)"),
        (LISTENS + REPORTS, "kill -9 $$", "sh was ended by SIGKILL"),
        (
            LISTENS + "echo full >&2; exit 1",
            "exit 2",
            "sh failed (exit 2); sh failed (exit 1): full",
        ),
    ],
)
def test_failures_name_the_program_and_its_last_line(
    loopback: Loopback, server: str, client: str, message: str
) -> None:
    with pytest.raises(LabError) as caught:
        run_pair(loopback, shell(server), shell(client))
    assert str(caught.value) == message


@pytest.mark.parametrize("client", [REPORTS, "sleep 60"])
def test_a_pair_that_takes_too_long_is_ended(loopback: Loopback, client: str) -> None:
    with pytest.raises(LabError, match=r"^sh did not end within timeout_s=0\.3$"):
        run_pair(loopback, shell(LISTENS + "sleep 60"), shell(client), timeout_s=0.3)


def test_a_program_is_killed_with_its_statement(loopback: Loopback, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    with Running(loopback.client, shell(f"echo $$ > {file}; exec sleep 60")) as running:
        pid = int(until(lambda: file.exists() and file.read_text().strip()))
        assert not running.ended()
        assert running.failure() == ""
    assert running.ended()
    # The program's guard is killed first, and the program ends with it.
    until(lambda: not Path(f"/proc/{pid}").exists())


def test_a_listener_is_awaited_until_it_ends(loopback: Loopback) -> None:
    with loopback.server.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        assert not await_listener(loopback.server, port, lambda: True, within_s=60)
        assert not await_listener(loopback.server, port, lambda: False, within_s=0.05)
        listener.listen()
        assert await_listener(loopback.server, port, lambda: False, within_s=60)


@pytest.mark.needs_lab
def test_a_held_port_goes_to_the_listener_that_names_it_alone() -> None:
    with Lab() as lab:
        lab.server.sysctl("net.ipv4.ip_local_port_range", "40000 40001")
        with held_port(lab.server) as port, lab.server.socket() as another:
            another.bind((lab.server.address, 0))
            assert {port, another.getsockname()[1]} == {40_000, 40_001}
            with lab.server.socket() as late, pytest.raises(OSError, match="in use"):
                late.bind((lab.server.address, 0))
            with Running(lab.server, ["tcpsink", "-p", str(port), "--json"]) as sink:
                assert sink.port() == port


def test_client_and_server_get_their_own_options(loopback: Loopback) -> None:
    run = RunOptions(cpu=(3, None), congestion="reno", deadline_s=5)
    both = ["--congestion", "reno", "--deadline", "5"]
    assert run.client_options(loopback) == ["--json", "--cpu", "3", *both]
    assert run.server_options(loopback) == ["--json", *both, "--bind", loopback.server.address]


@pytest.mark.needs_lab
def test_a_transfer_is_watched_and_ends_with_its_statement() -> None:
    with Lab() as lab:
        with tcp_transfer(lab, interval_ms=10) as transfer:
            while not transfer.latest:
                transfer.check()
                time.sleep(0.01)
            assert transfer.latest["snd_cwnd"] > 0
        with pytest.raises(LabError, match=r"^tcpsource was ended by SIGKILL"):
            transfer.check()


@pytest.mark.needs_lab
def test_each_pattern_has_its_own_log() -> None:
    with Lab() as lab, writepattern_peer(lab, reply=(4, 2)) as port:
        results = write_patterns(lab, port, ["0:write=4 0:read=2", "0:nodelay=1 0:more=4"])
    names = [[event.name for event in result.log] for result in results]
    assert names == [["write", "read"], ["nodelay", "more"]]
    assert all(result.mss_bytes == 1448 for result in each(results))
