"""Programs that are like the model or another student's are flagged; original work is not."""

import re
from pathlib import Path

import pytest
from tests.support.grading.homework import hand_in
from tests.support.grading.sets import NAMES, SOURCES
from tests.support.paths import ROOT

from tcplab.grading.flags import like_others
from tcplab.grading.release import released_files, without_marks
from tcplab.grading.trial import Trial

SOURCE = ROOT / "solutions" / "small-writes"

COPIED = {
    "ada": ["like-the-model: records.c"],
    "bob": ["like-another: records.c, as of carla"],
    "carla": ["like-another: records.c, as of bob"],
}


def flags_of(source: Path, name: str, programs: dict[str, str], top: Path) -> dict[str, list[str]]:
    """Return the flags of students who hand in these programs."""
    folders = {student: top / student for student in programs}
    for student, text in programs.items():
        folders[student].mkdir()
        (folders[student] / name).write_text(text)
    return like_others(source, {**folders, "gus": top / "nothing"})


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
    found = flags_of(SOURCE, "records.c", programs, tmp_path)
    assert found == COPIED | {key: [] for key in ["dan", "eve", "fay", "gus"]}


def test_renaming_does_not_hide_a_copy(tmp_path: Path) -> None:
    model = without_marks((SOURCE / "hidden" / "records.c").read_text())
    renamed = model
    for old, new in (
        ("record", "message"),
        ("on", "flag"),
        ("fail", "give_up"),
        ("MOST", "LIMIT"),
        ("STEP_BYTES", "STRIDE"),
        ("i", "k"),
    ):
        renamed = re.sub(rf"\b{old}\b", new, renamed)
    own = """
        #include <sys/socket.h>
        #define BIG 9
        struct box { int width; };
        static int twice(int x) { int a, b, c = x, d; b = a = c; d = b; return d + c; }
        int main(void) {
            struct box one = {.width = BIG};
            if (one.width < 0)
                goto end;
            setsockopt(twice(one.width), SOL_SOCKET, OPTION, 0, 0);
        end:
            return 0; // "
        }
    """
    copy = own.replace("OPTION", "SO_SNDBUF")
    for word in ("box", "width", "twice", "BIG", "one", "end", "x", "a", "b", "c", "d"):
        copy = re.sub(rf"\b{word}\b", f"my_{word}", copy)
    programs = {
        "ada": renamed,
        "bob": own.replace("OPTION", "SO_SNDBUF"),
        "carla": copy,
        "dan": own.replace("OPTION", "SO_RCVBUF"),  # names of the library do count
        "eve": own.replace("OPTION", "SO_SNDBUF").replace("d + c", "c + d"),
    }
    found = flags_of(SOURCE, "records.c", programs, tmp_path)
    assert found == COPIED | {key: [] for key in ["dan", "eve", "gus"]}


@pytest.mark.parametrize("source", SOURCES, ids=NAMES)
def test_different_programs_are_not_alike(source: Path, tmp_path: Path) -> None:
    """Each mutant of a set is a program that an honest student might write."""
    for name in released_files(source):
        programs = {"model": without_marks((source / "hidden" / name).read_text())}
        for mutant in Trial(source).mutants:
            changed = without_marks(hand_in(source, mutant).files[name])
            if changed not in programs.values():
                programs[mutant] = changed
        (top := tmp_path / name).mkdir()
        flags = flags_of(source, name, programs, top)
        assert flags.pop("model") == [f"like-the-model: {name}"]
        assert not any(flags.values()), flags
