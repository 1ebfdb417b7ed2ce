"""Makes captures/N.pcapng and captures/N.log anew, in a Lab: three causes, two captures of each.

python solutions/ps5/hidden/make_captures.py
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tcplab import Lab
from tcplab.lab import Host

HERE = Path(__file__).parent

CAUSES = {
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


def record(lab: Lab, name: str, quick: int, last: str) -> None:
    """One capture and the log of the client's calls."""
    server = lab.server.start(
        ["tcp_nodelay_server", "--writes", "1", "--size", "100", "--reply", "2", "9000", "100000"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,  # it complains that the client ends before 100 000 messages
    )
    _wait_for_listener(lab.server)
    with lab.client.capture() as capture:
        done = lab.client.run(
            ["writepattern", "--port", "9000", "server", schedule(quick, last)], check=False
        )
    server.kill()
    server.wait()
    capture.save(HERE.parent / "captures" / f"{name}.pcapng")
    calls = json.loads(done.stdout.splitlines()[-1])["calls"]
    lines = ["# CLOCK_REALTIME in ns, call, bytes (or the option's value)"]
    lines += [
        f"{call['start_ns']} {call['call']} {call.get('bytes', call.get('value', 0))}"
        for call in calls
    ]
    (HERE.parent / "captures" / f"{name}.log").write_text("\n".join(lines) + "\n")


def _wait_for_listener(host: Host) -> None:
    while ":2328 " not in host.read("/proc/net/tcp") + host.read("/proc/net/tcp6"):
        pass


def main() -> None:
    """All of them, and what caused them."""
    for name, (_, quick, last) in CAUSES.items():
        with Lab(rtt_ms=10) as lab:
            record(lab, name, quick, last)
    causes = {f"{name}.pcapng": cause for name, (cause, *_) in CAUSES.items()}
    (HERE / "captures.json").write_text(json.dumps(causes, indent=1) + "\n")


if __name__ == "__main__":
    main()
