"""Correct the times of captures: clocks that were set meanwhile, and two clocks that differ."""

import itertools
from typing import Any, Final

import numpy as np

from tcplab.segments import SegmentArray

#: Packets may be recorded out of order by this much.
NOISE_NS: Final = 1_000_000
#: A jump ahead counts if it is at least this long, and TSval did not make it.
_AHEAD_NS: Final = 1_000_000_000
#: Rates of the clocks behind TSval, in ticks per second, and how well one must fit.
_TICKS: Final = (1000, 250, 100)
_FITS: Final = 0.1
_MOST_STEPS: Final = 8
_WINDOWS: Final = 10


def straightened(rows: SegmentArray) -> tuple[SegmentArray, list[str]]:
    """Undo steps of the clock within a capture, and describe each.

    A step shows as time that goes back, or as a jump ahead that the sender's TSval (RFC 7323) did
    not make. Without TSval, a gap in which the clock stepped back counts as 0.
    """
    notes: list[str] = []
    for _ in range(_MOST_STEPS):
        found = _first_step(rows)
        if found is None:
            break
        place, step_ns, by_stamps = found
        rows = rows.copy()
        rows["time_ns"][place:] -= step_ns
        how = "by the senders' TSval" if by_stamps else "the clock, or the order of the packets"
        what = "the clock stepped" if by_stamps else "the times step"
        which = "back" if step_ns < 0 else "ahead"
        notes.append(
            f"{what} {which} by {abs(step_ns) / 1e6:.0f} ms before packet"
            f" {int(rows['packet'][place])} ({how}): later times are corrected"
        )
    return rows, notes


def _first_step(rows: SegmentArray) -> tuple[int, int, bool] | None:
    """Return the index of the first packet after a step, the step in ns, and if TSval shows it."""
    times = np.asarray(rows["time_ns"])
    gaps = np.diff(times)
    back = np.flatnonzero(gaps < -NOISE_NS)[:1].tolist()
    found = [(at + 1, int(gaps[at]), False) for at in back]
    if back or (len(times) and times[-1] - times[0] > _AHEAD_NS):
        found += _steps_by_stamps(rows)
    return min(found, key=lambda step: (step[0], not step[2]), default=None)


def _steps_by_stamps(rows: SegmentArray) -> list[tuple[int, int, bool]]:
    found, steady = [], []
    streams = rows["connection"].astype(np.int64) * 2 + rows["direction"]
    order = np.flatnonzero(rows["has_timestamps"])
    order = order[np.argsort(streams[order], kind="stable")]
    for places in np.split(order, np.flatnonzero(np.diff(streams[order])) + 1):
        gaps = np.diff(rows["time_ns"][places])
        ticks = np.diff(rows["ts_val"][places]).astype(np.int32).astype(np.int64)
        long = (gaps > 20_000_000) & (ticks > 0)
        if long.sum() < 2:
            continue
        rate = float(np.median(ticks[long] / gaps[long])) * 1e9
        known = min(_TICKS, key=lambda ticks: abs(rate - ticks))
        if abs(rate - known) > _FITS * known:
            continue
        steps = gaps - ticks * (1_000_000_000 // known)
        wrong = (steps > _AHEAD_NS) | ((gaps < -NOISE_NS) & (steps < -NOISE_NS))
        calm = np.abs(steps) < _AHEAD_NS
        steady.append((places[:-1][calm], places[1:][calm]))
        wrong &= ticks >= 0  # a packet that came late, or whose TSval is 0, shows no step
        found += [
            (int(places[i + 1]), int(steps[i]), True) for i in np.flatnonzero(wrong)[:1].tolist()
        ]
    # A single packet that is late shows no step if the times of the other stream go on.
    return [
        step
        for step in found
        if not any(((low < step[0]) & (step[0] <= high)).any() for low, high in steady)
    ]


def on_one_clock(
    ours: SegmentArray, peer: SegmentArray, outgoing: int = 0
) -> tuple[SegmentArray, str]:
    """Return the peer's rows of a connection on our clock, and a note if its clock differed.

    The fastest packets of both directions show by how much. `outgoing` is the direction of packets
    that leave our host.
    """
    there, back = (_passages(ours, peer, direction) for direction in (outgoing, 1 - outgoing))
    if not len(there) or not len(back):
        return peer, ""
    if there[:, 1].min() >= -NOISE_NS and -back[:, 1].max() >= -NOISE_NS:
        return peer, ""
    low, high = (function(ours["time_ns"]) for function in (np.min, np.max))
    edges = np.linspace(float(low), float(high) + 1, _WINDOWS + 1)
    middles, offsets = [], []
    for start, end in itertools.pairwise(edges):
        fastest = [part[(part[:, 0] >= start) & (part[:, 0] < end), 1] for part in (there, back)]
        if len(fastest[0]) and len(fastest[1]):
            middles.append((start + end) / 2 - float(low))
            offsets.append((fastest[0].min() + fastest[1].max()) / 2)
    drift, offset_ns = 0.0, (there[:, 1].min() + back[:, 1].max()) / 2
    if len(middles) >= _WINDOWS // 2:
        drift, offset_ns = np.polyfit(middles, offsets, 1)
    shifted = peer.copy()
    elapsed = peer["time_ns"] - low - offset_ns
    shifted["time_ns"] -= np.round(offset_ns + drift * elapsed).astype(np.int64)
    note = (
        f"the peer's clock is {offset_ns / 1e6:+.3f} ms from ours (drift {drift * 1e6:+.1f} ppm),"
        " by the fastest packets of both directions, if these take equally long: its times are"
        " corrected"
    )
    return shifted, note


def _passages(ours: SegmentArray, peer: SegmentArray, direction: int) -> np.ndarray[Any, Any]:
    """Return our time of each packet of one direction, and how much later the peer's time is."""
    names = ("seq", "payload_bytes", "flags", "ack", "ts_val")
    sides = []
    for rows in (ours, peer):
        of_direction = rows[rows["direction"] == direction]
        keys = zip(*(of_direction[name].tolist() for name in names), strict=True)
        times: dict[tuple[int, ...], int | None] = {}
        for key, time_ns in zip(keys, of_direction["time_ns"].tolist(), strict=True):
            times[key] = None if key in times else time_ns  # several copies prove nothing
        sides.append(times)
    both = [
        (left, arrived - left)
        for key, left in sides[0].items()
        if left is not None and (arrived := sides[1].get(key)) is not None
    ]
    return np.array(both, np.float64).reshape(-1, 2)
