"""Carry out the plans of the sendfile experiments, round by round."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

from tcplab.experiments import provenance
from tcplab.experiments.files import file_of, removed_on_exit
from tcplab.experiments.progress import one_by_one
from tcplab.experiments.sendfile.transfers import Cost, Plan, Transfer
from tcplab.lab import Network
from tcplab.programs import ReceiverOptions, send_file


def send_all(
    name: str,
    plans: Sequence[Plan],
    runs: int,
    network: Network,
    *,
    beside: Sequence[Network] = (),
    record: bool = False,
) -> tuple[list[Transfer], dict[str, Any]]:
    """Send the file of every plan `runs` times; return the transfers and the provenance.

    Each network in `beside` runs plans at the same time as `network`. With `record`, the client's
    packets are captured.
    """
    with ExitStack() as stack:
        sizes = {plan.file_bytes for plan in plans}
        files = {size: stack.enter_context(file_of(size)) for size in sizes}
        places = [network, *beside]
        outputs = {place: stack.enter_context(_output(files)) for place in places}
        threads = stack.enter_context(ThreadPoolExecutor(len(places)))

        def run(plan: Plan, place: Network) -> Cost:
            path = files[plan.file_bytes]
            return _send(place, plan, path, outputs[place] if plan.into_file else None, record)

        batches = [plans[n : n + len(places)] for n in range(0, len(plans), len(places))]
        finished, done = one_by_one(
            name, batches * runs, lambda batch: list(threads.map(run, batch, places))
        )
    outcomes = list(chain.from_iterable(finished))
    transfers = [_transfer(plan, outcomes[n :: len(plans)]) for n, plan in enumerate(plans)]
    return transfers, provenance(network, **{**done, "runs": runs})


@contextmanager
def _output(files: Mapping[int, Path]) -> Iterator[Path]:
    handle, name = tempfile.mkstemp(prefix="tcplab-", dir=next(iter(files.values())).parent)
    os.close(handle)
    path = Path(name)
    with removed_on_exit(path):
        yield path


def _send(network: Network, plan: Plan, path: Path, output: Path | None, record: bool) -> Cost:
    with ExitStack() as stack:
        capture = stack.enter_context(network.client.capture()) if record else None
        result = send_file(
            network,
            path,
            method=plan.method,
            block_bytes=plan.block_bytes,
            connections=plan.connections,
            cache=plan.cache,
            header=plan.header,
            receiver=ReceiverOptions(output=output),
        )
    segments = []
    if capture is not None:
        with capture:
            data = capture.segments.data("client", retransmissions=False)
            segments = [int(size) for size in data["payload_bytes"]]
    used = result.usage
    return Cost(
        bytes=result.bytes,
        wall_s=used.wall_s,
        mb_per_s=result.mb_per_s,
        cpu_s_per_gb=result.cpu_s_per_gb,
        receiver_cpu_s_per_gb=result.receiver.usage.cpu_s / result.bytes * 1e9,
        system_calls=result.system_calls,
        switches=used.voluntary_switches + used.involuntary_switches,
        page_faults=used.minor_faults + used.major_faults,
        zerocopy_sends=result.zerocopy_sends,
        zerocopy_copied=result.zerocopy_copied,
        segments=segments,
    )


def _transfer(plan: Plan, costs: Sequence[Cost]) -> Transfer:
    return Transfer(plan, costs, "" if costs else "interrupted before its turn")
