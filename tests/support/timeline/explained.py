"""Call explain() with evidence that a test made up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tcplab.programs import Event, SocketOptions
from tcplab.segments import SegmentArray
from tcplab.timeline import Exchange, Timeline, explain


def explain_evidence(
    log: Sequence[Event] | None,
    segments: SegmentArray,
    options: SocketOptions | None = None,
    *,
    connection: int | None = None,
    sender: str | None = None,
    **evidence: Any,
) -> Timeline:
    """Return the timeline of an exchange without a result; keywords add further evidence."""
    exchange = Exchange(None, log, segments, options=options, **evidence)
    return explain(exchange, connection=connection, sender=sender)
