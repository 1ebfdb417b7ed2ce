"""Draw the segments that pass a narrower hop, and the black hole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tcplab.experiments.path_mtu import PathMtu, PathMtuVariant
from tcplab.figures import canvas, style
from tcplab.figures.generic import name_rows, named_once
from tcplab.figures.picture import Picture, drawn
from tcplab.tables import Table, count, digits, ms

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["path_mtu"]

_LINEAR_MS: Final = 0.05  # end of the axis's linear part, which includes 0


@drawn
def path_mtu(result: PathMtu) -> Picture:
    """Draw when each segment left, and whether it fitted the path, in a lane per case."""
    cases = list(result.variants)
    figure, axes = canvas.new_axes(grid="x")
    last_ms = max([100.0, *(case.ms for case in cases)]) * 2
    for y, case in enumerate(cases):
        _path_lane(axes, case, y, result.path_mtu_bytes)
        text = f"done after {ms(case.ms)}" if case.finished else f"gave up after {ms(case.ms)}"
        axes.text(last_ms, y + 0.3, text, ha="right", va="center")
    axes.set_xscale("symlog", linthresh=_LINEAR_MS, linscale=0.4)
    axes.set_xlim(-0.1 * _LINEAR_MS, last_ms)
    name_rows(axes, [_case_name(case) for case in cases])
    ticks = [0, *(10.0**power for power in range(-1, 6) if 10.0**power < last_ms)]
    axes.set_xticks(ticks, [digits(tick) for tick in ticks])
    axes.set_xticks([], minor=True)
    axes.set_xlabel("ms after the first segment with data, logarithmic from 0.05 on")
    canvas.legend(figure)
    finding, note = _path_finding(result)
    return Picture(figure, finding, Table(result.columns, result.rows(), finding), note)


def _path_lane(axes: Axes, case: PathMtuVariant, y: int, path_mtu_bytes: int) -> None:
    axes.axhline(y, color=style.FAINT, lw=1, zorder=1)
    fitted = [segment.ms for segment in case.sent if segment.fits]
    dropped = [segment.ms for segment in case.sent if not segment.fits]
    for times, height, marker, colour, name in (
        (fitted, y, "o", style.BLUE, f"segment that fits MTU {path_mtu_bytes}"),
        (dropped, y, "X", style.VERMILION, "segment too long: dropped"),
        (case.icmp_ms, y - 0.2, "v", style.YELLOW, "ICMP: fragmentation needed"),
    ):
        look: dict[str, Any] = {"mfc": colour, "mec": "black", "alpha": 0.9, "zorder": 4}
        axes.plot(times, [height] * len(times), marker, ls="", label=named_once(axes, name), **look)


def _case_name(case: PathMtuVariant) -> str:
    fix = case.fix.removeprefix("setsockopt ").removeprefix("sysctl net.ipv4.")
    return f"{case.name}\n({fix})" if fix and fix.split()[0] != case.name else fix or case.name


def _path_finding(result: PathMtu) -> tuple[str, str]:
    done = [variant for variant in result.variants if variant.finished]
    stuck = [variant for variant in result.variants if not variant.finished]
    titles, notes = [], []
    if done:
        titles.append(f"all data gets through in the case '{done[0].name}'")
        notes.append(f"{done[0].name}: after {ms(done[0].ms)}")
    if stuck:
        titles.append(f"the transfer never ends in the case '{stuck[0].name}'")
        notes.append(f"{stuck[0].name}: {count(stuck[0].dropped, 'packet')} dropped")
    return _sentence(", but ".join(titles)), " · ".join(notes)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
