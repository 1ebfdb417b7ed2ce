"""Cells for the curious, which no experiment measures, show what the text around says."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.lessons import BY_SLUG, cells, imports
from tests.support.needs import need_token_bucket

from tcplab import Lab
from tcplab.experiments.interface_settings import put_token_bucket, with_route_socket
from tcplab.experiments.sockets import connection, read_all, sending

pytestmark = pytest.mark.needs_lab


def returned(lesson: str, function: str, **parameters: Any) -> Any:
    """Run the cells that define a lesson's functions, and call one of them with a new Lab."""
    namespace = imports(BY_SLUG[lesson])
    for source in cells(BY_SLUG[lesson], "code"):
        for definition in re.findall(r"^def .*?(?=^\S|\Z)", source, re.DOTALL | re.MULTILINE):
            exec(definition, namespace)
    with Lab(**parameters) as lab:
        return namespace[function](lab)


#: a lesson, the function of a cell, the arguments of its Lab, and what its result must be
FACTS: list[tuple[str, str, dict[str, float], Callable[[Any], bool]]] = [
    ("loss", "overtaken", {"rtt_ms": 40, "rate_mbit": 50}, lambda again: 1 <= again <= 4),
    ("loss", "unanswered", {"rtt_ms": 40}, lambda took_s: 1 <= took_s < 5),
    ("loss", "idle", {"rtt_ms": 40}, lambda took_s: 2 <= took_s < 6),
    ("segments", "over_ipv6", {}, lambda mss: mss == 1500 - 40 - 20 - 12),
]


@pytest.mark.parametrize(("lesson", "function", "parameters", "holds"), FACTS)
def test_cell_shows_the_fact(
    lesson: str, function: str, parameters: dict[str, float], holds: Callable[[Any], bool]
) -> None:
    result = returned(lesson, function, **parameters)
    assert holds(result), result


def test_lost_syn_costs_a_second_each_and_a_full_queue_costs_one() -> None:
    none, one, two, full = returned("diagnosis", "slow_connects", rtt_ms=20).values()
    assert none < 1 <= min(one, full)
    assert one + 1 <= two + 0.1


def test_a_connection_for_each_question_takes_five_times_the_packets() -> None:
    packets, sockets = returned("slow-start", "two_ways", rtt_ms=20)
    assert packets[10] >= 9 * 10
    assert packets[1] <= 9 + 2 * 10
    assert int(re.findall(r"tw (\d+)", sockets)[0]) == 10 + 1


def test_copy_keeps_the_queue_of_the_senders_interface_short() -> None:
    def queued(kernel: Any) -> list[int]:
        statistics = [queue.get_attr("TCA_STATS2") for queue in kernel.get_qdiscs()]
        return [int(one.get_attr("TCA_STATS_QUEUE")["qlen"]) for one in statistics if one]

    with Lab(rtt_ms=20) as lab, need_token_bucket():
        put_token_bucket(lab.client, rate="10mbit", burst=3000, latency="2s")
        with connection(lab) as (sender, receiver), sending(sender, 2_000_000):
            read_all(receiver, 500_000)
            packets = max(with_route_socket(lab.client, queued))
            read_all(receiver)
    assert 1 <= packets <= 20  # of some hundred that wait in the socket
