"""Programs that are like the model or another student's are flagged; original work is not."""

from __future__ import annotations

from pathlib import Path

from tests.support.paths import ROOT

from tcplab.grading.likeness import like_others
from tcplab.grading.release import released_files, without_marks

SOURCE = ROOT / "solutions" / "small-writes"


def test_copies_are_flagged_whatever_their_comments(tmp_path: Path) -> None:
    given = released_files(SOURCE)["records.c"].decode()
    model = without_marks((SOURCE / "hidden" / "records.c").read_text())
    own = given.replace("return 0;", "return 0 + 0;")
    programs = {
        "ada": "/* mine */\n" + model.replace("    ", "\t"),
        "bob": own,
        "carla": own.replace("return 0 + 0;", "return 0 + 0; // I wrote this"),
        "dan": given.replace("return 0;", "return (0);"),
        "eve": given,
        "fay": given,
    }
    folders = {}
    for student, text in programs.items():
        folders[student] = tmp_path / student
        folders[student].mkdir()
        (folders[student] / "records.c").write_text(text)
    folders["gus"] = tmp_path / "nothing"
    assert like_others(SOURCE, folders) == {
        "ada": ["like-the-model: records.c"],
        "bob": ["like-another: records.c, as of carla"],
        "carla": ["like-another: records.c, as of bob"],
        "dan": [],
        "eve": [],
        "fay": [],
        "gus": [],
    }
