"""Carry out the plans of the sendfile experiments, round by round."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tcplab.experiments import provenance
from tcplab.experiments.files import file_of, removed_on_exit
from tcplab.experiments.progress import in_rounds
from tcplab.experiments.sendfile.transfers import Cost, Plan, SendFiles, Transfer
from tcplab.lab import Network
from tcplab.programs import HeaderOptions, ReceiverOptions, send_file


def send_all(
    name: str, plans: Sequence[Plan], runs: int, network: Network, *, beside: Sequence[Network] = ()
) -> SendFiles:
    """Send the file of every plan `runs` times, spread over `network` and those in `beside`."""
    with ExitStack() as stack:
        sizes = {plan.file_bytes for plan in plans}
        files = {size: stack.enter_context(file_of(size)) for size in sizes}
        places = [network, *beside]
        outputs = {place: stack.enter_context(_output(files)) for place in places}
        threads = stack.enter_context(ThreadPoolExecutor(len(places)))

        def run(plan: Plan, place: Network) -> Cost:
            output = outputs[place] if plan.into_file else None
            return _send(place, plan, files[plan.file_bytes], output)

        batches = [tuple(plans[n : n + len(places)]) for n in range(0, len(plans), len(places))]
        results, done = in_rounds(
            name, runs, batches, lambda batch: list(threads.map(run, batch, places))
        )
    transfers = [
        Transfer(plan, costs)
        for batch, rounds in results.items()
        for plan, *costs in zip(batch, *rounds, strict=True)
    ]
    return SendFiles(transfers, provenance(network, **done))


@contextmanager
def _output(files: Mapping[int, Path]) -> Iterator[Path]:
    handle, name = tempfile.mkstemp(prefix="tcplab-", dir=next(iter(files.values())).parent)
    os.close(handle)
    path = Path(name)
    with removed_on_exit(path):
        yield path


def _send(network: Network, plan: Plan, path: Path, output: Path | None) -> Cost:
    result = send_file(
        network,
        path,
        method=plan.method,
        block_bytes=plan.block_bytes,
        connections=plan.connections,
        header=HeaderOptions(leave_corked=plan.leave_corked),
        receiver=ReceiverOptions(output=output),
    )
    return Cost(
        wall_s=result.usage.wall_s,
        mb_per_s=result.mb_per_s,
        cpu_s_per_gb=result.cpu_s_per_gb,
        receiver_cpu_s_per_gb=result.receiver.usage.cpu_s / result.bytes * 1e9,
        system_calls=result.system_calls,
        zerocopy_sends=result.zerocopy_sends,
        zerocopy_copied=result.zerocopy_copied,
    )
