"""Instrument panels for notebooks: thin shells over the experiments, the models and the figures.

::

    from tcplab import widgets
    widgets.small_writes()

A panel measures nothing and draws nothing itself: each run is the same ``measure`` as in the
lesson, in a process of its own, so that the kernel stays free and Stop ends everything. All
controls are native HTML with labels; results appear in place, in an area of fixed size.
"""

from __future__ import annotations

from typing import Any

from tcplab.widgets.instrument import load
from tcplab.widgets.panel import Panel

__all__ = [
    "Panel",
    "buffers",
    "copies",
    "cork",
    "diagnosis",
    "mtu",
    "send_file",
    "small_writes",
    "stepper",
    "tcp_vs_udp",
    "wire",
]


def buffers(**values: Any) -> Panel:
    """Buffer size against throughput, with the model's knee (lesson 04)."""
    return Panel(load("buffers"), **values)


def copies(**values: Any) -> Panel:
    """A way through pipes, put together from its parts: copies and MB/s (lesson 01)."""
    return Panel(load("copies"), **values)


def cork(**values: Any) -> Panel:
    """A header and a body in pieces: cork, MSG_MORE, writev, TCP_NODELAY (lesson 06)."""
    return Panel(load("cork"), **values)


def diagnosis(**values: Any) -> Panel:
    """One of the three slow programs: its symptom, and the cause on request (lesson 08)."""
    return Panel(load("diagnosis"), **values)


def mtu(**values: Any) -> Panel:
    """MTU against goodput on a wire, and against CPU time within a machine (lesson 03)."""
    return Panel(load("mtu"), **values)


def send_file(**values: Any) -> Panel:
    """Ways of sending a file (lesson 07)."""
    return Panel(load("send-file"), **values)


def small_writes(**values: Any) -> Panel:
    """Small writes: mode, writes, size, RTT and the receiver's ACKs (lesson 05)."""
    return Panel(load("small-writes"), **values)


def stepper(**values: Any) -> Panel:
    """The sender's rules event by event, beside the kernel's own segments (lesson 05)."""
    return Panel(load("stepper"), **values)


def tcp_vs_udp(**values: Any) -> Panel:
    """The same blocks over TCP and over UDP (lesson 02)."""
    return Panel(load("tcp-vs-udp"), **values)


def wire(**values: Any) -> Panel:
    """A transfer that goes on while the wire's delay, rate, queue and loss are changed."""
    return Panel(load("wire"), **values)
