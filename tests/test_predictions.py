from __future__ import annotations

import json
from pathlib import Path

import pytest

from tcplab.predictions import Predictions


def test_prediction_is_stored_before_the_measurement(tmp_path: Path) -> None:
    path = tmp_path / "predictions.json"
    Predictions("05", path).predict(default=1.5, cork=None)
    assert json.loads(path.read_text()) == {"05": {"default": 1.5, "cork": None}}
    assert [each.name for each in tmp_path.iterdir()] == ["predictions.json"]


def test_predictions_are_kept_per_lesson_and_question(tmp_path: Path) -> None:
    path = tmp_path / "predictions.json"
    Predictions("04", path).predict(knee=100)
    Predictions("05", path).predict(default=1)
    Predictions("05", path).predict(cork=2)
    assert Predictions("04", path).all() == {"knee": 100}
    assert Predictions("05", path).all() == {"default": 1, "cork": 2}


@pytest.mark.parametrize(
    ("predicted", "measured", "verdict"),
    [
        (44.0, 44.0, "exactly right"),
        (40.0, 44.0, "close"),
        (1.0, 44.0, "44 × too low"),
        (400.0, 4.0, "100 × too high"),
        (0, 44.0, "off: one of them is zero"),
        (None, 44.0, "skipped"),
    ],
)
def test_verdict_compares_magnitudes(
    tmp_path: Path, predicted: float | None, measured: float, verdict: str
) -> None:
    predictions = Predictions("05", tmp_path / "p.json")
    predictions.predict(default=predicted)
    (row,) = predictions.compare({"default": measured}).rows
    assert row["verdict"] == verdict


def test_missing_prediction_counts_as_skipped(tmp_path: Path) -> None:
    (row,) = Predictions("05", tmp_path / "p.json").compare({"default": 44.0}).rows
    assert row["verdict"] == "skipped"


def test_damaged_predictions_are_named_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    predictions = Predictions("05", path)
    predictions.predict(default=1)
    for bad in (-1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match=r"cork=.* must be a number of at least 0; give None"):
            predictions.predict(cork=bad)
    assert predictions.all() == {"default": 1}
    path.write_text('{"05":')
    with pytest.raises(ValueError, match=r"is damaged .*; delete it to start again"):
        predictions.predict(default=2)
    assert path.read_text() == '{"05":'
