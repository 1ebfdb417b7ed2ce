"""Recording of exchanges: a program and its peer run, both ends recorded, both logs read."""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from tcplab.lab import Lab, Network
from tcplab.programs import SocketOptions, TcpInfo, read_log
from tcplab.timeline import Exchange


class _Report(Protocol):
    """Report of a pair of programs, one of which sends over TCP."""

    @property
    def options(self) -> SocketOptions:
        """The sender's socket."""

    @property
    def tcp_info(self) -> TcpInfo:
        """The sender's connection at its end."""


N = TypeVar("N", bound=Network)
P = ParamSpec("P")
R = TypeVar("R", bound=_Report)


def record_exchange(
    network: N, program: Callable[Concatenate[N, P], R], *args: P.args, **kwargs: P.kwargs
) -> Exchange[R]:
    """Runs a pair of programs, records the interfaces of both hosts and reads the logs.

    On plain loopback nothing can be recorded: the exchange has no segments then.

    Args:
        network: where.
        program: one of tcplab.programs.
        *args: of the program.
        **kwargs: of the program; log=None or peer_log=None for no log.

    Raises:
        LabError: a program failed.
    """
    with tempfile.TemporaryDirectory(prefix="tcplab-") as folder:
        known = inspect.signature(program).parameters
        logs = {name: Path(folder) / name for name in ("log", "peer_log") if name in known}
        arguments: Any = {**logs, **kwargs}
        with _both_ends(network) as recorded:
            result = program(network, *args, **arguments)
        for name, path in logs.items():
            recorded[name] = read_log(path) if path.exists() else None
    return Exchange(result, options=result.options, tcp_info=result.tcp_info, **recorded)


def total_drops(exchanges: Iterable[Exchange[Any]]) -> int | None:
    """Packets that the recorders lost in all exchanges; None where nothing was recorded."""
    counted = [each.drops for each in exchanges if each.drops is not None]
    return sum(counted) if counted else None


@contextmanager
def _both_ends(network: Network) -> Iterator[dict[str, Any]]:
    """Segments and drops, under the names of an Exchange's fields; complete after the statement."""
    recorded: dict[str, Any] = {}
    if not isinstance(network, Lab):
        yield recorded
        return
    with network.client.capture() as near, network.server.capture() as far:
        yield recorded
    with near, far:
        recorded["segments"], recorded["peer_segments"] = near.segments, far.segments
        recorded["drops"] = (near.drops or 0) + (far.drops or 0)
