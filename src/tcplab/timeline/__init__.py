"""Explain why each segment left when it did, from write() to the wire.

:func:`explain` puts the programs' logs of an :class:`Exchange`, the capture made next to the sender
(and the one next to the receiver, if there is one), and the kernel's view of the connection on a
single clock::

    exchange = record_exchange(lab, programs.small_writes, "default", messages=3)
    print("\\n".join(exchange.timeline().sentences()))

(`record_exchange` is in tcplab.experiments.exchange.) Every reason (`tcplab.models.Reason`) comes
with its evidence, or with the evidence that is missing. evidence.py collects the facts, replay.py
reconstructs the sender's state, rules.py decides what held a segment, and timeline.py words it.

Sources: net/ipv4/tcp_output.c of Linux 6.18 (tcp_write_xmit, tcp_nagle_check, tcp_write_wakeup),
RFC 896, RFC 9293 (3.7.4, 3.8.6), RFC 6928, RFC 8985 (7), tcp(7).
"""

from tcplab.models import Reason
from tcplab.programs import Event
from tcplab.timeline.exchange import Exchange, explain
from tcplab.timeline.parts import Ack, Hold, Mark, Segment, Write
from tcplab.timeline.timeline import Timeline

__all__ = [
    "Ack",
    "Event",
    "Exchange",
    "Hold",
    "Mark",
    "Reason",
    "Segment",
    "Timeline",
    "Write",
    "explain",
]
__dir__ = __all__.copy
