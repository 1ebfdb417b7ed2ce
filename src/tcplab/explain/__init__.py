"""Explain why a command that uses TCP takes as long as it does.

:func:`explain_command` runs an unmodified client and its server on the two hosts of a laboratory,
records the calls and packets of both, and reports where the client's time went::

    explanation = explain_command(["curl", "-s", "http://server:8000/"], ["python3", "server.py"])
    print(explanation.report())

In a terminal, `tcplab explain -- COMMAND` does the same (cli/explain.py).
"""

from collections.abc import Sequence
from contextlib import nullcontext, suppress

from tcplab.errors import LabError
from tcplab.explain.answer import Explanation, explained
from tcplab.explain.comments import with_reasons
from tcplab.explain.recording import CommandExchange, record_in_lab
from tcplab.explain.verdict import Finding
from tcplab.lab import Lab

__all__ = [
    "CommandExchange",
    "Explanation",
    "Finding",
    "explain_command",
    "explained",
    "with_reasons",
]
__dir__ = __all__.copy


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
    """Run a client and its server on two hosts, and explain where the time goes.

    The client can resolve the names "server" (IPv4) and "server6" (IPv6), and {server} and {port}
    in its arguments become the server's address and port. The server must listen on all addresses.
    Without a laboratory of your own, a new one has the given RTT, rate (10^6 bit/s) and loss (0 to
    1). A client that still runs after timeout_s is ended.
    """
    lab_context = (
        Lab(rtt_ms=rtt_ms, rate_mbit=rate_mbit, loss=loss) if lab is None else nullcontext(lab)
    )
    with lab_context as network:
        if lab is None:
            with suppress(LabError):  # the kernel may lack IPv6
                network.add_ipv6()
        return explained(record_in_lab(network, client, server, timeout_s=timeout_s))
