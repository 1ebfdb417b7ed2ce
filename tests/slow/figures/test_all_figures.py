"""Draw every pipeline's path and eighty busy timelines; tests/fast draws only some of them."""

import pytest
from tests.fast.figures.test_busy_timelines import assert_all_readable
from tests.fast.figures.test_pipes import assert_path_shows_each_copy

from tcplab.experiments.pipes import PIPELINES, RECEIVERS, SENDERS, compose


@pytest.mark.parametrize("sender", SENDERS)
def test_path_figure_shows_each_copy_of_every_pipeline(sender: str) -> None:
    for receiver in RECEIVERS:
        assert_path_shows_each_copy(compose("zeros", sender, receiver, block_bytes=4 << 20))


def test_path_figure_shows_each_copy_of_the_published_pipelines() -> None:
    for pipeline in PIPELINES.values():
        assert_path_shows_each_copy(pipeline)


def test_eighty_busy_timelines_are_readable() -> None:
    assert_all_readable(range(10, 90))
