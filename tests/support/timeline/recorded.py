"""The conversations of tests/data/conversations, as record.py stored them."""

from __future__ import annotations

import json
from typing import Any, Final

from tests.support.paths import DATA

from tcplab.programs import Event, SocketOptions
from tcplab.segments import from_file
from tcplab.timeline import Exchange

FOLDER: Final = DATA / "conversations"


def load(name: str) -> Exchange[None]:
    """Return a conversation with everything that was recorded, except the counters."""
    known: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return Exchange(
        None,
        log=[Event(*event) for event in known["log"]],
        segments=from_file(FOLDER / f"{name}.client.pcapng"),
        peer_log=[Event(*event) for event in known["peer_log"]],
        peer_segments=from_file(FOLDER / f"{name}.server.pcapng"),
        options=SocketOptions(**known["options"]),
        tcp_info=known["tcp_info"],
        samples=known.get("samples", ()),
    )


def counters(name: str) -> dict[str, int]:
    """Return the growth of the client's TcpExt counters during a conversation."""
    grown: dict[str, int] = json.loads((FOLDER / f"{name}.json").read_text())["counters"]
    return grown
