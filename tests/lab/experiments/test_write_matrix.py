"""Facts of lesson 05: the matrix."""

from __future__ import annotations

import pytest

from tcplab import figures
from tcplab.experiments import write_patterns
from tcplab.models import message_cost


@pytest.fixture(scope="module")
def matrix() -> write_patterns.WriteMatrix:
    return write_patterns.measure_matrix()


def test_two_cells_of_forty_wait_for_a_timer(matrix: write_patterns.WriteMatrix) -> None:
    assert len(matrix.variants) == 40
    assert matrix[(4, 100), "default", "linux"].stalled
    assert matrix[(2,) * 15, "default", "linux"].stalled
    # A neighbour that took both CPUs for so long may look like a timer, but not often.
    assert sum(cell.stalled for cell in matrix.variants) <= 6
    assert matrix.provenance["capture_drops"] == 0


def test_matrix_figure(matrix: write_patterns.WriteMatrix) -> None:
    picture = figures.write_matrix(matrix)
    assert "of 40 combinations wait for a timer" in picture.title
    assert "4 + 100 with default, receiver linux" in picture.alt
    assert len(picture.table.rows) == 40


def test_segments_in_each_cell(matrix: write_patterns.WriteMatrix) -> None:
    for receiver in ("linux", "at once"):
        for option in ("cork", "msg_more", "writev"):
            assert matrix[(4, 100), option, receiver].segments == (104,)
            assert matrix[(2,) * 15, option, receiver].segments == (30,)
        assert matrix[(4, 100), "default", receiver].segments == (4, 100)
        assert matrix[(1448, 100), "default", receiver].segments == (1448, 100)
        assert matrix[(100,), "no_delay", receiver].segments == (100,)
    assert matrix[(2,) * 15, "default", "linux"].segments == (2, 28)
    assert len(matrix[(2,) * 15, "no_delay", "linux"].segments) >= 10


def test_the_first_two_of_the_lesson_agree_with_the_model() -> None:
    assert message_cost([4, 100]).ms_per_message == pytest.approx(44, abs=4)
