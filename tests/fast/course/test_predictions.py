import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.support.lessons import ALL, cells, slug
from tests.support.nonempty import each

from tcplab.course.predictions import (
    NOBODY_ANSWERS,
    Predictions,
    UnansweredError,
    earlier,
    questions,
)


@pytest.fixture(autouse=True)
def somebody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(NOBODY_ANSWERS)


def test_prediction_is_stored_before_the_measurement(tmp_path: Path) -> None:
    path = tmp_path / "predictions.json"
    Predictions("small-writes", path).predict(default=1.5, writev="skip")
    assert json.loads(path.read_text()) == {"small-writes": {"default": 1.5, "writev": None}}
    assert [entry.name for entry in tmp_path.iterdir()] == ["predictions.json"]
    Predictions("buffers", path).predict(granted_kib=100)
    assert Predictions("small-writes", path).all() == {"default": 1.5, "writev": None}


@pytest.mark.parametrize(
    ("predicted", "measured", "verdict"),
    [
        (44.0, 44.0, "exactly right"),
        (40.0, 44.0, "close"),
        (1.0, 44.0, "44 × too low"),
        (400.0, 4.0, "100 × too high"),
        (0, 44.0, "off: one of them is zero"),
        ("skip", 44.0, "skipped"),
    ],
)
def test_verdict_compares_magnitudes(
    tmp_path: Path, predicted: float | str, measured: float, verdict: str
) -> None:
    predictions = Predictions("small-writes", tmp_path / "p.json")
    predictions.predict(default=predicted)
    (row,) = predictions.compare({"default": measured}).rows
    assert row["verdict"] == verdict


def test_number_of_an_exact_question_must_leave_out_what_it_leaves_out(tmp_path: Path) -> None:
    predictions = Predictions("segments", tmp_path / "p.json")
    for guess, verdict, reply in [
        (8960, "slightly too high", "You left out the options."),
        (8950, "close", "You were right"),
    ]:
        predictions.predict(segment_9000=guess)
        compared = predictions.compare({"segment_9000": 8948})
        assert compared.rows[0]["verdict"] == verdict
        assert str(compared.caption).startswith(reply)


def test_unattended_run_skips_and_shows_numbers_in_one_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(NOBODY_ANSWERS, "skip")
    predictions = Predictions("small-writes", tmp_path / "p.json")
    assert predictions.predict(default=65536, writev=None).rows[1]["value"] == "skipped"
    measured = {"default": 0.05285, "writev": 1448.0, "far_default": 44.0}
    table = predictions.compare(measured, {"default": 47.414})
    rows = [re.split("  +", line.strip())[1:4] for line in table.text().splitlines()[2:]]
    assert rows == [["65,536", "47.4", "0.0529"], ["skipped", "–", "1448"], ["skipped", "–", "44"]]


def test_damaged_predictions_are_named_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    predictions = Predictions("small-writes", path)
    predictions.predict(default=1)
    for bad in (-1, float("nan"), float("inf")):
        with pytest.raises(
            ValueError, match=r"writev=.* must be a number of at least 0; write \"skip\""
        ):
            predictions.predict(writev=bad)
    assert predictions.all() == {"default": 1}
    path.write_text('{"small-writes":')
    with pytest.raises(ValueError, match=r"is damaged .*; delete it to start again"):
        predictions.predict(default=2)
    assert path.read_text() == '{"small-writes":'


def test_question_without_an_answer_stops_and_keeps_the_others(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    message = r"replace None with a number for writev, far_default,"
    with pytest.raises(UnansweredError, match=message) as raised:
        Predictions("small-writes", path).predict(default=7, writev=None, far_default=None)
    assert Predictions("small-writes", path).all() == {"default": 7}
    assert raised.value._render_traceback_() == [str(raised.value)]


@pytest.mark.parametrize(
    ("lesson", "answers", "message"),
    [
        ("pipes", {"slowest": 4}, "slowest=4 must be a number from 1 to 3"),
        (
            "small-writes",
            {"writev": "dunno"},
            "writev='dunno' must be a number of at least 0; write \"skip\" to",
        ),
        (
            "small-writes",
            {"writef": 1},
            "question 'writef' is not known; did you mean writev[?] Use one of d",
        ),
    ],
)
def test_invalid_answers_and_unknown_lessons_are_refused(
    tmp_path: Path, lesson: str, answers: dict[str, float | str], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Predictions(lesson, tmp_path / "p.json").predict(**answers)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ValueError, match=r"did you mean small-writes\?"):
        Predictions("small-write", tmp_path / "p.json")


def test_missing_answer_is_asked_for_until_it_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = iter(["12 ms", "-3", "nan", "", " 12 ", "skip"])
    asked: list[str] = []

    def answer(prompt: str) -> str:
        asked.append(prompt)
        return next(typed)

    monkeypatch.setattr("tcplab.course.predictions.frontend_is_interactive", lambda: True)
    monkeypatch.setattr("builtins.input", answer)
    predictions = Predictions("small-writes", tmp_path / "p.json")
    rows = predictions.predict(default=7, writev=None, far_default=None).rows
    assert [row["value"] for row in rows] == [7, 12, "skipped"]
    assert predictions.all() == {"default": 7, "writev": 12, "far_default": None}
    assert asked[4:] == [
        "One writev() (ms per message). Your guess, or skip: ",
        "15 writes at an RTT of 20 ms (ms per message). Your guess, or skip: ",
    ]
    assert capsys.readouterr().out.count("must be a number of at least 0") == 4
    predictions.predict(default=None, writev=None)
    assert len(asked) == 6  # answered questions are not asked again


def test_missing_answers_are_asked_for_by_fields_that_wait_for_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[Any] = []
    monkeypatch.setattr("tcplab.course.predictions.frontend_is_interactive", lambda: True)
    monkeypatch.setenv("JPY_SESSION_NAME", "lesson.ipynb")
    monkeypatch.setattr("IPython.display.display", shown.append)
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    predictions = Predictions("pipes", tmp_path / "p.json")
    with pytest.raises(UnansweredError, match="Then go on with the next cell"):
        predictions.recall()
    with pytest.raises(UnansweredError):  # "Run All" stops here again
        predictions.predict(slowest=None)
    again, field = shown[0].children, shown[1].children[0]
    again[0].children[1].children[1].click()  # skip
    again[1].children[1].children[0].value = "5"
    assert shown[0].children[0].value.count("<tr") == 3
    box = field.children[1].children[0]
    assert box.description == "Your guess (1 to 3)"
    for text, refusal in (("4", "your guess=4.0 must be a number from 1 to 3"), ("two", "“two”")):
        box.value = text
        assert refusal in field.children[2].value
        assert predictions.all() == {}
    box.value = "2"
    assert predictions.all() == {"slowest": 2}
    assert predictions.predict(slowest=None).rows[0]["value"] == 2


def test_each_prediction_question_has_a_wording() -> None:
    asked: dict[str, set[str]] = {}
    for lesson, path in each({slug(path): path for path in ALL}.items()):
        for source in cells(path, "code"):
            for call in re.findall(r"\.predict\((.*)\)", source, re.DOTALL):
                asked.setdefault(lesson, set()).update(re.findall(r"(\w+)=None", call))
    assert asked == {lesson: set(wordings) for lesson, wordings in questions().items()}


def test_each_wrong_guess_has_a_reply() -> None:
    for asked in each(questions().values()):
        for question in asked.values():
            limits = [limit for limit, _reply in question.wrong]
            assert 2 <= len(limits) <= 4
            assert limits == sorted(limits)
            assert limits[-1] >= (question.choices or 6)


@pytest.mark.parametrize(
    ("lesson", "name", "guess", "measured", "reply"),
    [
        ("primer", "packets", 4, 10, "You counted messages"),
        (
            "primer",
            "packets",
            10,
            10,
            "You were right, if your reason was this. Three packets open",
        ),
        ("small-writes", "far_default", 60, 84, "One round trip and the delay."),
        ("buffers", "mbit_at_40_ms", 50, 11, "The line could."),
        ("pipes", "slowest", 2, 1, "You thought that a file costs more than zeros."),
        ("pipes", "slowest", "skip", 1, ""),
    ],
)
def test_compare_speaks_to_the_guess(
    tmp_path: Path, lesson: str, name: str, guess: float | str, measured: float, reply: str
) -> None:
    predictions = Predictions(lesson, tmp_path / "p.json")
    predictions.predict(**{name: guess})
    caption = predictions.compare({name: measured}).caption
    assert caption.startswith(reply)
    assert bool(caption) == bool(reply)


def test_two_earlier_questions_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tcplab.course.predictions.frontend_is_interactive", lambda: True)
    monkeypatch.setattr("builtins.input", lambda _prompt: "50")
    predictions = Predictions("queues", tmp_path / "p.json")
    table = predictions.recall()
    assert [row["verdict"] for row in table.rows] == ["12 × too high", "2.8 × too low"]
    assert table.caption.count(".") >= 2
    assert json.loads(predictions.path.read_text())["again"] == {
        "slow-start 1": 50,
        "small-writes 1": 50,
    }
    for lesson in list(questions())[2:-1]:
        assert len(earlier(lesson)) == 2
