"""Check a learner's function that describes packets, by comparing its lines with a recording."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tcplab.experiments.diagnosis.run import CodeVerdict
from tcplab.segments import SegmentArray

if TYPE_CHECKING:
    from scapy.packet import Packet

    from tcplab.capture import Sniffed

_NAME: Final = "lines"
#: Words that a line may contain besides time, address and size.
_UNITS: Final = {"ms", "bytes", "byte", "B"}
_CLOSE_MS: Final = 1.0


def check(
    line: Callable[[Packet, float], str], live: Sniffed, recorded: SegmentArray
) -> CodeVerdict:
    """Compare the lines of a learner's function with the recorder's data on the same packets.

    `line` is called with a packet and the first packet's time. It returns milliseconds, source
    address and bytes of data, such as "20.31 ms 10.0.0.2 5 bytes". If scapy missed packets, the
    verdict is None.
    """
    counts = {"scapy": len(live.packets), "recorder": len(recorded)}
    if live.drops or counts["scapy"] != counts["recorder"]:
        message = (
            f"scapy has {counts['scapy']} of the recorder's {counts['recorder']} packets, so its"
            " lines prove nothing; record them again."
        )
        return CodeVerdict(_NAME, None, message, counts)
    start, start_ns = live.packets[0].time, int(recorded["time_ns"][0])
    for number, (packet, row) in enumerate(zip(live.packets, recorded, strict=True), 1):
        after_ms = (int(row["time_ns"]) - start_ns) / 1e6
        text = str(line(packet, start))
        complaint = _complaint(text, after_ms, packet["IP"].src, int(row["payload_bytes"]))
        if complaint:
            return CodeVerdict(_NAME, False, f"Packet {number}, {text!r}: {complaint}.", counts)
    return CodeVerdict(_NAME, True, f"{len(recorded)} lines agree with the recorder.", counts)


def _complaint(text: str, after_ms: float, source: str, payload_bytes: int) -> str:
    words = [word for word in text.split() if word not in _UNITS]
    if len(words) != 3:
        return "a line has three words: milliseconds, source and bytes of data"
    try:
        time_ms = float(words[0].removesuffix("ms"))
    except ValueError:
        return f"{words[0]!r} is not a number of milliseconds"
    if abs(time_ms - after_ms) > _CLOSE_MS:
        return f"the recorder has it {after_ms:.2f} ms after the first packet"
    if words[1] != source:
        return f"it came from {source}"
    if words[2] != str(payload_bytes):
        return f"it carries {payload_bytes} bytes of TCP data"
    return ""
