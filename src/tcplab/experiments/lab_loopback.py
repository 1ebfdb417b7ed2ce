"""Loopback inside a laboratory: one host talks to itself, undisturbed by the real machine.

Experiments in which both programs run on one machine (`dd | nc` to oneself) need no wire. On the
real 127.0.0.1 their ports could be taken, and foreign programs such as nc would use whatever
congestion control the machine's administrator likes. The loopback interface of a laboratory's
client is the same code of the kernel, with ports and settings of its own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tcplab.experiments.mode import open_network
from tcplab.lab import Host, Lab, Loopback


class LabLoopback(Loopback):
    """The loopback interface of a laboratory's client.

    Args:
        lab: which is not closed by closing this.
    """

    def __init__(self, lab: Lab) -> None:
        super().__init__()
        self.client = Host(lab, "client", "127.0.0.1", "lo")
        self.server = self.client
        self.mtu = 65536  # of every new lo
        self.congestion = lab.congestion


@contextlib.contextmanager
def open_loopback() -> Iterator[Loopback]:
    """A network of one machine: a laboratory's own loopback; plain loopback in loopback mode.

    Raises:
        LabError: no laboratory can be made, and loopback mode was not asked for.
    """
    with open_network() as network:
        if isinstance(network, Loopback):
            yield network
        else:
            with LabLoopback(network) as inside:
                yield inside
