"""Cork: one message that is written in pieces, and the ways to send it in as few segments.

TCP_CORK, MSG_MORE, writev(), TCP_NODELAY and none of them, as in "TCP_NODELAY and TCP_CORK" of Red
Hat Enterprise Linux for Real Time; and what a ChinaUnix author reports of sendfile() with a cork:

===================  ===========================================================================
``ways``             :func:`measure`: a message in pieces and its reply, in each way: segments,
                     calls and time
``scenarios``        short scripts of calls: cork with TCP_NODELAY, with Nagle, with an ACK; and
                     a cork that nobody pulls: how long the kernel waits, by round-trip time
``kernel``           what the kernel does by itself when its own queue is not empty; and a cork
                     that leaks: a packet buffer has only so many fragments
``header_and_file``  a header, then sendfile(): is the header alone in its segment?
``scripts``          what they share: calls are made by the C program writepattern, at the
                     microsecond, and tcplab.timeline says what each segment waited for
===================  ===========================================================================

Sources: tcp(7); net/ipv4/tcp_output.c of Linux 6.18 (tcp_nagle_check, tcp_write_xmit).
"""

from tcplab.experiments.cork.header_and_file import (
    HEADER_WAYS,
    HeaderAndFile,
    Headers,
    measure_header_and_file,
)
from tcplab.experiments.cork.kernel import (
    Autocorking,
    Autocorks,
    Leak,
    measure_autocorking,
    measure_two_sockets,
)
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
from tcplab.experiments.cork.ways import BOOK_MS_PER_MESSAGE, BOOK_PIECES, WAYS, Cork, Way, measure

__all__ = [
    "BOOK_MS_PER_MESSAGE",
    "BOOK_PIECES",
    "HEADER_WAYS",
    "MSS_BYTES",
    "SCENARIOS",
    "WAYS",
    "Autocorking",
    "Autocorks",
    "Cork",
    "Forgotten",
    "HeaderAndFile",
    "Headers",
    "Leak",
    "Played",
    "Scenario",
    "Scenarios",
    "Waited",
    "Way",
    "measure",
    "measure_autocorking",
    "measure_forgotten",
    "measure_header_and_file",
    "measure_scenarios",
    "measure_two_sockets",
]
