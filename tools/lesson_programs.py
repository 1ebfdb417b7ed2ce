"""Export the table of the lessons' programs as data, for the Linux in the book's pages (web/)."""

from random import Random
from typing import Any, cast

from tcplab.course.short_c.cases import CASES, Case
from tcplab.course.short_c.sources import original
from tcplab.lab.lab import DEFAULT_QUEUE_PACKETS
from tcplab.lab.link import Link


class _Noted(Link):
    """A link that only notes the commands for the program that emulates links."""

    def __init__(self) -> None:
        super().__init__(cast("Any", None))
        self.noted: list[str] = []

    def command(self, words: str) -> dict[str, Any]:
        self.noted.append(f"{words};")
        return {}


def exported() -> dict[str, dict[str, Any]]:
    """Return for each lesson its program, peer, arguments and link, as web/guest.mjs uses them."""
    return {slug: _exported(slug, case) for slug, case in CASES.items()}


def _exported(slug: str, case: Case) -> dict[str, Any]:
    settings = dict(case.link)
    offload, congestion = settings.pop("offload", False), settings.pop("congestion", "cubic")
    rtts_ms = settings.pop("clients", [])
    link = _Noted()
    # The guest has too little memory for the rings of a link with offloads.
    if not offload and (settings or case.narrow or case.script):
        defaults = {"rtt_ms": 0, "rate_mbit": 0, "queue_packets": DEFAULT_QUEUE_PACKETS}
        link.update(**defaults | settings)
        for name, rtt_ms in zip(("client", "client2"), rtts_ms, strict=False):
            link.command(f"access {name} {round(rtt_ms / 2 * 1e6)}")
        link.update("client->server", **case.narrow)
        if case.script:
            link.script("client->server", case.script)
    arguments, file_bytes = case.drawn(Random(1))[0]  # those of one run, the same in each build
    return {
        "source": original(slug).read_text(),
        "peer": case.peer.split("|")[0].format(*arguments) or "udpsink -p 0",
        "arguments": " ".join([*arguments, *(["FILE"] if file_bytes and not case.stdin else [])]),
        "listens": "server" if case.listens else "",
        "wire": "".join(link.noted),
        "offload": "on" if offload else "off",
        "congestion": congestion,
        "rival": case.rival,
        "file": str(file_bytes or ""),
        "stdin": "FILE" if case.stdin else "",
    }
