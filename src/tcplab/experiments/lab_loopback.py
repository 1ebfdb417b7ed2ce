"""Provide loopback inside a laboratory, where one host connects to itself.

On the real 127.0.0.1, ports could be taken, and programs such as nc would use the machine's default
congestion control. The loopback interface of a laboratory's client is the same kernel code with
separate ports and settings.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tcplab.experiments.mode import open_network
from tcplab.lab import Host, Lab, Loopback


class LabLoopback(Loopback):
    """The loopback interface of a laboratory's client. Closing it does not close the laboratory."""

    def __init__(self, lab: Lab) -> None:
        super().__init__()
        self.client = Host(lab, "client", "127.0.0.1", "lo")
        self.server = self.client
        self.mtu = 65536  # the kernel's default
        self.congestion = lab.congestion


@contextlib.contextmanager
def open_loopback() -> Iterator[Loopback]:
    """Open the loopback interface of a new laboratory, or plain loopback in loopback mode."""
    with open_network() as network:
        if isinstance(network, Loopback):
            yield network
        else:
            with LabLoopback(network) as loopback:
                yield loopback
