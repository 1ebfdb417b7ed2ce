"""Test the statistics of made-up classes' guesses, and files that were handed in by mistake."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.support.nonempty import each

from tcplab.cli import main
from tcplab.course.class_figure import histograms
from tcplab.course.class_predictions import BINS, Guesses, class_predictions
from tcplab.course.predictions import NOBODY_ANSWERS, Predictions
from tcplab.errors import ParameterError


def learner(folder: Path, guess: Any, measured: float | None = 44.0) -> Path:
    """Write a learner's file as lesson small-writes does for the question `default`."""
    folder.mkdir(parents=True, exist_ok=True)
    stored: dict[str, Any] = {"small-writes": {"default": guess}}
    if measured is not None:
        stored["measured"] = {"small-writes": {"default": measured}}
    (folder / "predictions.json").write_text(json.dumps(stored))
    return folder


def only(*paths: Path) -> Guesses:
    (guesses,) = class_predictions(paths).guesses
    return guesses


def test_lessons_store_what_classes_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(NOBODY_ANSWERS)
    predictions = Predictions("small-writes", tmp_path / "predictions.json")
    predictions.predict(default=1, writev="skip")
    predictions.compare({"default": 44.0, "writev": 0.02})
    default, writev = class_predictions([tmp_path]).guesses
    assert (list(default.values), default.measured, default.skipped) == ([1], 44.0, 0)
    assert (list(writev.values), writev.measured, writev.skipped) == ([], 0.02, 1)


def test_guesses_are_counted_by_how_far_they_are_off(tmp_path: Path) -> None:
    guesses = (0, 4.4, 5, 35, 35.2, 44, 55, 56, 439, 440, 9999, None)
    for number, guess in enumerate(guesses):
        learner(tmp_path / str(number), guess)
    counted = only(tmp_path)
    assert counted.counts == {
        "10 × too low": 2,
        "too low": 2,
        "close": 3,
        "too high": 2,
        "10 × too high": 2,
    }
    assert (len(counted.values), counted.skipped) == (11, 1)
    (row,) = class_predictions([tmp_path]).table.rows
    assert (row["count"], row["median"], row["close"]) == (11, 44, 3)


@pytest.mark.parametrize(
    ("pairs", "measured", "counts"),
    [
        ([(1, 40), (1, 43), (1, 99), (1, None)], 43, [4, 0, 0, 0, 0]),  # 43 is the median
        ([(0, 0), (1, 0)], 0, [0, 0, 1, 0, 1]),  # only zero is close to a measured zero
        ([(7, None)], None, None),
    ],
)
def test_guesses_are_compared_with_what_the_learners_measured(
    tmp_path: Path, pairs: list[Any], measured: float | None, counts: list[int] | None
) -> None:
    for number, (guess, seen) in enumerate(pairs):
        learner(tmp_path / str(number), guess, seen)
    expected = dict(zip(BINS, counts, strict=True)) if counts else None
    assert (only(tmp_path).measured, only(tmp_path).counts) == (measured, expected)
    if measured is None:
        with pytest.raises(ValueError, match="learners run the lesson to its end"):
            histograms(class_predictions([tmp_path]))


def test_the_newer_of_two_submissions_of_a_learner_counts(tmp_path: Path) -> None:
    learner(tmp_path / "ada" / "small-writes", 2)
    earlier = learner(tmp_path / "ada" / "pipes", 1) / "predictions.json"
    os.utime(earlier, (1, 1))
    learner(tmp_path / "bob" / "small-writes", 3)
    result = class_predictions([tmp_path])
    assert result.learners == 2
    assert list(only(tmp_path).values) == [2, 3]
    # A shell expands submitted/*/small-writes to a list like this.
    assert list(
        only(tmp_path / "ada" / "small-writes", tmp_path / "bob" / "small-writes").values
    ) == [2, 3]


def test_files_of_an_lms_and_no_others_are_found(tmp_path: Path) -> None:
    for name in ("lovelaceada_1_2_predictions-1.json", "Predictions (2).json"):
        (tmp_path / name).write_text('{"small-writes": {"default": 1}}')
    (tmp_path / "course.json").write_text('{"small-writes": {"default": 1}}')
    assert class_predictions([tmp_path]).learners == 2


BAD: dict[str, str | bytes] = {
    "not an object": "[1, 2]",
    "cut": '{"small-writes": {"def',
    "measured is not an object": '{"small-writes": {"default": 1}, "measured": [1]}',
    "no text": b"\xff\xfe\x00",
    "nested": "[" * 100_000,
    "large": " " * (1 << 20) + "{}",
}


@pytest.mark.parametrize("name", BAD)
def test_file_that_holds_no_predictions_is_left_out_and_named(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    learner(tmp_path / "good", 1)
    text = BAD[name]
    (tmp_path / "bad").mkdir()
    path = tmp_path / "bad" / "predictions.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    assert main(["class-predictions", str(tmp_path)]) == 1
    shown = capsys.readouterr()
    assert "Predictions of 1 learner" in shown.out
    assert f"tcplab: {path}: left out: it " in shown.err
    assert len(shown.err.splitlines()) == 1


def test_links_and_values_that_are_not_numbers_are_skipped(tmp_path: Path) -> None:
    bad = [True, "44", -1, [1], {}, 10**400, float("nan"), float("inf")]
    for number, guess in enumerate(bad):
        learner(tmp_path / str(number), guess)
    learner(tmp_path / "good", 1)
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "predictions.json").symlink_to("../good/predictions.json")
    result = class_predictions([tmp_path])
    assert list(only(tmp_path).values) == [1]
    assert list(result.left_out.values()) == ["it is not a plain file"]


def test_mistakes_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="no such file or folder"):
        class_predictions([tmp_path / "nowhere"])
    with pytest.raises(ParameterError, match=r"no file matches \*predictions\*.json; learners"):
        class_predictions([tmp_path])
    with pytest.raises(
        ParameterError, match="no predictions: lesson '99' is not known; use one of small-writes"
    ):
        class_predictions([learner(tmp_path, 1)]).of("99")


def test_figure_divides_each_bar_by_how_far_off_the_guesses_are(tmp_path: Path) -> None:
    for number, guess in enumerate((1, 1, 40, 44, 45, 4000)):
        learner(tmp_path / "class" / str(number), guess)
    (axes,) = histograms(class_predictions([tmp_path / "class"])).figure.axes
    texts = {text.get_text() for text in axes.texts}
    assert "15 writes, no option (ms per message) (n = 6)" in texts
    bars: list[Any] = list(axes.patches)
    widths = [bar.get_width() for bar in each(bars)]
    assert widths == pytest.approx([100 / 3, 0, 50, 0, 50 / 3])


def test_choices_are_counted_and_not_compared(tmp_path: Path) -> None:
    for number, guess in enumerate((1, 2, 2, 3, 2)):
        stored = {"pipes": {"slowest": guess}, "measured": {"pipes": {"slowest": 2}}}
        (folder := tmp_path / str(number)).mkdir()
        (folder / "predictions.json").write_text(json.dumps(stored))
    result = class_predictions([tmp_path])
    assert result.table.rows[0]["choices"] == "1: 1, 2: 3, 3: 1"
    picture = histograms(result)
    texts = [text.get_text() for text in picture.figure.axes[0].texts]
    assert texts[:3] == ["1: 1", "2: 3", "3: 1"]
    assert picture.title.startswith("5 learners: 3 of 5 guesses were right for “The slowest way")


def test_each_lesson_gets_a_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    learner(tmp_path / "class" / "ada", 1)
    arguments = ["class-predictions", str(tmp_path / "class"), "--figures", str(tmp_path / "made")]
    assert main(arguments) == 0
    assert [path.name for path in (tmp_path / "made").iterdir()] == ["predictions-small-writes.png"]
    assert "15 writes, no option" in capsys.readouterr().out
