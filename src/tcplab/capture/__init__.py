"""Record captures without loss, or with a count of the packets lost.

:func:`record`, :func:`sniff` and :func:`open_capture` count missing packets and warn of them. A
:class:`Capture` provides its packets to scapy, numpy and Wireshark. :func:`scapy_socket` sends
packets built with scapy.

CaptureError says which file, interface or filter cannot be used, or why a recorder failed. LabError
says that a host is gone, or that recording or raw sockets are not allowed there.
"""

from tcplab.capture.capture import Capture, open_capture
from tcplab.capture.recording import record
from tcplab.capture.sending import scapy_socket
from tcplab.capture.sniffing import Sniffed, sniff
from tcplab.capture.wire import QUEUE_EVENTS, queue_events, record_wire

__all__ = [
    "QUEUE_EVENTS",
    "Capture",
    "Sniffed",
    "open_capture",
    "queue_events",
    "record",
    "record_wire",
    "scapy_socket",
    "sniff",
]
