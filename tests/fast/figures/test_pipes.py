"""Test the figures of the rates and the CPU shares of pipes, on made-up results."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.support.figures.readable import assert_readable

from tcplab import figures
from tcplab.experiments.pipes import PIPELINES, Chain, Pipes
from tcplab.programs import ChainProcess, ChainResult


def run(key: str, mb_per_s: float, share: float) -> ChainResult:
    wall_s = 100 / mb_per_s
    used = [
        ChainProcess(name.lower(), 0.1 * share * wall_s, 0.9 * share * wall_s, 16_384)
        for name in PIPELINES[key].commands
    ]
    cpu_s = sum(process.cpu_s for process in used)
    return ChainResult(100_000_000, wall_s, cpu_s, mb_per_s, used)


def pipes(rates: dict[str, Sequence[float]], missing: Sequence[str] = ()) -> Pipes:
    chains = [
        Chain(PIPELINES[key], 100, [run(key, rate, 0.4) for rate in several], [])
        for key, several in rates.items()
    ]
    chains += [Chain(PIPELINES[key], 100, [], [], "missing: nc") for key in missing]
    return Pipes(chains, {"cores": 2})


MADE = pipes(
    {
        "wire": [116, 117, 115],
        "dd-nc": [1400, 1300, 1500],
        "warm": [2200, 2100, 2400],
        "dd-nc-pv": [1100, 1200, 900],
        "no-copy": [9000, 8000, 10_000],
    },
    missing=["cold"],
)


def test_rates_name_the_fastest_pipeline_and_what_is_missing() -> None:
    picture = figures.pipe_rates(MADE)
    assert picture.title.endswith("is the fastest, with 0 copies")
    assert "missing: nc" in picture.table.text()
    [legend] = picture.figure.legends
    labels = [text.get_text() for text in legend.get_texts()]
    assert set(labels) == {"wire of 1 Gbit/s", "one machine", "published, on its machines"}
    assert_readable(picture)


def test_title_states_how_many_cpus_the_processes_used() -> None:
    picture = figures.pipe_cpus(MADE)
    assert picture.title == "The programs of dd | nc → nc | pv keep 1.6 CPUs busy together"
    assert picture.note == "4 processes share 2 CPUs"
    [axes] = picture.figure.axes
    assert len(axes.get_yticklabels()) == 4  # the chains over the wire are left out
    assert_readable(picture)


def test_nothing_measured_is_refused() -> None:
    nothing = pipes({}, missing=["dd-nc"])
    for draw in (figures.pipe_rates, figures.pipe_cpus):
        with pytest.raises(ValueError, match="see the notes in the table"):
            draw(nothing)
