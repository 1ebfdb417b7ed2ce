"""Test the figures' text. Nothing may be covered."""

import functools
import re
import struct
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import matplotlib
import pytest
from tests.support.figures.readable import assert_readable, texts
from tests.support.timeline.made_up import (
    ack,
    capture,
    data,
    explain_evidence,
    handshake,
    ns,
    socket_options,
)

from tcplab import figures
from tcplab.figures import canvas, page, style
from tcplab.figures.page import unbroken
from tcplab.figures.style import ACK, HOLD_STYLES, REPLY, SENT, SENT_AGAIN
from tcplab.figures.timeline_figure.view import View, choose_message
from tcplab.programs import Event
from tcplab.timeline import Hold, Reason, Timeline

OPTIONS = socket_options()
Rows = list[dict[str, Any]]


def small_writes(messages: int = 3, *, ack_ms: float = 44.0) -> Timeline:
    """Return a timeline of 15-write messages. The first write's ACK releases the other writes."""
    log, rows = [], handshake(0.02)
    for message in range(messages):
        start, offset = message * (ack_ms + 0.2), message * 30
        log += [Event(ns(start + 0.0015 * i), "write", 2) for i in range(15)]
        log.append(Event(ns(start + ack_ms + 0.15), "reply", 2))
        rows += [
            data(start + 0.001, offset, 2),
            ack(start + ack_ms, offset + 2),
            data(start + ack_ms + 0.01, offset + 2, 28),
            ack(start + ack_ms + 0.03, offset + 30),
            ack(start + ack_ms + 0.12, offset + 30, payload_bytes=2, seq=2 * message),
        ]
    return explain_evidence(log, capture(rows), OPTIONS)


def corked() -> Timeline:
    log = [Event(ns(0), "cork", 0)]
    log += [Event(ns(0.001 + 0.0006 * i), "write", 2) for i in range(15)]
    log += [Event(ns(0.012), "uncork", 0), Event(ns(0.05), "reply", 2)]
    rows = [*handshake(0.02), data(0.011, 0, 30), ack(0.04, 30, payload_bytes=2)]
    return explain_evidence(log, capture(rows), OPTIONS)


def nodelay() -> Timeline:
    log = [Event(ns(0.005 * i), "write", 2) for i in range(9)] + [Event(ns(0.12), "reply", 2)]
    rows = handshake(0.02) + [data(0.005 * i + 0.002, 2 * i, 2) for i in range(9)]
    rows += [ack(0.07 + 0.003 * i, 2 * i + 2) for i in range(9)]
    rows.append(ack(0.1, 18, payload_bytes=2))
    return explain_evidence(log, capture(rows), OPTIONS, nodelay=True)


def lost() -> Timeline:
    """Return both ends' view of a lost first segment, while the small one behind it is held."""
    log = [Event(ns(0), "write", 50), Event(ns(100), "write", 20), Event(ns(220), "reply", 2)]
    rows: Rows = [
        *handshake(4),
        data(0.01, 0, 50),
        data(208, 0, 50, is_retransmission=True),
        ack(212, 50),
        data(212.01, 50, 20),
        ack(219, 70, payload_bytes=2),
    ]
    peer = [dict(row) for i, row in enumerate(rows) if i != 3]
    for row in peer:
        row["time_ns"] += 2_000_000 if row["direction"] == 0 else -2_000_000
    peer.sort(key=lambda row: int(row["time_ns"]))
    return explain_evidence(log, capture(rows), OPTIONS, peer_segments=capture(peer))


def bulk() -> Timeline:
    """Return a timeline of seventy segments in slow start, with samples of TCP_INFO."""
    samples = [
        {"time_ns": ns(20 * i + 1), "snd_cwnd": 10 << i, "unacked": 10 << i, "notsent_bytes": 1}
        for i in range(3)
    ]
    log = [Event(ns(0), "write", 70 * 1448)]
    return explain_evidence(log, capture(bulk_rows()), OPTIONS, samples=samples)


def bulk_rows() -> Rows:
    """Return rows of ten, twenty and forty segments and their ACKs, one flight per round trip."""
    mss, rows = 1448, handshake(20)
    sent = acked = 0
    for round_trip in range(3):
        start = 20.0 * round_trip
        for i in range(10 << round_trip):
            rows.append(data(start + 0.01 + 0.002 * i, sent, mss))
            sent += mss
        for i in range(10 << round_trip):
            acked += mss
            rows.append(ack(start + 19.9 + 0.002 * i, acked))
    rows.sort(key=lambda row: int(row["time_ns"]))
    return rows


MADE = {
    "stalled": small_writes,
    "corked": corked,
    "nodelay": nodelay,
    "lost": lost,
    "bulk": bulk,
}


@functools.cache
def picture_of(draw: Callable[[Timeline], figures.Picture], name: str) -> figures.Picture:
    """Draw each picture once, since no test below changes it."""
    return draw(MADE[name]())


# ---- what they say -------------------------------------------------------------------------------


def test_title_agrees_with_the_table() -> None:
    picture = picture_of(figures.timeline, "stalled")
    assert picture.title == (
        "28 bytes held 44.0 ms by Nagle, waiting for an ACK that the peer delays"
    )
    assert picture.note.startswith("15 writes, 30 bytes, 2 segments, 44.1 ms · message ")
    assert picture.alt == f"{picture.title}. The numbers are in the table of this picture."
    events = [row["what"] for row in picture.table.rows]
    assert events[0] == "15 writes within 21 µs, 30 bytes"
    assert events[2] == "28 bytes held by Nagle 44.0 ms: 2 bytes unacknowledged, 28 < MSS 1448"


def test_title_says_if_nothing_was_held() -> None:
    picture = picture_of(figures.timeline, "nodelay")
    assert picture.title == "Nothing was held back"
    assert picture.note.startswith("9 writes, 18 bytes, 9 segments, 0.12 ms · ")
    assert "30 bytes held 10 µs by the cork" in picture_of(figures.timeline, "corked").title


def test_typical_message_is_the_default() -> None:
    timeline = small_writes(5)
    assert choose_message(timeline) > 1  # the first message is not typical
    assert figures.timeline(timeline, first_message=1).note.count(" · message 1 · ") == 1
    three = figures.timeline(timeline, first_message=2, messages=3)
    assert " · messages 2–4 · " in three.note
    assert figures.timeline(timeline, messages=2).note.startswith("30 writes, 60 bytes, ")


def test_curves_name_amount_and_windows() -> None:
    flight = picture_of(figures.in_flight, "bulk")
    assert flight.title.startswith("At most 57,920 bytes in flight (40 segments of 1448)")
    windows = [row["cwnd_bytes"] for row in flight.table.rows if row["cwnd_bytes"]]
    assert (windows[0], windows[-1]) == (14_480, 57_920)
    last = flight.table.rows[-1]
    assert last["in_flight_bytes"] == 0
    labels = [text.get_text() for text in texts(picture_of(figures.in_flight, "lost"))]
    assert any(label.startswith("the peer's window is never full") for label in labels)


def test_lost_differs_from_sent_again() -> None:
    picture = picture_of(figures.timeline, "lost")
    assert "50 bytes lost, sent again after 208.0 ms" in picture.title
    assert {"lost", "50 B again"} < {text.get_text() for text in texts(picture)}
    rows = [
        *handshake(2),
        data(0.01, 0, 1448),
        data(300, 0, 1448, is_retransmission=True),
        ack(310, 1448),
    ]
    arrived = explain_evidence([Event(ns(0), "write", 1448)], capture(rows), OPTIONS)
    assert "1448 bytes sent again after" in figures.timeline(arrived).title
    assert "lost" not in " ".join(text.get_text() for text in texts(figures.timeline(arrived)))


def waits(*ends_ms: tuple[float, float]) -> Timeline:
    """Return a timeline of 60 ms with these waits."""
    holds = [Hold(ns(start), ns(end), Reason.CWND_LIMITED, "x") for start, end in ends_ms]
    return replace(bulk(), holds=holds)


def test_near_waits_are_one_band_and_one_bar() -> None:
    def bands(*ends_ms: tuple[float, float]) -> list[tuple[int, int]]:
        drawn: list[Any] = [*figures.in_flight(waits(*ends_ms)).figure.axes[0].patches]
        return [(round(band.get_x()), round(band.get_width())) for band in drawn]

    assert bands((0, 20), (20.5, 40)) == [(0, 40)]
    assert bands((0, 20), (22, 40)) == [(0, 20), (22, 18)]
    assert not bands(*((start, start + 0.1) for start in range(50)))  # too short to see
    near = View.of(waits((0, 20), (20.1, 40), (44, 50)), None, 1).waits()
    assert [(hold.start_ns, hold.end_ns) for hold in near] == [(ns(0), ns(40)), (ns(44), ns(50))]


def test_curves_ignore_the_end_of_the_connection() -> None:
    last = picture_of(figures.in_flight, "bulk").table.rows[-1]
    rows = bulk_rows()
    rows.append(ack(5000, 101_361, flags=17))  # the FIN is acknowledged much later
    later = explain_evidence([Event(ns(0), "write", 101_360)], capture(rows), OPTIONS)
    assert figures.in_flight(later).table.rows[-1] == {**last, "cwnd_bytes": None}


# ---- readable by everybody -----------------------------------------------------------------------


@pytest.mark.parametrize("name", MADE)
def test_texts_do_not_overlap(name: str) -> None:
    assert_readable(picture_of(figures.timeline, name), fewest=5)


@pytest.mark.parametrize("name", MADE)
def test_legend_covers_no_curve(name: str) -> None:
    picture = picture_of(figures.in_flight, name)
    picture.figure.draw_without_rendering()
    [legend], [axes] = picture.figure.legends, picture.figure.axes
    box = legend.get_window_extent()
    assert box.y0 >= axes.get_window_extent().y1
    assert box.y1 <= 0.89 * picture.figure.bbox.height  # two lines of title fit above it
    assert box.x1 <= picture.figure.bbox.width


def test_a_timeline_shares_the_axis_of_another_run() -> None:
    picture = figures.timeline(MADE["nodelay"](), compare_ms=44)
    assert_readable(picture, fewest=5)
    texts = {text.get_text(): text.get_position()[0] for text in picture.figure.axes[0].texts}
    assert "another run: 44.0 ms" in texts
    assert texts["40"] > 4 * texts["10"] - 3 * texts["0"] - 1  # one scale from 0 to 44 ms
    names = [
        text.get_text() for text in picture_of(figures.timeline, "stalled").figure.axes[0].texts
    ]
    assert any(name.endswith(" µs") for name in names), "the busy parts have no scale bar"


def test_styles_differ_in_more_than_colour() -> None:
    hatches = [look.hatch for look in HOLD_STYLES.values()]
    assert len(set(hatches)) == len(hatches)
    assert set(HOLD_STYLES) >= {reason for reason in Reason if reason.value.startswith("held")}
    lines = {look.line for look in (SENT, REPLY, ACK)}
    assert len(lines) == 3
    assert SENT_AGAIN.colour != SENT.colour


def test_text_has_contrast() -> None:
    for name in ("ORANGE", "GREEN", "BLUE", "VERMILION", "PURPLE", "GREY"):
        ink = style.ink(getattr(style, name))
        channels = [int(ink[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        luminance = sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
        assert 1.05 / (luminance + 0.05) >= 4.5, ink


def test_png_ignores_the_users_settings() -> None:
    picture = figures.timeline(small_writes())
    plain = picture.png()
    with matplotlib.rc_context({"savefig.bbox": "tight", "font.size": 5, "lines.marker": "x"}):
        assert picture.png() == plain
        assert figures.timeline(small_writes()).png() == plain
    with canvas.drawing(), ThreadPoolExecutor(1) as threads:  # one thread draws at a time
        assert not threads.submit(canvas._SETTINGS.acquire, blocking=False).result()


def test_saved_picture_has_projector_size_and_texts(tmp_path: Path) -> None:
    picture = picture_of(figures.timeline, "stalled")
    png = picture.png()
    assert png.startswith(b"\x89PNG")
    assert struct.unpack(">II", png[16:24]) == (1280, 720)
    assert picture.alt.encode()[:40] in png
    picture.save(tmp_path / "timeline.svg")
    svg = (tmp_path / "timeline.svg").read_text()
    assert "held 44.0 ms by Nagle" in svg


def test_notebook_shows_figure_and_alt_text() -> None:
    picture = picture_of(figures.timeline, "stalled")
    shown = picture._repr_mimebundle_()
    assert shown["text/html"].startswith('<figure class="tcplab-figure"')
    assert "The numbers are in the table" in shown["text/html"]
    assert shown["text/plain"] == picture.alt


@pytest.mark.parametrize("name", MADE)
def test_every_colour_of_a_page_follows_the_theme(name: str) -> None:
    for draw in (figures.timeline, figures.in_flight):
        svg = page.themed(picture_of(draw, name)._svg(), {})
        assert "var(--ink, #000000)" in svg
        assert not re.findall(r"(?<!, )#[0-9a-f]{6}\b", svg)


def test_a_drawing_says_what_its_parts_are() -> None:
    picture = picture_of(figures.timeline, "stalled")
    svg = page.themed(picture._svg(), picture.parts)
    root = ElementTree.fromstring(svg)
    groups = [group for group in root.iter() if group.get("class") == "part"]
    labels = {group.attrib["data-part"]: group.attrib["aria-label"] for group in groups}
    assert labels == picture.parts
    assert {group[-1].text for group in groups} == set(picture.parts.values())
    letters = [element.text for element in root.iter() if element.tag.endswith("}text")]
    assert unbroken("28 bytes held by Nagle 44.0 ms") in letters
    assert len(svg) < 60_000
    assert '<use xlink:href="#' in svg  # so an HTML parser finds the marks
    assert set(re.findall(r"url\(#(\w+)\)", svg)) <= set(re.findall(r'id="(\w+)"', svg))


# ---- mistakes ------------------------------------------------------------------------------------


def test_mistakes_are_named() -> None:
    timeline = small_writes(3)
    with pytest.raises(ValueError, match="messages=4 must be from 1 to 3"):
        figures.timeline(timeline, messages=4)
    with pytest.raises(ValueError, match="first_message=3 must be from 1 to 2"):
        figures.timeline(timeline, first_message=3, messages=2)
    blind = explain_evidence(None, capture([*handshake(), data(1, 0, 1448)]))
    with pytest.raises(ValueError, match="without the application's log"):
        figures.timeline(blind)
    assert figures.in_flight(blind).title
    empty = explain_evidence(None, capture(handshake()))
    with pytest.raises(ValueError, match="no data segment"):
        figures.in_flight(empty)


def test_too_many_events_are_refused() -> None:
    rows, log = handshake(), []
    for i in range(1600):
        log.append(Event(ns(i), "write", 1448))
        rows += [data(i + 0.01, 1448 * i, 1448), ack(i + 0.5, 1448 * (i + 1))]
    timeline = explain_evidence(log, capture(rows), OPTIONS)
    with pytest.raises(ValueError, match=r"events are too many to draw .*figures\.in_flight"):
        figures.timeline(timeline)
    assert figures.in_flight(timeline).title
