"""The control channel carries out each command at once, or refuses it in one line."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.commands import completed
from tests.support.tables import table
from tests.support.wire.bench import Bench, WireError
from tests.support.wire.frames import numbered, tcp
from tests.support.wire.model import Settings

from tcplab import Lab
from tcplab.lab import program_path


def test_an_interface_named_twice_is_refused(lab: Lab) -> None:
    twice = lab.client.run(["wire", "eth0:eth0"], check=False)
    assert "interface 'eth0' is named twice" in twice.stderr


def test_ordinary_user_gets_the_missing_capability_named(
    as_ordinary_user: Callable[..., Any],
) -> None:
    ended = as_ordinary_user([program_path("wire"), "lo:eth0"])
    assert ended.returncode == 1
    assert ended.stderr.startswith("wire: lo: a packet socket (needs CAP_NET_RAW): EPERM")


def test_help_names_every_key_and_command() -> None:
    text = completed([program_path("wire"), "--help"]).stdout
    for key in Settings().keys().keys() | {"mtu", "icmp"}:
        assert f"\n  {key}" in text
    for command in ("set", "script", "access", "counters", "reset", "capture"):
        assert f"\n  {command}" in text
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.parametrize(
    ("command", "named"),
    [*table("mistakes")["wire_commands"], ("set ab " + "delay_ns=1 " * 70, "words")],
)
def test_a_wrong_command_changes_nothing(bench: Bench, command: str, named: str) -> None:
    bench.use(Settings(delay_ns=1_000_000))
    with pytest.raises(WireError, match=named):
        bench.command(command)
    with pytest.raises(WireError):
        bench.command("set both loss=1 delay_ns=7 mtu=1 seed=-1")
    frames = [numbered(60, 1), tcp(b"data")]
    bench.ends[0].send(*frames)
    assert bench.ends[1].receive(2) == frames


def test_a_command_too_long_ends_the_wire(lab: Lab) -> None:
    with Bench(lab) as own:
        own.write("x" * 10000)
        assert own.process.wait(10) == 1
        assert "8192" in own.last_words()


def test_several_commands_at_once_and_in_pieces(lab: Lab) -> None:
    with Bench(lab) as own:
        own.write("counters\nreset\r\n\ncounter")
        assert "ab" in own.answer()
        assert own.answer() == {"ok": True}
        with pytest.raises(WireError, match="no command ''"):
            own.answer()
        own.write("s\n")
        assert "ba" in own.answer()


# ---- while frames are under way ----


def test_a_new_rate_holds_from_the_frame_being_sent_on(bench: Bench, tmp_path: Path) -> None:
    """The rate rises from 1 kbit/s to 100 Mbit/s while the first of ten frames is being sent."""
    bench.use(Settings(rate_bps=1000))

    def work() -> int:
        bench.ends[0].send(*[numbered(1514, number) for number in range(10)])
        bench.wait_until(lambda: bench.counters()["ab"]["queue_packets"] == 9)
        bench.set(rate_bps=100_000_000)
        return 10

    recorded = bench.record(tmp_path / "faster.pcapng", work)
    due = [p.value("due_ns") for p in recorded if not p.inbound]
    assert due[0] - recorded[0].time_ns < 12_304_000_000
    assert {later - earlier for earlier, later in itertools.pairwise(due)} == {123_040}


def test_a_shorter_delay_overtakes_nothing(bench: Bench, tmp_path: Path) -> None:
    bench.set("ab", delay_ns=100_000_000)

    def work() -> int:
        bench.ends[0].send(numbered(60, 0), numbered(60, 1))
        bench.wait_until(lambda: bench.counters()["ab"]["line_packets"] == 2)
        bench.set("ab", delay_ns=0)
        bench.ends[0].send(numbered(60, 2))
        return 3

    recorded = bench.record(tmp_path / "shorter.pcapng", work)
    left = [p for p in recorded if not p.inbound]
    assert [p.id for p in left] == [p.id for p in recorded if p.inbound]
    due = [p.value("due_ns") for p in left]
    assert due == sorted(due)
    # The third frame leaves at once, but not before the other two.
    (arrival_ns,) = [p.time_ns for p in recorded if p.inbound and p.id == left[2].id]
    assert due[2] == max(due[1], arrival_ns)


def test_a_shorter_queue_drops_only_newcomers(bench: Bench) -> None:
    bench.use(Settings(rate_bps=100, queue_packets=50))
    bench.ends[0].send(*[numbered(60, number) for number in range(20)])
    bench.wait_until(lambda: bench.counters()["ab"]["queue_packets"] == 19)
    bench.set(queue_packets=5)
    bench.ends[0].send(numbered(60, 20))
    bench.wait_until(lambda: bench.counters()["ab"]["dropped"]["queue"] == 1)
    bench.set(rate_bps=0)
    assert len(bench.ends[1].receive(20)) == 20
