"""Facts of lesson 01, from the results of its own experiments."""

from __future__ import annotations

import pytest

from tcplab.experiments import pipes
from tcplab.models import goodput_mbyte_s


@pytest.fixture(scope="module")
def result() -> pipes.Pipes:
    return pipes.measure(["dd-netcat", "netcat-warm", "splice", "no-copy"], runs=3, size_mb=128)


def test_goodput_of_the_wire_and_the_two_megabytes() -> None:
    assert goodput_mbyte_s(1000) == pytest.approx(125 * 1448 / 1538) == pytest.approx(117.68, 1e-4)
    assert round(112 * 2**20 / 10**6, 1) == 117.4
    assert round(455 * 2**20 / 10**6) == 477


def test_copies_per_byte() -> None:
    cost = {key: pipeline.cost for key, pipeline in pipes.PIPELINES.items()}
    assert (cost["dd-nc"].copies, cost["warm"].copies) == (5, 3)
    assert cost["dd-nc"].processes - cost["warm"].processes == 1
    assert (cost["tcp-only"].copies, cost["splice"].copies, cost["no-copy"].copies) == (2, 1, 0)
    # The text's own ratios: by time, by our count, by its count.
    assert pipes.PIPELINES["warm"].published_mb_per_s == pytest.approx(580 * 1.85, rel=0.01)


def test_without_copies_the_cpu_works_less(result: pipes.Pipes) -> None:
    # Medians of CPU time, which a busy neighbour hardly moves: 4 to 5 times on a quiet machine.
    five, none = result["dd-netcat"].cpu_s_per_gb, result["no-copy"].cpu_s_per_gb
    assert five
    assert none
    assert five > 1.3 * none


def test_nearly_all_cpu_time_is_in_the_kernel(result: pipes.Pipes) -> None:
    processes = [each for run in result["dd-netcat"].runs for each in run.processes]
    assert sum(each.system_s for each in processes) > sum(each.user_s for each in processes)


def test_our_netcat_reads_eight_times_as_much_at_once() -> None:
    both = pipes.measure(["warm", "netcat-warm"], runs=1, size_mb=64)
    if both["warm"].missing:
        pytest.skip(both["warm"].missing)
    nc, netcat = (both[key].bytes_per_read[0] for key in ("warm", "netcat-warm"))
    if nc is None or netcat is None:
        pytest.skip("this kernel does not count reads (CONFIG_TASK_IO_ACCOUNTING)")
    assert netcat / nc > 4


def test_little_data_measures_program_start() -> None:
    little = pipes.measure(["netcat-warm"], runs=3, size_mb=1)["netcat-warm"].median_mb_per_s
    much = pipes.measure(["netcat-warm"], runs=3, size_mb=256)["netcat-warm"].median_mb_per_s
    assert little
    assert much
    assert much > 1.5 * little  # 20 times on a quiet machine


def test_a_slow_peer_has_more_work() -> None:
    # dd bs=128 makes two calls for 128 bytes: the model's eight times as many as for 1024.
    slow, usual = pipes.PIPELINES["wire-slow"], pipes.PIPELINES["wire"]
    assert slow.receiving[-1][1] == "bs=128"
    assert slow.cost.copies == usual.cost.copies + 2
