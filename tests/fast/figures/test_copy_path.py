"""Test the figure of a byte's path, which shows each copy of the byte."""

from __future__ import annotations

import pytest
from tests.support.figures.readable import assert_readable

from tcplab import figures
from tcplab.experiments.pipes import COMPOSED, PIPELINES, Chain, Pipes, compose
from tcplab.programs import ChainProcess, ChainResult


def chain(pipeline: object, mb_per_s: float, missing: str = "") -> Chain:
    pipeline = PIPELINES[pipeline] if isinstance(pipeline, str) else pipeline
    assert hasattr(pipeline, "commands")
    wall_s = 100 / mb_per_s
    used = [ChainProcess(name.lower(), 0.1, 0.2, 16_384) for name in pipeline.commands]
    run = ChainResult(100_000_000, wall_s, 0.3 * len(used), mb_per_s, used)
    runs = [] if missing else [run]
    return Chain(pipeline, 100, runs, [], missing)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sender", "receiver"),
    [("nc", "null"), ("netcat", "pv-copying"), ("splice", "dd"), ("splice", "discard")],
)
def test_path_shows_each_copy_of_the_model(sender: str, receiver: str) -> None:
    pipeline = compose("zeros", sender, receiver, block_bytes=4 << 20)
    picture = figures.copy_path(
        Pipes([chain("dd-netcat", 1500), chain(pipeline, 900)], {}), COMPOSED
    )
    assert_readable(picture)
    written = {label.get_text() for label in picture.figure.axes[0].texts}
    numbers = {int(text) for text in written if text.isdecimal()}
    assert numbers == set(range(1, pipeline.cost.copies + 1))
    assert picture.title.endswith("0.6 times as fast as dd | netcat → netcat")
    assert picture.note.endswith("dd | netcat → netcat: 5 copies")


@pytest.mark.parametrize("key", PIPELINES)
def test_every_published_pipeline_shows_its_copies(key: str) -> None:
    picture = figures.copy_path(Pipes([chain(key, 900)], {}), key)
    written = {label.get_text() for label in picture.figure.axes[0].texts}
    assert sum(text.isdecimal() for text in written) == PIPELINES[key].cost.copies


def test_unmeasured_variant_is_named_with_reason() -> None:
    result = Pipes([chain("dd-nc", 1, missing="missing: nc")], {})
    with pytest.raises(ValueError, match=r"nc → nc was not measured: missing: nc"):
        figures.copy_path(result, "dd-nc")
