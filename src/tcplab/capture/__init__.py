"""Captures that tell the truth: recorded without loss, or with the loss counted.

:func:`record` (and ``host.capture()``) records with the course's own recorder, capture.c.
:func:`sniff` (``host.sniff()``) hands packets to scapy as they pass, and says how many it lost.
:func:`scapy_socket` (``host.scapy_socket()``) sends packets of one's own with scapy.
:func:`open_capture` reads pcap and pcapng files, ours and foreign ones.

All of them end in packets with a count of what is missing; a :class:`Capture` hands them to scapy
(``.packets()``), to numpy (``.segments``) and to Wireshark.
"""

from tcplab.capture.capture import Capture, open_capture
from tcplab.capture.recording import Recording, record
from tcplab.capture.sending import scapy_socket
from tcplab.capture.sniffing import Sniffed, sniff
from tcplab.capture.wire import QUEUE_EVENTS, queue_events, record_wire
from tcplab.segments.pcap import CaptureLossWarning, CaptureTruncatedWarning

__all__ = [
    "QUEUE_EVENTS",
    "Capture",
    "CaptureLossWarning",
    "CaptureTruncatedWarning",
    "Recording",
    "Sniffed",
    "open_capture",
    "queue_events",
    "record",
    "record_wire",
    "scapy_socket",
    "sniff",
]
