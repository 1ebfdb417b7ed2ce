import itertools
import subprocess

import pytest
from tests.support.nonempty import each

from tcplab.experiments import Result, pipes, table
from tcplab.models import chain_cost, goodput_mbyte_s

PUBLISHED = {
    "wire": 118,
    "dd-nc": 580,
    "cold": 115.72,
    "warm": 1074.87,
    "dd-nc-pv": 477,
    "wire-pv": 117.4,
}
OWN = ("dd-netcat", "dd-netcat-dd", "netcat-warm", "tcp-only", "splice", "no-copy")


# ---- the lesson ----------------------------------------------------------------------------------


def test_published_rows_and_their_arithmetic() -> None:
    rows = {row["variant"]: row for row in pipes.measure(runs=3).rows()}
    assert list(rows) == list(pipes.PIPELINES)
    assert {
        name: row["published_mb_per_s"] for name, row in rows.items() if row["published_mb_per_s"]
    } == PUBLISHED
    assert all((rows[name]["where"] != "one machine") == ("wire" in name) for name in PUBLISHED)


def test_copies_and_stages_are_the_models() -> None:
    copies = {}
    for name, pipeline in pipes.PIPELINES.items():
        assert len(pipeline.stages) == len(pipeline.commands)
        copies[name] = chain_cost(*pipeline.stages).copies
    assert [copies[name] for name in OWN] == [5, 7, 3, 2, 1, 0]
    assert (copies["dd-nc"], copies["warm"], copies["dd-nc-pv-copying"]) == (5, 3, 7)
    # dd bs=128 makes two calls per 128 bytes. As an additional process it adds two copies.
    assert pipes.PIPELINES["wire-slow"].receiving[-1][1] == "bs=128"
    assert copies["wire-slow"] == copies["wire"] + 2


def test_fewer_copies_are_less_work_and_over_the_wire_no_less_time() -> None:
    result = pipes.measure(runs=3)
    names = ("dd-netcat", "netcat-warm", "splice", "no-copy")
    work = [result[name].cpu_s_per_gb or 0 for name in names]
    assert work == sorted(work, reverse=True)
    assert work[0] > 3 * work[3] > 0
    rates = [result[name].median_mb_per_s or 0 for name in ("dd-netcat", "netcat-warm", "no-copy")]
    assert rates == sorted(rates)
    for chain in each(chain for chain in result.variants if chain.pipeline.wire):
        assert 0.95 < (chain.median_mb_per_s or 0) / goodput_mbyte_s(1000) <= 1.001


def test_our_netcat_reads_eight_times_as_much_per_call() -> None:
    result = pipes.measure(runs=3)
    nc, netcat = (result[name].bytes_per_read[0] for name in ("warm", "netcat-warm"))
    assert nc == pytest.approx(16_384, rel=0.05)
    assert netcat == pytest.approx(131_072, rel=0.05)
    # Calls to recv(2) and send(2) are not counted.
    assert result["tcp-only"].bytes_per_read == [None, None]


# ---- composed pipelines --------------------------------------------------------------------------


def test_every_composition_has_a_stage_per_command_and_a_copy_count() -> None:
    for parts in itertools.product(pipes.SOURCES, pipes.SENDERS, pipes.RECEIVERS):
        pipeline = pipes.compose(*parts)
        assert len(pipeline.stages) == len(pipeline.commands)
        assert 0 <= pipeline.cost.copies <= 7
        assert "{" not in pipeline.shown.replace("{host}", "").replace("{port}", "")
    zeros = pipes.compose("zeros", "nc", "pv-copying", block_bytes=512)
    assert zeros.shown == "dd bs=512 | nc → nc | pv -C"
    assert zeros.stages == pipes.PIPELINES["dd-nc-pv-copying"].stages


def test_zeros_are_as_many_as_asked_for_in_any_block() -> None:
    for block_bytes in (512, 50_000, 4_000_000):
        command = pipes.compose(block_bytes=block_bytes).sending[0]
        arguments = [word.replace("{size}", "3") for word in command]
        made = subprocess.run(arguments, stdout=subprocess.PIPE, check=True).stdout
        assert made == bytes(3_000_000)


def test_a_pipeline_that_was_not_measured_says_why_in_the_table() -> None:
    why = "nc is not installed: apt install netcat-openbsd"
    chain = pipes.Chain(pipes.PIPELINES["dd-nc"], 1, [], [], why)
    assert (chain.median_mb_per_s, chain.cpu_s_per_gb, chain.row()["runs"]) == (None, None, 0)
    assert why in table(Result([chain], pipes.measure(runs=3).provenance)).text()
