"""The leaderboard: the same order on an idle and on a busy machine, entries that are none."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.nonempty import each

from tcplab.cli import main
from tcplab.grading import leaderboard
from tcplab.grading.leaderboard import Board, Entry, Measured, Score, Setting

#: Known settings, the best first: the longer the queue that a transfer fills, the longer all waits.
KNOWN = {"short": "queue_packets = 25", "middle": "queue_packets = 60", "reference": "# as it is"}


def write(folder: Path, **settings: str) -> Path:
    for name, text in settings.items():
        (folder / name).mkdir()
        (folder / name / "setting.toml").write_text(text)
    return folder


@pytest.fixture(params=["idle", "busy"])
def machine(request: pytest.FixtureRequest) -> Iterator[None]:
    """A machine that does nothing else, or of which one core is busy."""
    if request.param == "idle":
        yield
        return
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as spinner:
        yield
        spinner.kill()


@pytest.mark.needs_lab
@pytest.mark.usefixtures("machine")
def test_known_settings_have_the_same_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaderboard, "SECONDS", 4)
    monkeypatch.setattr(leaderboard, "PATHS", 2)
    board = leaderboard.leaderboard(write(tmp_path, **KNOWN), random.Random("known"))
    assert board.left_out == {}
    assert [score.entry.name for score in board.scores] == list(KNOWN)
    short, middle, reference = (score.score for score in board.scores)
    assert 0.5 < reference < 2  # beside itself
    assert short > 1.2 * middle > 1.2**2 * reference
    assert all(row["wire_late_p99_ms"] > 0 for row in each(board.rows()))


@pytest.mark.needs_lab
def test_a_program_is_scored_and_one_that_fails_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaderboard, "SECONDS", 2)
    monkeypatch.setattr(leaderboard, "PATHS", 1)
    programs = {
        "broken": "int main(void) { return 0 }",
        "idle": "int main(void) { return 0; }",
        "starter": leaderboard.SENDER.read_text(),
        "wrong": "int main(void) { return 3; }",
    }
    for name, source in programs.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "sender.c").write_text(source)
    board = leaderboard.leaderboard(tmp_path, random.Random("programs"))
    assert [score.entry.name for score in board.scores] == ["starter"]
    assert set(board.left_out) == {"broken", "idle", "wrong"}
    assert "does not compile" in board.left_out["broken"]
    assert "no data arrived" in board.left_out["idle"]
    assert "exit status 3" in board.left_out["wrong"]
    assert not [why for why in board.left_out.values() if "\n" in why]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("queue_packets = 0", "queue_packets=0 must be a whole number from 1"),
        ("queue_packets = true", "queue_packets=True"),
        ('aqm = "red"', "aqm='red' is not known; use one of tail_drop, codel"),
        ("aqm = [1]", "aqm=[1] is not known"),
        ('congestion = "vegas"', "use one of cubic, reno, bbr"),
        ("ecn = true", "needs an aqm that marks"),
        ('aqm = "pie"\necn = 1', "ecn=1 must be true or false"),
        ("sndbuf_bytes = -1", "from 0 to"),
        ("rate = 100", "no setting 'rate'; there are aqm, queue_packets"),
        ("aqm = codel", "setting.toml cannot be read"),
    ],
)
def test_a_setting_that_is_none_is_one_line(text: str, said: str, tmp_path: Path) -> None:
    found, refused = leaderboard.read_entries(write(tmp_path, ada=text))
    assert found == []
    assert said in refused["ada"]
    assert "\n" not in refused["ada"]


def test_an_entry_is_one_file_and_no_link(tmp_path: Path) -> None:
    write(tmp_path, ada="ecn = false", bob="")
    (tmp_path / "ada" / "sender.c").touch()
    (tmp_path / "carla").mkdir()
    (tmp_path / "dan").mkdir()
    (tmp_path / "dan" / "setting.toml").symlink_to("/etc/hostname")
    found, refused = leaderboard.read_entries(tmp_path)
    assert [entry.name for entry in found] == ["bob"]
    assert found[0].setting == Setting()
    assert set(refused) == {"ada", "carla", "dan"}


def test_paths_are_the_same_for_a_seed_and_differ_in_their_round_trips() -> None:
    first, again, other = (leaderboard.hidden_paths(random.Random(seed)) for seed in (1, 1, 2))
    assert first == again != other
    assert len({path.rtt_ms for path in first}) == len(first) == leaderboard.PATHS
    for path in each(first):
        assert path.trace[-1] <= 1000 * leaderboard.SECONDS
        mbit = len(path.trace) * 0.012 / leaderboard.SECONDS
        assert 2 <= mbit <= 12


def test_the_page_is_neutral_to_names(tmp_path: Path) -> None:
    runs = [(Measured(4.0, 50.0), Measured(5.0, 100.0)), (Measured(8.0, 50.0), Measured(5.0, 25.0))]
    hostile = "<script>alert(1)</script>"
    board = Board([Score(Entry(hostile), runs)], {"<b>\x1b[2J": "<img src=x>\n=cmd"})
    page = board.save(tmp_path).read_text()
    assert "<script" not in page
    assert "<img" not in page
    assert "&lt;script&gt;" in page
    assert "\x1b" not in page
    (row,) = json.loads((tmp_path / "leaderboard.json").read_text())["entries"]
    assert row["score"] == pytest.approx((1.6 * 0.8) ** 0.5, abs=1e-3)
    assert (row["least"], row["most"]) == (0.8, 1.6)


def test_a_run_whose_path_was_late_says_so(tmp_path: Path) -> None:
    late = Measured(5.0, 100.0, wire_late_p99_ms=7.125, wire_late="1 of 100 packets <late>")
    scores = [
        Score(Entry("ada"), [(Measured(4.0, 50.0, 0.25), late)]),
        Score(Entry("bob"), [(Measured(4.0, 50.0, 0.25), Measured(5.0, 100.0, 0.5))]),
    ]
    page = Board(scores).save(tmp_path).read_text()
    assert page.count("Score this entry again") == page.count("1 of 100 packets &lt;late&gt;") == 1
    ada, bob = json.loads((tmp_path / "leaderboard.json").read_text())["entries"]
    assert (ada["wire_late_p99_ms"], bob["wire_late_p99_ms"]) == (7.12, 0.5)
    assert bob["wire_late"] == ""


def test_usage_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "solutions").mkdir()
    (tmp_path / "solutions" / "secret").write_text("00" * 32)
    for entries in ("nothing", "solutions"):
        words = ["leaderboard", str(tmp_path / entries), "--course", str(tmp_path)]
        assert main(words) == 2
        assert capsys.readouterr().err.count("\n") == 1
    assert main(["leaderboard", str(tmp_path / "hand-out"), "--starter"]) == 0
    assert {path.name for path in (tmp_path / "hand-out").iterdir()} == {"sender.c", "setting.toml"}
    assert main(["leaderboard", str(tmp_path / "hand-out"), "--starter"]) == 2
    assert "exists already" in capsys.readouterr().err
