"""The wire survives garbage, vanishing interfaces, jumping clocks and a lack of memory."""

import random
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.lab.wire.test_model import compare
from tests.support.commands import completed
from tests.support.lifetime import until
from tests.support.wire.bench import Bench, stopped_wire
from tests.support.wire.frames import arp, numbered, tcp, udp
from tests.support.wire.model import Settings

from tcplab import Lab
from tcplab.experiments.provenance import disturbance

#: Size of a frame's cell in the store, from frame.h.
CELL_BYTES = 2048


def test_no_byte_outside_the_frame_is_read(sanitized_directory: Path) -> None:
    parse(sanitized_directory, rounds=20_000)


def parse(directory: Path, rounds: int) -> None:
    """Feed damaged frames to the wire's parsers; tests/slow/fuzz does so for longer."""
    ended = completed([directory / "parse_fuzz", "4", str(rounds)])
    assert (ended.stderr, ended.returncode) == ("", 0)
    # More than one cell was in use at once, so frames were fragmented. The total stayed small, so
    # cells are freed and reused.
    assert 1 < int(ended.stdout.split()[0]) / CELL_BYTES < 250


@pytest.fixture
def watched(lab: Lab, sanitized_directory: Path) -> Iterator[Bench]:
    with Bench(
        lab,
        program=sanitized_directory / "wire",
        env={"ASAN_OPTIONS": "detect_leaks=0"},
        options=["--memory=1"],
        mtu=3000,
    ) as made:
        yield made
        made.end_input()
        assert made.process.wait(20) == 0, made.last_words()


def garbage(chosen: random.Random) -> bytes:
    """Return a random frame, or a good one with bytes changed or cut off."""
    kind = chosen.randrange(8)
    if kind == 0:
        return chosen.randbytes(chosen.randrange(14, 3014))
    options = chosen.randbytes(4 * chosen.randrange(11))
    frame = bytearray(
        [
            udp(bytes(chosen.randrange(2900)), flags_and_offset=0, options=options),
            udp(bytes(chosen.randrange(2900)), flags_and_offset=chosen.randrange(65536)),
            tcp(bytes(chosen.randrange(2900)), options=options, identification=kind),
            arp(0),
            udp(bytes(chosen.randrange(2900)), version=6, traffic_class=chosen.randrange(256)),
            bytes(12) + b"\x81\x00\x00\x01\x08\x00\x45" + chosen.randbytes(chosen.randrange(900)),
            bytes(12) + b"\x88\xa8\x00\x01\x81\x00\x00\x01",
        ][kind - 1]
    )
    for _ in range(chosen.randrange(4)):
        frame[chosen.randrange(12, min(len(frame), 80))] = chosen.randrange(256)
    # The kernel itself throws away a frame that ends within its VLAN tags.
    shortest = min(len(frame), 20 if kind > 5 else 14)
    return bytes(frame[: chosen.choice([len(frame), chosen.randint(shortest, len(frame))])])


def test_garbage_from_both_sides_causes_no_error(watched: Bench, tmp_path: Path) -> None:
    """Use the sanitizers, many features at once, live changes and a recording."""
    chosen = random.Random(4)
    watched.command(f"capture 3000 {tmp_path / 'garbage.pcapng'}")
    for round_number in range(40):
        watched.set(
            mtu=chosen.choice([0, 20, 28, 68, 576, 1280]),
            rate_bps=chosen.choice([0, 0, 10**8]),
            loss=0.05,
            hold_ns=100_000,
            delay_ns=chosen.choice([0, 10_000, 1_000_000]),
            queue_packets=chosen.choice([0, 10]),
        )
        if round_number % 10 == 5:
            watched.command("script both duplicate any every=7")
            watched.command("script both hold data every=3 port=5001")
        for side in (0, 1):
            watched.ends[side].send(*[garbage(chosen) for _ in range(50)])
    watched.set(rate_bps=0)
    watched.settle()
    assert watched.arrived() > 3900
    ways = watched.counters()
    for way in ways.values():
        came = way["packets_in"] + way["duplicated"] + way["icmp"]
        came += way["fragments"] - way["fragmented"]
        assert came == way["packets_out"] + sum(way["dropped"].values()) - way["dropped"]["ring"]
        assert way["dropped"]["mtu"] > 0
        assert way["fragmented"] > 0
    watched.command("capture off")
    assert watched.process.poll() is None


def test_memory_is_limited_and_drops_for_it_are_counted(lab: Lab) -> None:
    """A frame takes a cell of 2 KiB, so 1 MiB holds 512 frames."""
    with Bench(lab, options=["--memory=1"]) as bench:
        bench.use(Settings(delay_ns=5_000_000_000, queue_packets=0))
        for first in range(0, 1000, 100):
            bench.ends[0].send(*[numbered(1514, n) for n in range(first, first + 100)])
        bench.wait_until(lambda: bench.counters()["ab"]["packets_in"] == 1000)
        assert bench.command("counters")["memory_bytes"] == 1 << 20
        assert bench.counters()["ab"]["dropped"]["memory"] == 1000 - 512


@pytest.mark.parametrize("how", ["goes down", "vanishes"])
def test_a_lost_interface_ends_the_wire_with_its_name(lab: Lab, how: str) -> None:
    with Bench(lab) as bench:
        name = bench.interfaces[1]
        if how == "vanishes":
            bench.delete(name)
        else:
            bench.set(delay_ns=1_000_000_000)
            bench.ends[0].send(*[numbered(60, n) for n in range(10)])
            bench.set_link(name, state="down")
        assert bench.process.wait(10) == 1
        assert bench.last_words() == f"wire: interface {name}: ENETDOWN: Network is down\n"


JUMPING_CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
/* CLOCK_REALTIME an hour ahead in every other period of 50 ms: the clock is set, or the machine
   was asleep. The kernel's stamps stay where they are, and so fit in no other period. */
int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real)
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, now);
    if (clock == CLOCK_REALTIME) {
        struct timespec steady;
        real(CLOCK_MONOTONIC, &steady);
        now->tv_sec += steady.tv_nsec / 50000000 % 2 ? 3600 : 0;
    }
    return result;
}
"""


def test_a_clock_jump_is_reported(lab: Lab, tmp_path: Path, tool: Callable[[str], str]) -> None:
    source, library = tmp_path / "jump.c", tmp_path / "jump.so"
    source.write_text(JUMPING_CLOCK)
    subprocess.run([tool("cc"), "-shared", "-fPIC", source, "-o", library], check=True)
    with Bench(lab, env={"LD_PRELOAD": str(library)}) as bench:
        bench.use(Settings(rate_bps=100_000_000, delay_ns=2_000_000))

        def work() -> int:
            for number in range(60):
                bench.ends[0].send(numbered(1000, number))
                time.sleep(0.005)
            return 60

        recorded = bench.record(tmp_path / "jump.pcapng", work)
        assert bench.command("counters")["clock_steps"] >= 2
    # If the stamps were used as they are, some frames would seem an hour away from the others.
    times = [packet.time_ns for packet in recorded]
    times += [packet.value("due_ns") for packet in recorded if not packet.inbound]
    assert max(times) - min(times) < 60e9
    compare(recorded, 0, Settings(rate_bps=100_000_000, delay_ns=2_000_000))


def test_frames_too_long_for_an_interface_are_refused_and_counted(lab: Lab) -> None:
    with Bench(lab, offloads=True) as bench:
        bench.set_link(bench.interfaces[0].replace("wire", "end"), mtu=9000)
        bench.set_link(bench.interfaces[0], mtu=9000)
        # The wire was opened at an MTU of 1500, so its ring has no room for the first frame.
        bench.ends[0].send(numbered(5000, 1), numbered(1000, 2))
        bench.drain(2)
        assert bench.counters()["ab"]["dropped"]["oversize"] == 1
        assert bench.ends[1].receive(1) == [numbered(1000, 2)]
        bench.set_link(bench.interfaces[1], mtu=500)
        bench.ends[0].send(numbered(1000, 3), numbered(500, 4))
        assert bench.ends[1].receive(1) == [numbered(500, 4)]
        assert bench.counters()["ab"]["dropped"]["device"] == 1


@pytest.mark.needs_lab
def test_worst_of_several_links_is_recorded() -> None:
    with (
        disturbance(None) as found,
        Lab(),
        Lab() as lab,
        lab.client.socket(kind=socket.SOCK_DGRAM) as sender,
    ):
        sender.connect((lab.server.address, 9))
        with stopped_wire(lab):
            sender.send(b"held up")
            time.sleep(0.05)
        until(lambda: lab.link.counters()["client->server"]["packets_out"])
        late_ns = lab.link.counters()["client->server"]["late_ns"]
        with disturbance(lab) as given:
            pass
    assert 0 < late_ns["p50"] <= late_ns["p99"] <= late_ns["max"]
    assert found["wire_late_max_ms"] == given["wire_late_max_ms"] == late_ns["max"] / 1e6 >= 40
    assert found["wire_late_p99_ms"] >= 40
    assert found["wire_packets"] == 2  # the other packet is the server's refusal
    assert found["wire_missed"] == 0
