"""Demonstrations for a lecture: one panel, a few prepared steps, a question to the room for each.

In a notebook, such as the one that ``make demo NAME=nagle`` opens::

    from tcplab import demos
    demos.show("nagle")

In a terminal: ``tcplab demo nagle``. A step is at most five seconds from the click to the picture.
The room votes before the lecturer presses Run; its votes stand beside what was measured.
"""

from __future__ import annotations

import math
import shutil
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tcplab.errors import LabError
from tcplab.experiments.mode import recorded_note
from tcplab.widgets.instrument import load
from tcplab.widgets.panel import Panel

if TYPE_CHECKING:
    from tcplab.widgets.instrument import Instrument

__all__ = ["DEMOS", "Demo", "Option", "Step", "in_terminal", "show"]


@dataclass(frozen=True, slots=True)
class Option:
    """One answer that the room may vote for.

    Attributes:
        label: in words.
        value: in the instrument's unit; the option nearest to what was measured, as a ratio, is
            the right one.
    """

    label: str
    value: float


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a demo.

    Attributes:
        title: a few words for its button.
        ask: the question to the room.
        values: the settings; what is not named keeps the instrument's default.
        options: the answers; none where the picture is the answer.
        explain: said when the picture is there.
    """

    title: str
    ask: str
    values: Mapping[str, Any]
    options: tuple[Option, ...]
    explain: str


@dataclass(frozen=True, slots=True)
class Demo:
    """A demo.

    Attributes:
        name: on the command line, and of its notebook in lessons/demos.
        lesson: two digits.
        title: of the notebook.
        instrument: which panel.
        steps: three to five.
    """

    name: str
    lesson: str
    title: str
    instrument: str
    steps: tuple[Step, ...]

    def settings(self, step: Step) -> dict[str, Any]:
        """All settings of a step."""
        defaults = {each.name: each.default for each in load(self.instrument).controls}
        return defaults | dict(step.values)


def _options(unit: str, *values: float) -> tuple[Option, ...]:
    return tuple(Option(f"{value:g} {unit}", value) for value in values)


_TIMES: Final = _options("ms", 0.05, 1, 10, 44, 200)

_NAGLE: Final = Demo(
    "nagle",
    "05",
    "Nagle and delayed ACK",
    "small-writes",
    (
        Step(
            "15 writes",
            "A program sends 30 bytes in 15 writes and waits for an answer. The network has no"
            " delay. How long does one message take?",
            {"mode": "default"},
            _TIMES,
            "Two bytes leave at once. The other 28 wait for their ACK, says Nagle. The receiver"
            " delays that ACK by 40 ms, since it has nothing to answer yet. Nobody works.",
        ),
        Step(
            "One call",
            "The same 30 bytes, handed over in one writev. How long now?",
            {"mode": "writev"},
            _TIMES,
            "One write, one segment, no wait. Hundreds of times as fast, and no option was set.",
        ),
        Step(
            "TCP_NODELAY",
            "Fifteen writes again, but with TCP_NODELAY. How long, and how many segments?",
            {"mode": "no_delay"},
            _TIMES,
            "Fast again, but look at the wire: fifteen segments of 2 bytes, each behind 66 bytes of"
            " headers.",
        ),
        Step(
            "Who is to blame?",
            "Nagle is on again; but now the receiver acknowledges at once. How long?",
            {"mode": "default", "quickack": "always"},
            _TIMES,
            "It takes both: Nagle alone costs one round trip, and here that is nothing.",
        ),
        Step(
            "20 ms away",
            "As in the first step, but the other host is 20 ms away. How long?",
            {"mode": "default", "rtt_ms": 20.0},
            _options("ms", 20, 40, 60, 84, 200),
            "Two round trips and the delayed ACK. The good ways take one round trip.",
        ),
    ),
)

_CORK: Final = Demo(
    "cork",
    "06",
    "Cork: say that there is more to come",
    "cork",
    (
        Step(
            "Header, body",
            "A header of 4 bytes, then a body of 100, then the reply. Two writes, no option. How"
            " long?",
            {"way": "default", "pieces": 1},
            _TIMES,
            "Write, write, read: the worst pattern of all. The body waits for the ACK of the"
            " header, and that ACK is delayed.",
        ),
        Step(
            "With a cork",
            "TCP_CORK on, the same two writes, TCP_CORK off. How long?",
            {"way": "cork", "pieces": 1},
            _TIMES,
            "One segment of 104 bytes, sent when the cork is pulled.",
        ),
        Step(
            "MSG_MORE",
            "No cork, but the flag MSG_MORE with the header. How long?",
            {"way": "msg_more", "pieces": 1},
            _TIMES,
            "The same segment, with two system calls instead of four.",
        ),
        Step(
            "Cork, 20 ms away",
            "The cork again, and a body of 60 pieces; the other host is 20 ms away. How long?",
            {"way": "cork", "pieces": 60, "rtt_ms": 20.0},
            _options("ms", 20, 44, 84, 220),
            "One round trip. Full segments leave while the cork is in; only the tail waits for it.",
        ),
    ),
)

_BUFFERS: Final = Demo(
    "buffers",
    "04",
    "How large must a buffer be?",
    "buffers",
    (
        Step(
            "64 KiB",
            "A receive buffer of 65,536 bytes, a round trip of 20 ms, a wire of 50 Mbit/s. What"
            " does the transfer reach?",
            {"sweep": "one"},
            _options("Mbit/s", 6, 13, 30, 48),
            "The kernel doubles what was asked for; 5/8 of that may be offered as window: 82 kB"
            " each 20 ms.",
        ),
        Step(
            "Four times as far",
            "The same buffer, the same wire, but a round trip of 80 ms. And now?",
            {"sweep": "one", "rtt_ms": 80.0},
            _options("Mbit/s", 2, 8, 30, 48),
            "Throughput is window over RTT: four times the distance, a quarter of the rate.",
        ),
        Step(
            "The knee",
            "Five sizes at 20 ms. Where does more buffer stop to help?",
            {"sweep": "five"},
            (),
            "At the bandwidth-delay product. Beyond it the wire is the limit.",
        ),
        Step(
            "A larger one",
            "80 ms again, with 524,288 bytes. What does it reach?",
            {"sweep": "one", "rtt_ms": 80.0, "request_bytes": 524_288},
            _options("Mbit/s", 8, 16, 30, 48),
            "More than the bandwidth-delay product: the wire is the limit. But setting SO_RCVBUF"
            " has switched autotuning off, which would have found this by itself.",
        ),
    ),
)

_WIRE: Final = Demo(
    "wire",
    "00",
    "The wire",
    "wire",
    (
        Step(
            "An easy wire",
            "One TCP connection over 50 Mbit/s and 20 ms. What does it get?",
            {"seconds": 4.0},
            _options("Mbit/s", 5, 12, 25, 49),
            "Nearly all. Watch the queue: TCP fills it, drops a packet, and backs off.",
        ),
        Step(
            "1 % loss",
            "The wire loses one packet of a hundred. What is left of the 50 Mbit/s?",
            {"seconds": 4.0, "loss_percent": 1.0},
            _options("Mbit/s", 7, 20, 35, 49),
            "TCP takes each loss for a full queue and slows down (Mathis: MSS / RTT × 1 / √p).",
        ),
        Step(
            "A long queue",
            "10 Mbit/s and room for 1000 packets. What happens to the RTT?",
            {"seconds": 4.0, "rate_mbit": 10.0, "queue_packets": 1000},
            (),
            "The rate is as good as ever, and the RTT grows tenfold and more: bufferbloat.",
        ),
        Step(
            "By hand",
            "Press Run, and move the sliders while it goes on. Who notices first, TCP or you?",
            {"seconds": 60.0},
            (),
            "Stop shows the whole run, a dashed line for each change.",
        ),
    ),
)

_MTU: Final = Demo(
    "mtu",
    "03",
    "What headers cost",
    "mtu",
    (
        Step(
            "Ethernet",
            "A wire of 100 Mbit/s, that is 12.5 MB/s. What reaches the application with an MTU of"
            " 1500?",
            {},
            _options("MB/s", 6.3, 9.4, 10.7, 11.8),
            "94 %. Of each 1538 bytes on the wire 1448 are data.",
        ),
        Step(
            "Jumbo frames",
            "And with an MTU of 9000?",
            {"mtu_bytes": 9000},
            _options("MB/s", 11.8, 12.4, 13.5, 25),
            "99 %. Six times the packet gives 5 % more; the CPU notices it rather than the wire.",
        ),
        Step(
            "128 bytes",
            "And with an MTU of 128?",
            {"mtu_bytes": 128},
            _options("MB/s", 1, 3, 5.7, 9),
            "Less than half: 76 bytes of data among 90 bytes of headers and framing.",
        ),
    ),
)

_UDP: Final = Demo(
    "udp",
    "02",
    "Is UDP faster than TCP?",
    "tcp-vs-udp",
    (
        Step(
            "The text's question",
            "Blocks of 1440 bytes within one machine, MTU 1500. How many times as fast is UDP?",
            {},
            _options("times", 0.3, 0.7, 1.4, 3, 10),
            "Look at the picture for what the text measured, and at the table for what was lost.",
        ),
        Step(
            "Small blocks",
            "Blocks of 300 bytes. TCP may put several in a segment, UDP may not. And now?",
            {"size_bytes": 300},
            _options("times", 0.3, 0.7, 1.4, 3, 10),
            "A system call and a packet for each 300 bytes is what UDP pays.",
        ),
        Step(
            "Offload",
            "1440 bytes again, but the kernel may batch segments (TSO, GSO, GRO). And now?",
            {"offload": "on"},
            _options("times", 0.3, 0.7, 1.4, 3, 10),
            "Compare both rates with those of the first step: whose segments could be batched?",
        ),
        Step(
            "A wire",
            "A wire of 10 Mbit/s. How many times as fast is UDP?",
            {"way": "sparc", "runs": 3},
            _options("times", 0.5, 0.8, 1, 1.5, 3),
            "When the wire is the limit, both fill it.",
        ),
    ),
)

_SENDFILE: Final = Demo(
    "sendfile",
    "07",
    "Sending a file without reading it",
    "send-file",
    (
        Step(
            "One machine",
            "A file of 64 MB within one machine. How many times as fast as read and send, 4096"
            " bytes at a time, is sendfile?",
            {"runs": 2},
            _options("times", 1, 1.8, 4, 10),
            "One copy less and far fewer system calls. And look at MSG_ZEROCOPY: the kernel had"
            " to copy after all.",
        ),
        Step(
            "100 Mbit/s",
            "A file of 4 MB over a wire of 100 Mbit/s. How many times as fast is sendfile?",
            {"part": "wire", "size_mb": 4, "runs": 1},
            _options("times", 1, 1.8, 4, 10),
            "No faster: the wire sets the time. What is saved is the CPU's.",
        ),
        Step(
            "A header first",
            "100 bytes of header, then sendfile. Which ways put both into the first segment?",
            {"part": "header"},
            (),
            "The cork and MSG_MORE do. Without them a segment of 100 bytes goes first.",
        ),
    ),
)

_COPIES: Final = Demo(
    "copies",
    "01",
    "How often is a byte copied?",
    "copies",
    (
        Step(
            "A file",
            "dd | netcat sends zeros, which only have to be made. netcat < file sends a file that"
            " is in memory. How many times as fast is the file?",
            {},
            _options("times", 0.5, 1, 1.7, 3, 10),
            "Every program in a chain copies each byte in and out again. Without dd and its pipe"
            " there are three copies instead of five.",
        ),
        Step(
            "Four processes",
            "Zeros again, and behind the receiver one more dd, which does nothing with them. What"
            " is left of the rate?",
            {"source": "zeros", "receiver": "dd", "block_bytes": 131_072},
            _options("times", 0.2, 0.4, 0.7, 1),
            "Seven copies instead of five. If a CPU is free for it, the fourth program costs less:"
            " a chain is as fast as its slowest member.",
        ),
        Step(
            "sendfile",
            "The sender calls sendfile(), so that it copies nothing: one copy instead of five. How"
            " many times as fast?",
            {"sender": "splice"},
            _options("times", 1, 2, 5, 10),
            "Less than five times: the receiver still copies, and system calls, wake-ups and TCP"
            " itself cost as much as before.",
        ),
        Step(
            "No copy at all",
            "And if the receiver throws the bytes away in the kernel? How many times as fast?",
            {"sender": "splice", "receiver": "discard"},
            _options("times", 1, 2, 5, 10, 30),
            "What is left is the price of TCP alone. It was never the slow part.",
        ),
        Step(
            "1 Gbit/s",
            "The first step again, but between two hosts: a wire of 1 Gbit/s. How many times as"
            " fast is the file now?",
            {"place": "wire", "size_mb": 20},
            _options("times", 0.6, 1, 1.7, 3),
            "Both fill the wire: 117.7 MB/s are all that it carries. Copies cost CPU time all the"
            " same; look at the table.",
        ),
    ),
)

_DIAGNOSIS: Final = Demo(
    "diagnosis",
    "08",
    "Why is it slow?",
    "diagnosis",
    (
        Step(
            "request",
            "A program asks a server 20 ms away, and waits for each answer. A round trip is all"
            " that it needs. How many times as long does it take?",
            {},
            _options("times", 1, 2, 4, 10, 40),
            "84 ms instead of 20. Look at a gap: who ends it, and what had he been waiting for?",
        ),
        Step(
            "Who waits?",
            "4 bytes, a gap of 64 ms, 100 bytes. No packet was lost, nobody computes. Who waits for"
            " whom?",
            {"show": "cause"},
            (),
            "The body waits for the ACK of the header, says Nagle. The server delays that ACK: it"
            " has nothing to answer before it has the body. (Lesson 05.)",
        ),
        Step(
            "backup",
            "A backup over 50 Mbit/s, 20 ms away; the line is idle most of the time. How many times"
            " as long does it take as it should?",
            {"program": "backup"},
            _options("times", 1, 2, 6, 20),
            "A burst, then silence until the ACKs are back. The bursts have one size. Who sets it?",
        ),
        Step(
            "Next room",
            "The same program in the next room, 2 ms away. How many times as long as it should?",
            {"program": "backup", "rtt_ms": 2.0, "show": "cause"},
            _options("times", 1, 2, 6, 20),
            "The window is as small as before, but this wire holds even less. Such a fault is not"
            " found in one's own office. (Lesson 04.)",
        ),
        Step(
            "ticker",
            "A line of 39 bytes each millisecond, TCP_NODELAY is on. How many segments is a line?",
            {"program": "ticker", "rtt_ms": 0.0, "show": "cause"},
            (Option("1", 1), Option("2", 2), Option("8", 8), Option("39", 39)),
            "Nearly one for each character: the program writes them one by one, and the option says"
            " that each is a message of its own.",
        ),
    ),
)

DEMOS: Final[Mapping[str, Demo]] = {
    each.name: each
    for each in (_WIRE, _COPIES, _UDP, _MTU, _BUFFERS, _NAGLE, _CORK, _SENDFILE, _DIAGNOSIS)
}


def _find(name: str) -> Demo:
    if name not in DEMOS:
        raise ValueError(f"demo {name!r}: there are {', '.join(DEMOS)}")
    return DEMOS[name]


def show(name: str) -> Panel:
    """The panel of a demo, with its steps; for the last line of a notebook's cell.

    Raises:
        ValueError: no demo has this name.
    """
    demo = _find(name)
    steps = [
        {
            "title": step.title,
            "ask": step.ask,
            "values": demo.settings(step),
            "options": [{"label": each.label, "value": each.value} for each in step.options],
            "explain": step.explain,
        }
        for step in demo.steps
    ]
    settings = demo.settings(demo.steps[0])
    return Panel(load(demo.instrument), title=demo.title, steps=steps, **settings)


# ---- in a terminal -------------------------------------------------------------------------------


def in_terminal(name: str, step: int | None = None, *, say: Callable[[str], None] = print) -> int:
    """Goes through a demo, with the Return key between question and answer.

    Without a terminal on standard input nothing is waited for.

    Args:
        name: of the demo.
        step: this one only, from 1; all unless given.
        say: prints a line.

    Returns:
        How many steps were shown.

    Raises:
        ValueError: there is no such demo or step.
        LabError: a measurement failed.
    """
    demo = _find(name)
    numbers = range(1, len(demo.steps) + 1)
    if step is not None and step not in numbers:
        raise ValueError(f"step {step}: the demo {name} has steps 1 to {len(demo.steps)}")
    panel = Panel(load(demo.instrument))
    panel.warm()
    asks = sys.stdin.isatty()
    try:
        for number in numbers if step is None else (step,):
            _one_step(demo, number, panel, asks, say)
    finally:
        panel.close()
    return len(numbers) if step is None else 1


def _one_step(
    demo: Demo, number: int, panel: Panel, asks: bool, say: Callable[[str], None]
) -> None:
    step = demo.steps[number - 1]
    say(f"\n{demo.title} · {number} of {len(demo.steps)} · {step.title}\n\n{_lines(step.ask)}\n")
    for each in step.options:
        say(f"    {each.label}")
    votes = _votes(len(step.options)) if asks else []
    settings = demo.settings(step)
    if panel.instrument.live:  # there are no sliders to move meanwhile
        settings |= panel.instrument.headless
    panel.set(**settings).start().wait(timeout_s=120)
    if panel.phase != "done":
        raise LabError(panel.message)
    run = panel.runs[-1]
    for words in (recorded_note(run["provenance"]), *(f"Note: {each}." for each in run["notes"])):
        if words:
            say(f"\n{_lines(words)}")
    say(f"\n{run['text']}\n")
    if run["headline"] is not None:
        say(_verdict(step, votes, run["headline"], panel.instrument))
    say(f"{_lines(run['alt'])}\n\n{_lines(step.explain)}")


def _lines(text: str) -> str:
    """Broken between words where the terminal ends; where there is none, at 80 columns."""
    width = min(max(shutil.get_terminal_size().columns, 40), 100)  # longer ones are hard to read
    return textwrap.fill(text, width, break_on_hyphens=False)


def _votes(options: int) -> list[int]:
    """The room's votes, one number an option; empty when the lecturer just presses Return."""
    if not options:
        input("\nReturn to measure … ")
        return []
    while True:
        typed = input(f"\nVotes ({options} numbers), or Return to measure … ").split()
        if not typed:
            return []
        if len(typed) == options and all(word.isdecimal() for word in typed):
            return [int(word) for word in typed]
        print(f"Give {options} numbers, such as {' '.join(['3'] * options)}, or nothing.")


def _verdict(step: Step, votes: Sequence[int], measured: float, instrument: Instrument) -> str:
    lines = [f"{instrument.predicts}: {measured:.3g} {instrument.unit}"]
    right = min(step.options, key=lambda each: _distance(each.value, measured), default=None)
    most = max(votes, default=0) or 1
    for each, count in zip(step.options, votes or [0] * len(step.options), strict=True):
        mark = "✔" if each is right else " "
        bar = f"{'█' * round(30 * count / most)} {count}" if votes else ""
        lines.append(f"  {mark} {each.label:<14}{bar}".rstrip())
    return "\n".join([*lines, ""])


def _distance(guess: float, measured: float) -> float:
    return abs(math.log(max(guess, 1e-6) / max(measured, 1e-6)))
