"""Run the course's C programs, and return dataclasses with the results.

Most functions start a listening program on the network's server, wait for the line that announces
its port, run another program on the client, and read the JSON object that each of the two prints.
The top of each source in ``src/programs/`` explains what the program measures, and why.

These arguments are common to several functions:

network
    A Lab, a Loopback or a Pair. One program runs on its client, and the other on its server.
run
    CPU, congestion control and deadline. Programs that exchange small messages run on one
    CPU by default.
log, peer_log
    Files for the events of the client and of the server (see :func:`read_log`).
quickack
    When the server acknowledges: "on" leaves it to the kernel, "off" waits as long as possible,
    "always" acknowledges at once.

Every function raises :class:`~tcplab.errors.LabError` if a program fails. The message includes the
last line that the program wrote to standard error.
"""

from tcplab.programs.bulk import SinkOptions as SinkOptions
from tcplab.programs.bulk import TcpBulkResult as TcpBulkResult
from tcplab.programs.bulk import UdpBulkResult as UdpBulkResult
from tcplab.programs.bulk import tcp_bulk as tcp_bulk
from tcplab.programs.bulk import tcp_source as tcp_source
from tcplab.programs.bulk import tcp_transfer as tcp_transfer
from tcplab.programs.bulk import udp_bulk as udp_bulk
from tcplab.programs.calls import CallLog as CallLog
from tcplab.programs.calls import SocketCalls as SocketCalls
from tcplab.programs.file import HeaderOptions as HeaderOptions
from tcplab.programs.file import page_cache as page_cache
from tcplab.programs.file import send_file as send_file
from tcplab.programs.logs import Event as Event
from tcplab.programs.logs import read_log as read_log
from tcplab.programs.messages import small_writes as small_writes
from tcplab.programs.pair import RunOptions as RunOptions
from tcplab.programs.pair import run_pair as run_pair
from tcplab.programs.patterns import writepattern_peer as writepattern_peer
from tcplab.programs.reports import SocketOptions as SocketOptions
