"""Carries out the plans of an experiment with sendfile, round by round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tcplab.errors import LabError
from tcplab.experiments import provenance
from tcplab.experiments.files import can_be_cold, file_of
from tcplab.experiments.progress import one_by_one
from tcplab.experiments.sendfile.plans import Plan
from tcplab.experiments.sendfile.transfers import Cost, Transfer
from tcplab.lab import Network
from tcplab.programs import SendFileResult, send_file


@dataclass(frozen=True, slots=True)
class _Run:
    """One run of a plan; `missing` says why it failed."""

    plan: Plan
    cost: Cost | None = None
    missing: str = ""
    segments: Sequence[int] = ()
    drops: int = 0


def send_all(
    name: str,
    plans: Sequence[Plan],
    runs: int,
    network: Network,
    *,
    limited: Mapping[str, Network | str] | None = None,
    record: bool = False,
) -> tuple[list[Transfer], dict[str, Any]]:
    """Sends the file of every plan, one after the other, and that several times.

    A plan that is not possible here stays in the result with the reason.

    Args:
        name: of the experiment.
        plans: in this order.
        runs: of each.
        network: where.
        limited: where plans with this `special` run instead; or why they cannot.
        record: the segments that leave the client.

    Returns:
        The transfers, and the provenance.
    """
    limits = limited or {}
    with ExitStack() as stack:
        sizes = {plan.file_bytes for plan in plans}
        files = {size: stack.enter_context(file_of(size)) for size in sizes}
        missing = {plan: _missing(plan, files[plan.file_bytes], limits) for plan in plans}
        turns = [plan for plan in plans if not missing[plan]] * runs

        def run(plan: Plan) -> _Run:
            path, where = files[plan.file_bytes], limits.get(plan.special, network)
            assert not isinstance(where, str)
            try:
                return _run(where, plan, path, record)
            except LabError as error:
                if plan.special not in limits:
                    raise
                # A limit is there to find out who fails under it.
                return _Run(plan, missing=_short(error, path))

        finished, done = one_by_one(name, turns, run) if turns else ([], {"interrupted": False})
    if record:
        done["capture_drops"] = sum(each.drops for each in finished)
    transfers = [_transfer(plan, finished, missing[plan]) for plan in plans]
    details = {**done, "runs": runs, "congestion": network.congestion}
    return transfers, provenance(network, **details)


def _missing(plan: Plan, path: Path, limits: Mapping[str, Network | str]) -> str:
    if plan.cache == "cold" and not can_be_cold(path):
        return "no disk: the file lies on a tmpfs, always in memory; set TMPDIR"
    limit = limits.get(plan.special, "")
    return limit if isinstance(limit, str) else ""


def _run(network: Network, plan: Plan, path: Path, record: bool) -> _Run:
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
    if capture is None:
        return _Run(plan, _cost(result))
    with capture:
        data = capture.segments.data("client", retransmissions=False)
        sizes = [int(size) for size in data["payload_bytes"]]
        return _Run(plan, _cost(result), segments=sizes, drops=capture.drops or 0)


def _short(error: LabError, path: Path) -> str:
    if "SIGKILL" in str(error):
        return "killed by the kernel: the control group had no memory left"
    return str(error).rpartition("): ")[2].replace(str(path), "the file")


def _transfer(plan: Plan, finished: Sequence[_Run], missing: str) -> Transfer:
    own = [each for each in finished if each.plan == plan]
    costs = [each.cost for each in own if each.cost]
    if not costs:
        missing = missing or (own[-1].missing if own else "interrupted before its turn")
    return Transfer(plan, costs, missing, own[-1].segments if own else ())


def _cost(result: SendFileResult) -> Cost:
    used = result.usage
    return Cost(
        wall_s=used.wall_s,
        cpu_s=used.cpu_s,
        receiver_cpu_s=result.receiver.usage.cpu_s,
        bytes=result.bytes,
        system_calls=result.system_calls,
        switches=used.voluntary_switches + used.involuntary_switches,
        page_faults=used.minor_faults + used.major_faults,
        zerocopy_sends=result.zerocopy_sends,
        zerocopy_copied=result.zerocopy_copied,
        cached_share=result.cached_share,
    )
