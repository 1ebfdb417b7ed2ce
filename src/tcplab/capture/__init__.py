"""Captures that tell the truth: recorded without loss, or with the loss counted.

:func:`record` (and ``host.capture()``) records with the course's own recorder, capture.c.
:func:`sniff_live` hands packets to scapy as they pass, for teaching, and says how many it lost.
:func:`open_capture` reads pcap and pcapng files, ours and foreign ones.

All of them end in packets with a count of what is missing; a :class:`Capture` hands them to scapy
(``.packets``), to numpy (``.segments``) and to Wireshark.
"""

from tcplab.capture.capture import Capture, open_capture
from tcplab.capture.live import LiveSniff, sniff_live
from tcplab.capture.packets import Packets
from tcplab.capture.recording import Recording, record
from tcplab.capture.wire import record_wire
from tcplab.pcap import CaptureLossWarning, CaptureTruncatedWarning

__all__ = [
    "Capture",
    "CaptureLossWarning",
    "CaptureTruncatedWarning",
    "LiveSniff",
    "Packets",
    "Recording",
    "open_capture",
    "record",
    "record_wire",
    "sniff_live",
]
