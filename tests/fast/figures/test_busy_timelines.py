"""Test timelines of a busy machine, on made-up captures with random delays throughout.

`make test` draws ten of them, `make test-all` another eighty, and `make fuzz` two hundred.
"""

import os
import random
from typing import Any

from matplotlib.text import Annotation, Text
from tests.fast.figures.test_figures import OPTIONS
from tests.support.figures.readable import assert_apart
from tests.support.nonempty import each
from tests.support.timeline.made_up import ack, capture, data, explain_evidence, handshake, ns

from tcplab import figures
from tcplab.figures.labels import _crosses
from tcplab.figures.timeline_figure.view import View
from tcplab.programs import Event
from tcplab.timeline import Timeline

CAPTURES = int(os.environ.get("TCPLAB_BUSY_CAPTURES", "10"))  # tests/fuzz/run sets more


def busy(seed: int) -> Timeline:
    """Return a timeline of two messages, with random delays of the writes, segments and ACKs."""
    chance = random.Random(seed)
    rtt = chance.choice([0.02, 0.02, 1.0, 20.0])

    def late(usual: float) -> float:
        return (
            usual + chance.expovariate(1 / usual) + (chance.random() < 0.2) * chance.uniform(0, 8)
        )

    log, rows, now, offset, seq = [], handshake(rtt), 0.0, 0, 0
    for _message in range(2):
        writes, size = chance.randint(1, 15), chance.choice([2, 100, 700])
        for _write in range(writes):
            log.append(Event(ns(now), "write", size))
            now += late(0.002)
        sent = offset
        offset += writes * size
        while sent < offset:
            now += late(0.004)
            take = min(chance.choice([size, 1448]), offset - sent)
            rows.append(data(now, sent, take))
            sent += take
            now += rtt + late(0.01) + (chance.random() < 0.4) * 40
            if chance.random() < 0.6 and sent < offset:
                rows.append(ack(now, sent))
        rows.append(ack(now + late(0.01) + 9, offset, payload_bytes=2, seq=seq))
        seq += 2
        now = rows[-1]["time_ns"] / 1e6 - ns(0) / 1e6 + late(0.01)
        log.append(Event(ns(now), "reply", 2))
        now += late(0.02)
    return explain_evidence(log, capture(rows), OPTIONS)


def assert_nothing_covers(picture: figures.Picture) -> None:
    """Assert that no label covers another label or a break of the axis, and that no label without
    a background covers an arrow."""
    figure: Any = picture.figure
    labels = [
        (one, one.get_window_extent())
        for one in figure.findobj(Text)
        if one.get_text().strip() and not isinstance(one, Annotation) and one.axes is not None
    ]
    assert len(labels) > 8
    assert_apart([(one.get_text(), box) for one, box in labels], 0.05)
    [axes] = figure.axes
    # The axes are off, and their invisible labels have no extent.
    labels = [(one, box) for one, box in labels if box.width]
    arrows = [one for one in axes.texts if isinstance(one, Annotation)]
    for arrow in each(arrows):
        start, end = axes.transData.transform([arrow.xyann, arrow.xy])
        for one, box in labels:
            if one.get_bbox_patch() is None:
                message = f"{one.get_text()!r} on an arrow"
                assert not _crosses((box.x0, box.x1, box.y0, box.y1), start, end), message
    for mark in (one for one in axes.lines if one.get_gid() == "break"):
        start, end = axes.transData.transform(mark.get_xydata())
        for one, box in labels:
            message = f"{one.get_text()!r} on a break of the axis"
            assert not _crosses((box.x0, box.x1, box.y0, box.y1), start, end), message


def test_no_label_covers_another_and_no_axis_has_more_than_two_breaks() -> None:
    assert_all_readable(range(CAPTURES))


def assert_all_readable(seeds: range) -> None:
    """Assert that these timelines are legible. Each has at most two breaks, and some have none."""
    broken = 0
    for seed in seeds:
        timeline = busy(seed)
        quiet = [part for part in View.of(timeline, None, 1).scale.parts if not part.busy]
        assert len(quiet) <= 2
        broken += bool(quiet)
        assert_nothing_covers(figures.timeline(timeline))
    assert 0 < broken < len(seeds)
