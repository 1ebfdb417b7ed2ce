"""Any program, explained: why a command that talks TCP takes as long as it does.

:func:`explain_command` runs a client and its server, unmodified, on the two hosts of a laboratory,
records the calls and the packets of both, and says what the client's time went to::

    found = explain_command(["curl", "-s", "http://server:8000/"], ["python3", "server.py"])
    print(found.report())

`tcplab explain -- COMMAND` is the same in a terminal (cli/explain.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext, suppress

from tcplab.errors import LabError
from tcplab.explain.answer import Explanation, explained
from tcplab.explain.comments import with_reasons
from tcplab.explain.recording import Recorded, record_in_lab
from tcplab.explain.verdict import Finding
from tcplab.lab import Lab

__all__ = ["Explanation", "Finding", "Recorded", "explain_command", "explained", "with_reasons"]


def explain_command(
    client: Sequence[str],
    server: Sequence[str] | None = None,
    *,
    lab: Lab | None = None,
    rtt_ms: float = 0.0,
    rate_mbit: float | None = None,
    loss: float = 0.0,
    timeout_s: float = 60.0,
) -> Explanation:
    """Runs a client, and the server that it talks to, on two hosts, and explains the time.

    Args:
        client: the command; "server" and "server6" are names that it can resolve, to an IPv4 and
            an IPv6 address, and in its words {server} and {port} become the server's address and
            port.
        server: the command that serves it; it has to listen on all addresses, or on {server}'s.
        lab: where; a laboratory of its own unless given. (A given one has IPv6 after add_ipv6().)
        rtt_ms: round-trip time of that laboratory.
        rate_mbit: its rate in 10^6 bit/s.
        loss: its probability of loss, 0 to 1.
        timeout_s: after this time the client is ended, and what there is by then is explained.

    Raises:
        LabError: no laboratory can be made here, or a command does not start.
    """
    own = Lab(rtt_ms=rtt_ms, rate_mbit=rate_mbit, loss=loss) if lab is None else nullcontext(lab)
    with own as network:
        if lab is None:
            with suppress(LabError):  # a kernel without IPv6
                network.add_ipv6()
        return explained(record_in_lab(network, client, server, timeout_s=timeout_s))
