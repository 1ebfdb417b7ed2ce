"""Carries out the plans of an experiment with sendfile, round by round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from tcplab.errors import LabError
from tcplab.experiments import provenance
from tcplab.experiments.files import NO_DISK, can_be_cold, file_of
from tcplab.experiments.progress import one_by_one
from tcplab.experiments.sendfile.transfers import Cost, Plan, Transfer
from tcplab.lab import Network
from tcplab.programs import send_file

_NO_LIMITS: Final[Mapping[str, Network | str]] = MappingProxyType({})


def send_all(
    name: str,
    plans: Sequence[Plan],
    runs: int,
    network: Network,
    *,
    limits: Mapping[str, Network | str] = _NO_LIMITS,
    record: bool = False,
) -> tuple[list[Transfer], dict[str, Any]]:
    """Sends the file of every plan, one after the other, and that several times.

    A plan that is not possible here stays in the result with the reason.

    Args:
        name: of the experiment.
        plans: in this order.
        runs: of each.
        network: where.
        limits: where plans with this `special` run instead; or why they cannot.
        record: the segments that leave the client.

    Returns:
        The transfers, and the provenance.
    """
    with ExitStack() as stack:
        sizes = {plan.file_bytes for plan in plans}
        files = {size: stack.enter_context(file_of(size)) for size in sizes}

        def run(plan: Plan) -> Cost | str:
            """The cost, or why there is none."""
            path, where = files[plan.file_bytes], limits.get(plan.special, network)
            if plan.cache == "cold" and not can_be_cold(path):
                return NO_DISK
            if isinstance(where, str):
                return where
            try:
                return _send(where, plan, path, record)
            except LabError as error:
                if where is network:
                    raise
                # A limit is there to find out who fails under it.
                return _short(error, path)

        outcomes, done = one_by_one(name, [*plans] * runs, run)
    transfers = [_transfer(plan, outcomes[n :: len(plans)]) for n, plan in enumerate(plans)]
    return transfers, provenance(network, **{**done, "runs": runs})


def _send(network: Network, plan: Plan, path: Path, record: bool) -> Cost:
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


def _short(error: LabError, path: Path) -> str:
    if "SIGKILL" in str(error):
        return "killed by the kernel: the control group had no memory left"
    return str(error).rpartition("): ")[2].replace(str(path), "the file")


def _transfer(plan: Plan, outcomes: Sequence[Cost | str]) -> Transfer:
    costs = [each for each in outcomes if isinstance(each, Cost)]
    reasons = ["interrupted before its turn", *(each for each in outcomes if isinstance(each, str))]
    return Transfer(plan, costs, "" if costs else reasons[-1])
