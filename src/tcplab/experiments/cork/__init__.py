"""Cork: one message in several writes, and the means to send it in few segments.

TCP_CORK, MSG_MORE, writev(), TCP_NODELAY and none of them, as in "TCP_NODELAY and TCP_CORK" of Red
Hat Enterprise Linux for Real Time; and what a ChinaUnix author reports of sendfile() with a cork.

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
from tcplab.experiments.cork.scripts import Played
from tcplab.experiments.sockets import MSS_BYTES

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
