"""Define the common look of figures, with its colours, hatches, lines, arrows and text."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tcplab.models import Reason

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The first eight colours are Okabe and Ito's palette, which colour-blind readers can tell apart.
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
FAINT: Final = "#B0B0B0"
GRID: Final = "#D8D8D8"  # the same as in tcplab.mplstyle

#: Darker colours for text. A contrast of at least 4.5 with white keeps projected text legible.
_INK: Final = {
    ORANGE: "#8A5F00",
    GREEN: "#00704F",
    VERMILION: "#A84A00",
    PURPLE: "#8F3F6E",
    GREY: "#595959",
}


def pale(colour: str) -> str:
    """Return a mixture of one fifth colour and four fifths white, on which a label is readable."""
    channels = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(255 - 0.2 * (255 - value)):02x}" for value in channels)


_PALETTE: Final = {
    "ink": BLACK,
    "grey": GREY,
    "orange": ORANGE,
    "sky": SKY,
    "green": GREEN,
    "yellow": YELLOW,
    "blue": BLUE,
    "vermilion": VERMILION,
    "purple": PURPLE,
}
#: The variable of figure.css for each colour of a drawing, in matplotlib's notation.
THEMED: Final = {
    "#ffffff": "paper",
    PALE.lower(): "shade",
    GRID.lower(): "grid",
    FAINT.lower(): "faint",
    **{pale(colour): f"{name}-pale" for name, colour in _PALETTE.items()},
    **{_INK[colour].lower(): f"{name}-ink" for name, colour in _PALETTE.items() if colour in _INK},
    **{colour.lower(): name for name, colour in _PALETTE.items()},
}

#: Font sizes, as in tcplab.mplstyle. write() makes text larger than SMALL bold.
TEXT, SMALL = 13, 12

#: The looks of a figure's curves. No two curves share their colour or their marker.
CURVES: Final = (
    (BLUE, "o", "-"),
    (VERMILION, "s", "--"),
    (GREEN, "^", "-."),
    (PURPLE, "D", ":"),
    (ORANGE, "v", "-"),
    (BLACK, "P", "--"),
)

#: The background of a text on a hatch or a curve, as in Axes.text(..., bbox=ON_WHITE).
ON_WHITE: Final = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1.2}


@dataclass(frozen=True, slots=True)
class Style:
    """The look of a bar, with a hatch for readers who do not see the colour."""

    colour: str
    hatch: str
    name: str


class Line(NamedTuple):
    """The line style, colour and width of an arrow."""

    line: str
    colour: str
    width: float


SENT: Final = Line("-", BLUE, 2.2)
SENT_AGAIN: Final = Line("-", BLACK, 2.2)
REPLY: Final = Line("-.", GREEN, 1.9)
ACK: Final = Line("--", VERMILION, 1.7)

#: Labels of waits that differ from the words of their reason.
_HOLD_LABELS: Final = {
    Reason.RETRANSMISSION: "sent again after",
    Reason.UNKNOWN: "held, reason unknown",
}
#: The look and label of a wait, by its reason. Each reason has its own hatch.
HOLD_STYLES: Final = {
    reason: Style(colour, hatch, _HOLD_LABELS.get(reason, reason.words))
    for reason, colour, hatch in (
        (Reason.HELD_BY_NAGLE, VERMILION, "///"),
        (Reason.CORKED, PURPLE, "xx"),
        (Reason.MSG_MORE, PURPLE, "x"),
        (Reason.WINDOW_LIMITED, SKY, "\\\\\\"),
        (Reason.CWND_LIMITED, GREEN, "++"),
        (Reason.DEFERRED, GREEN, "/|"),
        (Reason.SNDBUF_LIMITED, YELLOW, "x-"),
        (Reason.RETRANSMISSION, BLACK, "||"),
        (Reason.RATE_LIMITED, GREY, "---"),
        (Reason.APPLICATION_IDLE, GREY, ""),
        (Reason.UNKNOWN, GREY, "x|"),
    )
}


def ink(colour: str) -> str:
    """Return the colour for text about marks of this colour."""
    return _INK.get(colour, colour)


@functools.lru_cache(maxsize=4096)
def text_width_px(text: str, size: float, *, bold: bool = False) -> float:
    """Return the width of a line of text in units of a drawing."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(size=size, weight="bold" if bold else "normal")
    width, _height, _descent = text_to_path.get_text_width_height_descent(text, font, ismath=False)
    return float(width)


def write(axes: Axes, x: float, y: float, text: str, size: float = SMALL, **look: Any) -> None:
    """Write a text in front of the drawing, centred on a point unless `look` overrides this."""
    usual: dict[str, Any] = {"ha": "center", "va": "center", "zorder": 4, "color": BLACK}
    usual["fontweight"] = "bold" if size > SMALL else "normal"
    look = usual | look
    axes.text(x, y, text, fontsize=size, **look | {"color": ink(look["color"])})


def look_of(style: Style) -> dict[str, Any]:
    """Return a style as arguments for Axes.bar and other areas, with a pale face."""
    return {
        "facecolor": pale(style.colour),
        "edgecolor": style.colour,
        "hatch": style.hatch,
        "linewidth": 1.3,
    }


def fill(
    axes: Axes,
    style: Style,
    x: float,
    y: float,
    width: float,
    height: float,
    *,
    gid: str | None = None,
) -> None:
    """Draw a rectangle in a style, pale enough for a readable label."""
    from matplotlib.patches import Rectangle

    axes.add_patch(Rectangle((x, y), width, height, zorder=2, gid=gid, **look_of(style)))


def arrow(
    axes: Axes,
    start: tuple[float, float],
    end: tuple[float, float],
    look: Line,
    *,
    gid: str | None = None,
) -> None:
    """Draw an arrow from start to end, in the coordinates of the axes."""
    drawn = axes.annotate(
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
            "mutation_scale": 12 if look.width > 1 else 6,
        },
        zorder=3,
    )
    if drawn.arrow_patch is not None:
        drawn.arrow_patch.set_gid(gid)
