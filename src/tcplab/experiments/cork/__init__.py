"""Cork: one message in several writes, and the means to send it in few segments.

TCP_CORK, MSG_MORE, writev(), TCP_NODELAY and none of them, as in "TCP_NODELAY and TCP_CORK" of Red
Hat Enterprise Linux for Real Time; and what a ChinaUnix author reports of sendfile() with a cork:

===================  ===========================================================================
``messages``         :func:`measure`: a message in several writes and its reply, by each means:
                     segments, calls and time
``scenarios``        short scripts of calls: cork with TCP_NODELAY, with Nagle, with an ACK; and
                     a cork that nobody pulls: how long the kernel waits, by round-trip time
``kernel``           autocorking, when the host's own queue is not empty; and a cork that leaks,
                     because a packet buffer has only so many fragments
``header_and_file``  a header, then sendfile(): is the header alone in its segment?
``scripts``          shared by all: calls are made by the C program writepattern, at the
                     microsecond, and tcplab.timeline says what each segment waited for
===================  ===========================================================================

Sources: tcp(7); net/ipv4/tcp_output.c of Linux 6.18 (tcp_nagle_check, tcp_write_xmit).
"""

from tcplab.experiments.cork.header_and_file import HEADER_MODES, measure_header_and_file
from tcplab.experiments.cork.kernel import Leak, measure_autocorking, measure_two_sockets
from tcplab.experiments.cork.messages import MODES, Cork, Message, measure
from tcplab.experiments.cork.scenarios import (
    SCENARIOS,
    Forgotten,
    Scenario,
    Scenarios,
    Waited,
    measure_forgotten,
    measure_scenarios,
)
from tcplab.experiments.cork.scripts import MSS_BYTES, Played

__all__ = [
    "HEADER_MODES",
    "MODES",
    "MSS_BYTES",
    "SCENARIOS",
    "Cork",
    "Forgotten",
    "Leak",
    "Message",
    "Played",
    "Scenario",
    "Scenarios",
    "Waited",
    "measure",
    "measure_autocorking",
    "measure_forgotten",
    "measure_header_and_file",
    "measure_scenarios",
    "measure_two_sockets",
]
