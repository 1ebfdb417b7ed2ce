"""Draw the figures for the sendfile lesson, on time, CPU time and segments of sending a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tcplab.experiments import table
from tcplab.experiments.sendfile import SendFiles, Transfer
from tcplab.experiments.sendfile.header import header_alone
from tcplab.experiments.sendfile.transfers import Plan
from tcplab.experiments.sendfile.wire import published_s
from tcplab.figures import bars, canvas, style
from tcplab.figures.bars import beside, named_once
from tcplab.figures.picture import Picture, drawn, some
from tcplab.figures.style import Style, look_of
from tcplab.tables import count

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["file_seconds", "header_segments"]

_LETTERS: Final = {
    "A": Style(style.BLUE, "", "A: read + send"),
    "B": Style(style.ORANGE, "//", "B: sendfile"),
    "C": Style(style.GREEN, "--", "C: cork, sendfile"),
}
_HEADER: Final = Style(style.VERMILION, "xx", "header")
_FILE: Final = Style(style.BLUE, "", "file")


@drawn
def file_seconds(result: SendFiles) -> Picture:
    """Draw measured and published times, and the sender's CPU times for the largest file."""
    three = some(
        [transfer for transfer in _measured(result) if _is_published(transfer.plan)],
        "the three published variants were not measured",
    )
    sizes = sorted({transfer.plan.file_bytes for transfer in three})
    largest = [transfer for transfer in three if transfer.plan.file_bytes == sizes[-1]]
    figure, [clock, work] = canvas.new_panels([1.7, 1])
    for transfer in three:
        _clock_bar(clock, transfer, sizes.index(transfer.plan.file_bytes))
    clock.set_xticks(range(len(sizes)), [f"{size / 1e6:g} MB" for size in sizes])
    clock.set_xlim(-0.5, len(sizes) - 0.5)
    clock.set_ylabel("seconds")
    canvas.legend(figure, clock)
    for x, transfer in enumerate(largest):
        cpu_s = transfer.cpu_s_per_gb or 0
        work.bar(x, cpu_s, 0.6, **look_of(_LETTERS[transfer.plan.name[0]]))
        beside(work, f"{cpu_s:.2g}", x, cpu_s, above=True)
    work.set_xticks(range(len(largest)), [transfer.plan.name[0] for transfer in largest])
    work.set_ylabel("sender's CPU s per GB")
    for axes in (clock, work):
        axes.set_ylim(0, axes.get_ylim()[1] * 1.12)
    title, note = _seconds_finding(largest)
    return Picture(figure, title, table(result), note)


def _clock_bar(axes: Axes, transfer: Transfer, group: int) -> None:
    letter, seconds, published = (
        transfer.plan.name[0],
        transfer.wall_s or 0,
        published_s(transfer.plan),
    )
    x = group + (list(_LETTERS).index(letter) - 1) * 0.32
    look = _LETTERS[letter]
    axes.bar(x, seconds, 0.25, **look_of(look), label=named_once(axes, look.name))
    if published:
        name = named_once(axes, "published, fastest to slowest")
        axes.vlines(x, *published, color="black", lw=1.6, label=name or "_")
        axes.hlines(published, x - 0.07, x + 0.07, color="black", lw=1.6)
    # The label is at the foot of the bar, because the published range may be anywhere above.
    axes.text(x, 0.02, f"{seconds:.2g}", ha="center", va="bottom", bbox=style.ON_WHITE)


@drawn
def header_segments(result: SendFiles) -> Picture:
    """Draw a row per variant with the segments of header and file, marking the header's bytes."""
    measured = some(
        [transfer for transfer in _measured(result) if transfer.segments],
        "no segments were recorded",
    )
    figure, axes = canvas.new_axes()
    widest = max(sum(transfer.segments) + 40 * len(transfer.segments) for transfer in measured)
    unit = 440 / widest  # drawing units per byte
    half = bars.THICK / 2
    for y, transfer in enumerate(measured):
        left = 0
        for number, size in enumerate(transfer.segments):
            header = min(size, transfer.plan.header.header_bytes) if number == 0 else 0
            begin = left + 40 * number
            style.fill(axes, _FILE, begin + header, y - half, size - header, 2 * half)
            if header:
                style.fill(axes, _HEADER, begin, y - half, header, 2 * half)
            bars.within(axes, f"{size}", begin + (size + header) / 2, y, (size - header) * unit)
            left += size
    for look in (_HEADER, _FILE):
        axes.barh(-2, 0, **look_of(look), label=look.name)
    axes.set_xlim(-40, widest * 1.02)
    many = [count(len(transfer.segments), "segment") for transfer in measured]
    names = [
        f"{transfer.plan.name}\n{words}" for transfer, words in zip(measured, many, strict=True)
    ]
    bars.name_rows(axes, names, characters=28)
    axes.set_xticks([])
    axes.set_xlabel("payload of each data segment (bytes), in order")
    canvas.legend(figure)
    alone = [transfer.plan.name for transfer in measured if header_alone(transfer)]
    title = f"The header leaves in a separate segment with: {', '.join(alone) or 'none of them'}"
    return Picture(figure, title, table(result))


def _is_published(plan: Plan) -> bool:
    return plan.name[:2] in ("A:", "B:", "C:") and not plan.special


def _measured(result: SendFiles) -> list[Transfer]:
    return [variant for variant in result.variants if variant.costs]


def _seconds_finding(largest: Sequence[Transfer]) -> tuple[str, str]:
    size = f"{largest[0].plan.file_bytes / 1e6:g} MB"
    seconds = sorted(transfer.wall_s or 0 for transfer in largest)
    times = [f"{each:.3g}" for each in seconds]
    spread = times[0] if times[0] == times[-1] else f"{times[0]} to {times[-1]}"
    alike = "about the same time" if seconds[-1] < 1.1 * seconds[0] else "another time"
    work = {transfer.plan.name[0]: transfer.cpu_s_per_gb for transfer in largest}
    ratio = _ratio(work.get("A"), work.get("B"))
    title = f"Each variant takes {alike}, but A takes {ratio} times the CPU time of B"
    return title, f"{size} in {spread} s"


def _ratio(more: float | None, less: float | None) -> str:
    return f"{more / less:.1f}" if more and less else "?"
