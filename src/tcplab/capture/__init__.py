"""Record captures without loss, or with the loss counted.

:func:`record` (and ``host.capture()``) records with the course's recorder, capture.c. :func:`sniff`
(``host.sniff()``) passes packets to scapy live and counts those it missed. :func:`scapy_socket`
(``host.scapy_socket()``) sends packets built with scapy. :func:`open_capture` reads pcap and pcapng
files from any source.

All of them count missing packets. A :class:`Capture` provides its packets to scapy
(``.packets()``), numpy (``.segments``) and Wireshark.
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
