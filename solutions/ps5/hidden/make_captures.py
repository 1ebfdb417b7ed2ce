"""Makes captures/N.pcapng and captures/N.log anew, in a Lab: three causes, two captures of each.

python solutions/ps5/hidden/make_captures.py [NAME...]
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tcplab import Lab
from tcplab.grading.captures import CallLog, make_captures
from tcplab.programs import Event

SERVER = [
    *["tcp_nodelay_server", "--json", "--writes", "1", "--write-bytes", "100", "--reply", "2"],
    *["9000", "100000"],
]
#: The cause, how many quick exchanges come first, and the calls of the last one.
SCENES = {
    # A pause of the last exchange only, so that one has to look for it.
    "1": ("held-by-nagle", 5, "0:write=4 0:write=96 0:read=2"),
    "2": ("corked", 4, "0:cork=1 0:write=60 0:write=40 0:read=2"),
    "3": ("application-idle", 6, "0:write=100 0:read=2 190000:write=100"),
    "4": ("held-by-nagle", 7, "0:write=20 0:write=30 0:write=50 0:read=2"),
    "5": ("corked", 3, "0:cork=1 0:write=90 0:write=10 0:read=2"),
    "6": ("application-idle", 8, "0:write=100 0:read=2 240000:write=100"),
}


def schedule(quick: int, last: str) -> str:
    """Some quick exchanges of 100 bytes each, then the one that is to be found."""
    return " ".join(["0:nodelay=1", *["0:write=100 0:read=2"] * quick, "0:nodelay=0", last])


def record(path: Path, scene: tuple[str, int, str]) -> None:
    """One capture and the log of the client's calls."""
    _, quick, last = scene
    with Lab(rtt_ms=10) as lab:
        server = lab.server.start(
            SERVER,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # it complains that the client ends before 100 000 messages
        )
        with server:
            assert server.stdout is not None
            server.stdout.readline()  # it listens
            with lab.client.capture() as capture:
                done = lab.client.run(
                    ["writepattern", "--port", "9000", "server", schedule(quick, last)], check=False
                )
            server.kill()
        capture.save(path)
    log = CallLog()
    for call in json.loads(done.stdout.splitlines()[-1])["calls"]:
        value = call.get("bytes", call.get("value", 0))
        log.calls.append(Event(call["start_ns"], call["call"], value))
    log.save(path.with_suffix(".log"))


if __name__ == "__main__":
    make_captures(__file__, SCENES, record, {name: reason for name, (reason, *_) in SCENES.items()})
