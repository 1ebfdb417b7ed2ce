"""Recompute numbers in the prose of lessons, demos and pages, and find them in the text."""

import math

import pytest
from tests.support.lessons import ALL, cells, slug
from tests.support.paths import ROOT

from tcplab import models as m
from tcplab.experiments import recordings
from tcplab.models.buffers import truesize_bytes
from tcplab.models.links import MATHIS_CONSTANTS

FULL_10, FULL_50 = m.serialisation_ms(1448, 10), m.serialisation_ms(1448, 50)
FULL_BYTES = m.Encapsulation().wire_bytes(1448)
KB_OF_64_KIB = round(m.receive_window(131_072) / 1000)
PER_REQUEST = f"{m.window_from_buffer(131_072) / 65_536:g}"
CASES = [(30_000, 80, 500), (30_000, 20, 50), (14_000, 80, 50), (30_000, 80, 50)]
ANSWERS_MS = [round(m.transfer_ms(*case) + case[1] / 2) for case in CASES]
FLIGHTS = m.slow_start_flights(m.packet_count(144_800, 1500))
RACES = [r for args, r in recordings.shipped("rtt-fairness") if [10, 40, 160] in args.values()]
RTTS = RACES[-1]["reno", "tail_drop"].model_ratio
DEMOS = "src/tcplab/demos"

#: a lesson's slug or a file, and words from it with computed numbers
NUMBERS = [
    ("primer", f"carry them in {50 * FULL_50:.0f} ms"),
    ("the-lab", f"125 × 1448 / {FULL_BYTES} = {m.goodput_mbyte_s(1000):.1f} MB/s remain"),
    ("buffers", f"1448 bytes of data takes {truesize_bytes(1448)} bytes"),
    ("buffers", f"or {PER_REQUEST} times the request"),
    ("send-buffer", f"rate × RTT, which is {m.bdp_bytes(10, 50):,.0f} bytes"),
    ("slow-start", f"occupy it for {100 * FULL_50:.0f} ms and ten for {10 * FULL_50:.1f} ms"),
    ("slow-start", f"per round trip, {m.window_limit_mbit(65_536, 40):.0f} Mbit/s"),
    ("loss", f"so here *C* = {MATHIS_CONSTANTS['random']}"),
    ("queues", f"occupies this line for {FULL_10:.2f} ms"),
    ("queues", f"20 ms = {m.bdp_bytes(10, 20):,.0f} bytes, or {20 / FULL_10:.0f} full packets"),
    ("queues", f"so 0.3 / 0.7 = {(1 - 0.7) / 0.7:.2f} BDP should"),
    (
        "queues",
        f"Below {FULL_BYTES * 8 / 5e3:.1f} Mbit/s, one full packet takes longer than CoDel's",
    ),
    ("sharing", f"makes {math.floor(RTTS)} or {math.ceil(RTTS)} (column"),
    ("sharing", f"as long as {m.Encapsulation(timestamps=False).wire_bytes(0)} bytes, and the two"),
    ("sendfile", f"That takes {2 * -(-32_000_000 // 4096):,} system calls"),
    ("segments", f"That is {100 * (1 - m.header_share(1448)):.0f} % with an MTU of 1500"),
    ("segments", f"{100 * (1 - m.header_share(8948, 9000)):.0f} % with jumbo frames"),
    ("segments", f"and {100 * (1 - m.header_share(1)):.0f} % if each segment carries one byte"),
    ("segments", f"1420 − 40 = {m.announced_mss_bytes(1420)} before"),
    ("segments", f"1380 − 12 = {m.mss_bytes(1420)} bytes of data"),
    ("tcp-vs-udp", f"block / (block + {m.Encapsulation('udp').wire_bytes(1440) - 1440})"),
    ("path-mtu", f"1200 − 40 = {m.announced_mss_bytes(1200)} at most"),
    ("diagnosis", f"would be {KB_OF_64_KIB} kB or less, and the link holds 125"),
    ("diagnosis", f"the window becomes about {PER_REQUEST} times"),
    (f"{DEMOS}/buffers.toml", f"in flight, about {KB_OF_64_KIB} kB here"),
    (f"{DEMOS}/queues.toml", f"costs at most {20 * FULL_10:.0f} ms"),
    (f"{DEMOS}/queues.toml", f"path itself holds {20 / FULL_10:.0f} packets"),
    (f"{DEMOS}/wire.toml", f"MSS / RTT × {MATHIS_CONSTANTS['random']} / √p"),
    (f"{DEMOS}/congestion-window.toml", "for {}, {}, {} and {} segments".format(*FLIGHTS)),
    ("docs/lesson-notes.md", "give {}, {} and {} ms, and no change gives {}".format(*ANSWERS_MS)),
]


@pytest.mark.parametrize(("place", "words"), NUMBERS)
def test_number_in_the_text_is_the_computed_one(place: str, words: str) -> None:
    path = {slug(path): path for path in ALL}.get(place)
    text = "\n\n".join(cells(path, "markdown")) if path else (ROOT / place).read_text()
    assert words in " ".join(text.split())
