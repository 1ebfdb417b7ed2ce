"""Draw the segments of a header and a file."""

from __future__ import annotations

from typing import Final

from tcplab.experiments import table
from tcplab.experiments.sendfile import SendFiles, Transfer
from tcplab.experiments.sendfile.header import header_alone
from tcplab.figures import bars, canvas, style
from tcplab.figures.picture import Picture, drawn, some
from tcplab.figures.style import Style, look_of
from tcplab.tables import count

__all__ = ["header_segments"]

_HEADER: Final = Style(style.VERMILION, "xx", "header")
_FILE: Final = Style(style.BLUE, "", "file")


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


def _measured(result: SendFiles) -> list[Transfer]:
    return [variant for variant in result.variants if variant.costs]
