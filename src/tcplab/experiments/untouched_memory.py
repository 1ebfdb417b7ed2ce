"""Compare sending an untouched block of memory with sending a block that was written to.

J. Snader (Effective TCP/IP Programming, listing 2.18) does not initialise the block that he sends,
because its content does not matter to TCP. It can matter to the CPU. Linux backs every untouched
page of a large block with the same page of zeros, which stays in the CPU's cache.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Annotated, Final

from tcplab.experiments import Between, Result, Variant, experiment, provenance, spread
from tcplab.experiments.lab_loopback import open_loopback
from tcplab.experiments.parameters import Runs
from tcplab.experiments.progress import in_rounds
from tcplab.lab import Network
from tcplab.programs import tcp_source, writepattern_peer

_WRITES_BYTES: Final = (1440, 1 << 23)
_TOTAL_MB: Final = 400  # data of a run


class Block(Variant, key=("write_bytes", "untouched"), heading="block (bytes)"):
    """A block of one size that is sent repeatedly, either untouched or written to before."""

    write_bytes: int
    untouched: bool
    cpu_s_per_gb: Sequence[float] = spread("min", "sender's CPU s/GB", "max", ".3f")

    @property
    def label(self) -> str:
        return f"{self.write_bytes:,}, {'untouched' if self.untouched else 'written'}"


class UntouchedMemory(Result[Block]):
    """Results for blocks of each size. The key is (write_bytes, untouched)."""

    def ratio(self, write_bytes: int) -> float:
        """Return the CPU time for a written block divided by that for an untouched one."""
        written, untouched = (self[write_bytes, kind].cpu_s_per_gb for kind in (False, True))
        return statistics.median(written) / statistics.median(untouched)


@experiment(
    "untouched-memory",
    on_loopback=True,
    figure=("cpu_s_per_gb",),
    finding="Per GB, blocks of {cpu_s_per_gb.most} take {cpu_s_per_gb.ratio} times "
    "the CPU time of {cpu_s_per_gb.least}",
)
def measure(
    writes_bytes: Annotated[
        Sequence[int], Between(1, 1 << 26, "bytes"), "sizes of the block"
    ] = _WRITES_BYTES,
    runs: Runs = 5,
) -> UntouchedMemory:
    """Compare the CPU time of sending untouched memory with that of sending written memory."""
    cases = [(size, untouched) for size in writes_bytes for untouched in (False, True)]
    with open_loopback() as network:
        results, done = in_rounds(
            "untouched-memory", runs, cases, lambda case: _cpu_s_per_gb(network, *case)
        )
        blocks = [Block(*case, cpu) for case, cpu in results.items()]
        return UntouchedMemory(blocks, provenance(network, total_mb=_TOTAL_MB, **done))


def _cpu_s_per_gb(network: Network, write_bytes: int, untouched: bool) -> float:
    count = _TOTAL_MB * 1_000_000 // write_bytes
    with writepattern_peer(network) as port:
        source = tcp_source(
            network,
            port,
            write_bytes=write_bytes,
            count=count,
            sndbuf_bytes=None,
            untouched=untouched,
        )
    return source.usage.cpu_s / source.bytes * 1e9
