"""Test the figures of pipes on made-up results: rates, CPU shares and the path of a byte."""

from collections.abc import Sequence

import pytest
from tests.support.figures.readable import assert_readable
from tests.support.lessons import BY_SLUG, cells, imports

from tcplab import figures
from tcplab.experiments import Result
from tcplab.experiments.pipes import PIPELINES, Chain, Pipeline, compose
from tcplab.programs.chain import ChainProcess, ChainResult


def chain(pipeline: str | Pipeline, *mb_per_s: float) -> Chain:
    """Return a pipeline with a run at each rate; without one, its program is missing."""
    pipeline = PIPELINES[pipeline] if isinstance(pipeline, str) else pipeline
    runs: Sequence[ChainResult] = [
        ChainResult(
            100_000_000,
            100 / rate,
            0.4 * 100 / rate * len(pipeline.commands),
            rate,
            [ChainProcess(name.lower(), 4 / rate, 36 / rate, 16_384) for name in pipeline.commands],
        )
        for rate in mb_per_s
    ]
    return Chain(pipeline, 100, runs, [], "" if runs else "missing: nc")


MADE = Result(
    [
        chain("wire", 116, 117, 115),
        chain("dd-nc", 1400, 1300, 1500),
        chain("warm", 2200, 2100, 2400),
        chain("dd-nc-pv", 1100, 1200, 900),
        chain("no-copy", 9000, 8000, 10_000),
        chain("cold"),
    ],
    {"cores": 2},
)


@pytest.mark.parametrize(
    ("sender", "receiver"),
    [("nc", "null"), ("netcat", "pv-copying"), ("splice", "dd"), ("splice", "discard")],
)
def test_path_shows_each_copy_of_the_model(sender: str, receiver: str) -> None:
    picture = assert_path_shows_each_copy(compose("zeros", sender, receiver, block_bytes=4 << 20))
    assert picture.title.endswith("0.6 times as fast as dd | netcat → netcat")
    assert picture.note.endswith("dd | netcat → netcat: 5 copies")


def assert_path_shows_each_copy(pipeline: Pipeline) -> figures.Picture:
    """Draw the path of a byte next to a slower pipeline, and return it."""
    result = Result([chain("dd-netcat", 1500), chain(pipeline, 900)], {})
    picture = figures.copy_path(result, pipeline.key)
    assert_readable(picture, fewest=5)
    written = [label.get_text() for label in picture.figure.axes[0].texts]
    numbers = [int(text) for text in written if text.isdecimal()]
    assert numbers == list(range(1, pipeline.cost.copies + 1))
    return picture


def test_pipelines_of_one_place_are_shown_together() -> None:
    assert figures.copy_path(MADE, "no-copy").title.endswith("6.4 times as fast as dd | nc → nc")
    names = {**imports(BY_SLUG["pipes"]), "result": MADE, "display": str}
    exec(next(cell for cell in cells(BY_SLUG["pipes"], "code") if "over 1 Gbit/s" in cell), names)
    assert [rate for _name, rate in names["rows"][1:]] == [116]


def test_nothing_measured_is_refused() -> None:
    nothing = Result([chain("dd-nc")], {"cores": 2})
    with pytest.raises(ValueError, match=r"nc → nc was not measured: missing: nc"):
        figures.copy_path(nothing, "dd-nc")
