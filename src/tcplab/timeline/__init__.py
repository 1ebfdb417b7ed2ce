"""From write() to wire: why each segment left when it did, and what it waited for.

:func:`explain` joins what the programs of an :class:`Exchange` logged, what was captured beside the
sender (and, if there is one, beside the receiver), and what the kernel said of the connection, on
one clock::

    exchange = record_exchange(lab, programs.small_writes, "default", messages=3)
    print("\\n".join(exchange.timeline().sentences()))

(`record_exchange` is in tcplab.experiments.exchange.) Every reason comes with its evidence. Where
the evidence is missing the reason is ``unknown``, and the field ``missing`` names it.
`tcplab.models.Reason` names the reasons. The way of a reason through the files: evidence.py (what
is known) → replay.py (the sender's state at each moment) → rules.py (what held a segment then) →
timeline.py (the words).

Sources: net/ipv4/tcp_output.c of Linux 6.18 (tcp_write_xmit, tcp_nagle_check, tcp_write_wakeup),
RFC 896, RFC 9293 (3.7.4, 3.8.6), RFC 6928, RFC 8985 (7), tcp(7).
"""

from __future__ import annotations

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
