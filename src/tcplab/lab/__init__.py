"""Create two hosts and a link between them on one Linux machine, without root.

A :class:`Lab` creates Linux namespaces (user, network, mount, PID, IPC and UTS; see namespaces(7)),
in which an ordinary user has all rights. It has hosts connected by veth(4) pairs, and a link, which
is a C program that forwards each frame with the requested delay, rate and queue. :class:`Loopback`
offers the same interface on the machine's own loopback, and raises an error for anything that it
cannot do.

A value that is out of range raises ParameterError. LabError says what the machine or a program
refused, and what would allow it.
"""

from tcplab.lab.binaries import program_path as program_path
from tcplab.lab.host import Host as Host
from tcplab.lab.host import Network as Network
from tcplab.lab.host import Pair as Pair
from tcplab.lab.lab import PINNED_SYSCTLS as PINNED_SYSCTLS
from tcplab.lab.lab import Lab as Lab
from tcplab.lab.lab import congestion_controls as congestion_controls
from tcplab.lab.link import Link as Link
from tcplab.lab.loopback import Loopback as Loopback
from tcplab.lab.loopback import has_net_raw as has_net_raw
from tcplab.lab.namespaces import why_no_lab as why_no_lab
