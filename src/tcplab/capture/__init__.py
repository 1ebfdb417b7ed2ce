"""Record captures without loss, or with a count of the packets lost.

:func:`record`, :func:`sniff` and :func:`open_capture` count missing packets and warn of them. A
:class:`Capture` provides its packets to scapy, numpy and Wireshark. :func:`scapy_socket` sends
packets built with scapy.

CaptureError says which file, interface or filter cannot be used, or why a recorder failed. LabError
says that a host is gone, or that recording or raw sockets are not allowed there.
"""

from tcplab.capture.capture import Capture as Capture
from tcplab.capture.capture import open_capture as open_capture
from tcplab.capture.recording import record as record
from tcplab.capture.sending import scapy_socket as scapy_socket
from tcplab.capture.sniffing import Sniffed as Sniffed
from tcplab.capture.sniffing import sniff as sniff
from tcplab.capture.wire import QUEUE_EVENTS as QUEUE_EVENTS
from tcplab.capture.wire import queue_events as queue_events
from tcplab.capture.wire import record_wire as record_wire
