"""What all figures share: size, type, colours, and the picture with its words and numbers."""

from __future__ import annotations

import base64
import functools
import io
import os
import struct
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tcplab.experiments.mode import mode
from tcplab.models import Reason
from tcplab.tables import Table

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

__all__ = ["Line", "Picture", "Style", "arrow", "fill", "new_figure"]

# Okabe and Ito's palette, which people with any colour vision tell apart.
BLACK: Final = "#000000"
ORANGE: Final = "#E69F00"
SKY: Final = "#56B4E9"
GREEN: Final = "#009E73"
YELLOW: Final = "#F0E442"
BLUE: Final = "#0072B2"
VERMILION: Final = "#D55E00"
PURPLE: Final = "#CC79A7"
GREY: Final = "#6E6E6E"
PALE: Final = "#E8E8E8"

#: Darker, for text: on white at least 4.5 times as dark, which a projector needs.
_INK: Final = {
    ORANGE: "#8A5F00",
    GREEN: "#00704F",
    VERMILION: "#A84A00",
    PURPLE: "#8F3F6E",
    GREY: "#595959",
}

WIDTH_INCHES, HEIGHT_INCHES, DPI = 12.8, 7.2, 100  # a projector's 1280 x 720
TITLE, TEXT, SMALL = 19, 15, 13


@dataclass(frozen=True, slots=True)
class Style:
    """How a reason looks: colour, and a hatch for those who don't see the colour."""

    colour: str
    hatch: str
    name: str


class Line(NamedTuple):
    """How an arrow looks: the line style tells what the colour tells."""

    line: str
    colour: str
    width: float


SENT: Final = Line("-", BLUE, 3.0)
SENT_AGAIN: Final = Line("-", BLACK, 3.0)
REPLY: Final = Line("-.", GREEN, 2.4)
ACK: Final = Line("--", VERMILION, 2.0)

#: A stretch of waiting is known by colour, by hatch, and by its label.
HOLD_STYLES: Final = {
    Reason.HELD_BY_NAGLE: Style(VERMILION, "///", "held by Nagle"),
    Reason.CORKED: Style(PURPLE, "xx", "held by the cork"),
    Reason.MSG_MORE: Style(PURPLE, "..", "held by MSG_MORE"),
    Reason.AUTOCORKED: Style(PURPLE, "--", "held by autocorking"),
    Reason.WINDOW_LIMITED: Style(SKY, "\\\\\\", "held, peer's window full"),
    Reason.CWND_LIMITED: Style(GREEN, "++", "held, congestion window full"),
    Reason.SNDBUF_LIMITED: Style(YELLOW, "oo", "not taken, send buffer full"),
    Reason.RETRANSMISSION: Style(BLACK, "||", "sent again after"),
    Reason.RATE_LIMITED: Style(GREY, "---", "queued in the wire"),
    Reason.APPLICATION_IDLE: Style(GREY, "", "nothing to send"),
    Reason.UNKNOWN: Style(GREY, "**", "held, reason unknown"),
}


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """A figure with what it shows in words and in numbers.

    The last expression of a notebook cell shows it once, with its alternative text.

    Attributes:
        figure: the matplotlib Figure, which no pyplot knows of.
        title: the finding.
        alt: what a reader who cannot see the figure should know: a sentence or two, with numbers.
        table: the numbers that are drawn.
    """

    figure: Figure
    title: str
    alt: str
    table: Table

    def png(self, dpi: int = DPI) -> bytes:
        """The figure as a PNG file of 12.8 x 7.2 inches."""
        import numpy as np

        data = io.BytesIO()
        with _drawing():
            self.figure.savefig(data, format="rgba", dpi=dpi)
        width, height = round(WIDTH_INCHES * dpi), round(HEIGHT_INCHES * dpi)
        pixels = np.frombuffer(data.getbuffer(), np.uint8).reshape(height, width, 4)
        return _as_png(pixels[:, :, :3], self.alt)

    def save(self, path: str | os.PathLike[str], *, dpi: int = DPI) -> None:
        """Writes the figure in the format that the file's name says (png, svg, pdf)."""
        # Without a date, equal figures are equal files.
        names: dict[str, dict[str, Any]] = {
            "svg": {"Date": None, "Title": self.title, "Description": self.alt},
            "pdf": {"CreationDate": None, "Title": self.title, "Subject": self.alt},
        }
        kind = os.fspath(path).rpartition(".")[2].lower()
        if kind == "png":
            Path(path).write_bytes(self.png(dpi))
        else:
            self.figure.savefig(path, dpi=dpi, metadata=names.get(kind))

    def html(self) -> str:
        """The figure as an HTML image with its alternative text."""
        data = base64.b64encode(self.png()).decode()
        alt = escape(self.alt, quote=True)
        return f'<img src="data:image/png;base64,{data}" alt="{alt}" style="max-width:100%">'

    def _repr_mimebundle_(self, **_options: Any) -> dict[str, str]:
        return {"text/html": self.html(), "text/plain": f"{self.title}. {self.alt}"}


#: matplotlib's settings belong to the whole process.
_SETTINGS: Final = threading.Lock()


@contextmanager
def _drawing() -> Iterator[None]:
    """Settings for pixels, whatever the user has set for figures of his own."""
    import matplotlib

    with (
        _SETTINGS,
        matplotlib.rc_context(
            {
                # The letters' true shapes; to fit them to the pixels takes a third of the drawing.
                "text.hinting": "no_hinting",
                "savefig.bbox": None,
                "savefig.facecolor": "auto",
                "savefig.transparent": False,
            }
        ),
    ):
        yield


def _as_png(pixels: NDArray[np.uint8], description: str) -> bytes:
    """Red, green, blue of (height, width, 3) as a PNG file (ISO/IEC 15948).

    Rows are not filtered, which a drawing with plain areas does without. Pillow tries five filters
    for each row: that takes longer, makes a larger file, and the browser unpacks it for longer.
    """
    import numpy as np

    height, width, _ = pixels.shape
    rows = np.zeros((height, 1 + 3 * width), np.uint8)  # each begins with its filter's number, 0
    rows[:, 1:] = pixels.reshape(height, 3 * width)
    words = b"Description\0\0\0\0\0" + description.encode()
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)),
        (b"iTXt", words),
        (b"IDAT", zlib.compress(rows.tobytes(), level=1)),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in parts
    )


def new_figure() -> Figure:
    """An empty figure for a projector; drawn without pyplot, so in any thread."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH_INCHES, HEIGHT_INCHES), dpi=DPI, facecolor="white")
    FigureCanvasAgg(figure)
    if mode() == "recorded":
        figure.text(0.995, 0.005, "recorded, not measured now", ha="right", fontsize=SMALL)
    return figure


def title(figure: Figure, text: str) -> None:
    """The finding, above the figure, in at most two lines."""
    import re
    import textwrap

    # A number and its unit stay on one line.
    text = re.sub(r"(\d) (?=[a-zµA-Z])", "\\1\N{NO-BREAK SPACE}", text)
    sizes = ((TITLE, 80), (17, 90), (TEXT, 102), (SMALL, 118))
    wrapped = [(size, textwrap.wrap(text, characters)) for size, characters in sizes]
    size, lines = next((each for each in wrapped if len(each[1]) <= 2), wrapped[-1])
    figure.text(
        0.012, 0.985, "\n".join(lines), fontsize=size, fontweight="bold", va="top", ha="left"
    )


def ink(colour: str) -> str:
    """The colour in which to write about what is drawn in `colour`."""
    return _INK.get(colour, colour)


def text_width_px(text: str, size: float, *, bold: bool = False) -> float:
    """How wide a line of text is, in pixels of a figure from new_figure."""
    return _width_px(text, size, "bold" if bold else "normal")


@functools.lru_cache(maxsize=4096)
def _width_px(text: str, size: float, weight: str) -> float:
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(size=size, weight=weight)
    width, _height, _descent = text_to_path.get_text_width_height_descent(text, font, ismath=False)
    return float(width) * DPI / 72


def fill(axes: Axes, style: Style, x: float, y: float, width: float, height: float) -> None:
    """A bar in a style: coloured edge and hatch, pale inside so that a label can be read on it."""
    from matplotlib.colors import to_rgba
    from matplotlib.patches import Rectangle

    axes.add_patch(
        Rectangle(
            (x, y),
            width,
            height,
            facecolor=to_rgba(style.colour, 0.16),
            edgecolor=style.colour,
            hatch=style.hatch,
            linewidth=1.8,
            zorder=2,
        )
    )


def arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], look: Line) -> None:
    """An arrow from start to end, in the coordinates of the axes."""
    axes.annotate(
        "",
        xy=end,
        xytext=start,
        arrowprops={
            "arrowstyle": "-|>",
            "linestyle": look.line,
            "color": look.colour,
            "lw": look.width,
            "shrinkA": 0,
            "shrinkB": 0,
            "mutation_scale": 16 if look.width > 1 else 7,
        },
        zorder=3,
    )


def ms(value: float) -> str:
    """A time with three digits that count, in ms or µs."""
    if abs(value) < 0.0995:
        return f"{value * 1000:.0f} µs"
    return f"{value:.1f} ms" if abs(value) >= 9.95 else f"{value:.2f} ms"


def count(number: int, noun: str) -> str:
    """A number with its noun."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def rate(bits_per_ms: float) -> str:
    """A rate with three digits that count."""
    if bits_per_ms >= 1e6:
        return f"{bits_per_ms / 1e6:.3g} Gbit/s"
    return f"{bits_per_ms / 1e3:.3g} Mbit/s" if bits_per_ms >= 1e3 else f"{bits_per_ms:.3g} kbit/s"
