"""Draw every pipeline's path and eighty busy timelines; tests/fast draws only some of them."""

from __future__ import annotations

import pytest
from tests.fast.figures.test_busy_timelines import assert_all_readable
from tests.fast.figures.test_copy_path import test_path_shows_each_copy_of_the_model as check_path

from tcplab.experiments.pipes.pipelines import RECEIVERS, SENDERS


@pytest.mark.parametrize("receiver", RECEIVERS)
@pytest.mark.parametrize("sender", SENDERS)
def test_path_figure_shows_each_copy_of_every_pipeline(sender: str, receiver: str) -> None:
    check_path(sender, receiver)


def test_eighty_busy_timelines_are_readable() -> None:
    assert_all_readable(range(10, 90))
