"""Create two hosts and a link between them on one Linux machine, without root.

A :class:`Lab` creates Linux namespaces (user, network, mount, PID, IPC and UTS; see namespaces(7)),
in which an ordinary user has all rights. It has hosts connected by veth(4) pairs, and a link, which
is a C program that forwards each frame with the requested delay, rate and queue. :class:`Loopback`
offers the same interface on the machine's own loopback, and raises an error for anything that it
cannot do.

A value that is out of range raises ParameterError. LabError says what the machine or a program
refused, and what would allow it.
"""

from tcplab.lab.binaries import program_path
from tcplab.lab.host import Host, Network, Pair
from tcplab.lab.lab import PINNED_SYSCTLS, Lab, congestion_controls
from tcplab.lab.link import Link
from tcplab.lab.loopback import Loopback, has_net_raw
from tcplab.lab.namespaces import why_no_lab

__all__ = [
    "PINNED_SYSCTLS",
    "Host",
    "Lab",
    "Link",
    "Loopback",
    "Network",
    "Pair",
    "congestion_controls",
    "has_net_raw",
    "program_path",
    "why_no_lab",
]
