"""Create two hosts and a link between them on one Linux machine, without root.

A :class:`Lab` creates Linux namespaces (user, network, mount, PID, IPC and UTS; see namespaces(7)),
in which an ordinary user has all rights. It has hosts connected by veth(4) pairs, and a link, which
is a C program that forwards each frame with the requested delay, rate and queue. :class:`Loopback`
offers the same interface on the machine's own loopback, and raises an error for anything that it
cannot do.

A value that is out of range raises ParameterError. LabError says what the machine or a program
refused, and what would allow it.
"""

# ruff: noqa: F403

from __future__ import annotations

from tcplab.lab.binaries import *
from tcplab.lab.host import *
from tcplab.lab.lab import *
from tcplab.lab.link import *
from tcplab.lab.loopback import *
from tcplab.lab.namespaces import *
