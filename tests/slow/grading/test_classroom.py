"""Test a whole class, a department's database and two students with accounts: `make test-class`.

The tests take minutes, and run only with the marker `classroom`.
"""

import csv
import os
import pwd
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.lab.grading.test_collect import BAD, ODD, lms, packed
from tests.slow.grading.test_cluster import Cluster
from tests.support.commands import completed
from tests.support.grading.damaged import DAMAGES, changed, set_source
from tests.support.grading.fixtures import Tiny, graded_by_command, scores, typed
from tests.support.grading.hostile import ATTACKS, INTAKE
from tests.support.grading.sets import NAMES, SOURCES
from tests.support.lifetime import processes, until
from tests.support.needs import need_module, needs_root
from tests.support.nonempty import each
from tests.support.ordinary_user import let_in
from tests.support.paths import ROOT

from tcplab.grading.batch import grade
from tcplab.grading.collect import collect
from tcplab.grading.release import released_files
from tcplab.grading.trial import Mutant, Trial

pytestmark = [pytest.mark.classroom, pytest.mark.timeout(3600)]

#: Honest submissions of varied quality: the answers that are solved, and the score.
QUALITIES: tuple[tuple[tuple[str, ...], float], ...] = (
    (("q1-answer", "q2-answer", "total.c"), 5.0),
    (("q1-answer", "q2-answer"), 3.0),
    (("q1-answer", "total.c"), 4.0),
    (("total.c",), 2.0),
    ((), 0.0),
)
GOOD = 100


def class_of(tiny: Tiny, course: Path) -> dict[str, float | None]:
    """Make a course with submissions; return each expected score, None if there is no grade."""
    expected: dict[str, float | None] = {}
    shutil.copytree(tiny.course, course)
    for number in range(GOOD):
        present, score = QUALITIES[number % len(QUALITIES)]
        student = f"good-{number:03}"
        submission = tiny.hand_in(course / "submitted" / student)
        for name in ("q1-answer", "q2-answer"):
            if name not in present:
                changed(set_source(name, "pass"))(submission)
        if "total.c" not in present:
            shutil.copy(tiny.exercise / "total.c", submission)
        expected[student] = score
    for name, damage in DAMAGES.items():
        damage.do(tiny.hand_in(course / "submitted" / f"damaged-{name}"))
        expected[f"damaged-{name}"] = damage.score
    for name, attack in ATTACKS.items():
        attack.do(tiny.hand_in(course / "submitted" / f"hostile-{name}"))
        expected[f"hostile-{name}"] = 3.0 if name.startswith("c-") else 2.0 + attack.q2
    for name, case in INTAKE.items():
        case.do(tiny.hand_in(course / "submitted" / name))
        expected[name] = case.score
    solved = {path.name: path.read_bytes() for path in tiny.hand_in(course / "packed").iterdir()}
    archives = {"zip-good.zip": packed(solved)}
    archives |= {f"zip-{name}.zip": make() for name, (make, _) in (BAD | ODD).items()}
    collected = collect("tiny", [lms(course, archives)], course=course)
    assert set(collected.refused) == {f"zip-{name}.zip" for name in BAD}
    return expected | {"zip-good": 5.0} | {f"zip-{name}": 0.0 for name in ODD}


def children_of(course: Path) -> list[str]:
    """Return the commands of processes whose working directory is the course's folder."""
    commands = []
    for folder, command in processes():
        with suppress(OSError):
            if (folder / "cwd").readlink() == course:
                commands.append(" ".join(command))
    return commands


def test_resumed_grading_gives_every_student_the_right_score(tiny: Tiny, tmp_path: Path) -> None:
    """If grading is killed halfway and run again, every student gets the expected score."""
    course = tmp_path / "course"
    expected = class_of(tiny, course)
    assert len(expected) >= 120
    first = graded_by_command(course, "--jobs", "2")
    graded = course / "reports" / "tiny" / "graded"
    until(lambda: len(list(graded.glob("[!.]*"))) >= 30, 600)
    assert len(children_of(course)) >= 3  # the test looks for these processes below
    first.kill()
    first.communicate()
    until(lambda: not children_of(course))
    second = grade("tiny", course=course, jobs=2)
    assert second.failed.keys() == {name for name, score in expected.items() if score is None}
    assert second.lacking == {}
    assert len(second.kept) >= 30
    expected = {name: score for name, score in expected.items() if score is not None}
    assert not list((course / "reports" / "tiny").glob("tcplab-*"))
    assert len(second.graded) + len(second.kept) == len(expected)
    actual = scores(course)
    del expected["hostile-races-with-files"]  # its score depends on a race
    assert {student: actual[student] for student in expected} == expected
    for student in each(expected):
        assert (course / "feedback" / student / "tiny" / "tiny.html").is_file(), student


#: Code to put after the last #include. It writes 2 MB to standard error at once, then a line per
#: call.
TALK = """
#include <unistd.h>
static inline void talk(void) {
    static const char line[200] = {1};
    (void)!write(2, line, sizeof line);
}
__attribute__((constructor)) static void talk_first(void) {
    for (int i = 0; i < 10000; i++)
        talk();
}
#define read(...) (talk(), read(__VA_ARGS__))
#define recv(...) (talk(), recv(__VA_ARGS__))
#define send(...) (talk(), send(__VA_ARGS__))
#define sendto(...) (talk(), sendto(__VA_ARGS__))
"""


@pytest.mark.parametrize("source", SOURCES, ids=NAMES)
def test_program_that_prints_a_lot_keeps_its_score(source: Path) -> None:
    trial = Trial(source)
    files = {}
    for name in released_files(source):
        text = (source / "hidden" / name).read_text()
        last = text[text.rindex("#include") :].partition("\n")[0] + "\n"
        files[name] = [(last, last + TALK)]
    trial.mutants = {"talks": Mutant(files=files)}
    tried = trial.run("talks")
    assert tried.as_expected, tried
    assert files == {} or any(flag.startswith("output-cut: ") for flag in tried.flags)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Make a folder that other users may enter, since pytest's folders are closed to them."""
    with tempfile.TemporaryDirectory(prefix="tcplab-class-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


# ---- PostgreSQL ----------------------------------------------------------------------------------


@pytest.fixture
def postgres(open_folder: Path) -> Iterator[str]:
    """Start a separate server with an empty database; yield its URL."""
    need_module("psycopg2", "psycopg2-binary")
    directories = [*sorted(Path("/usr/lib/postgresql").glob("*/bin")), Path("/usr/local/bin")]
    programs = next((path for path in directories if (path / "initdb").exists()), None)
    if programs is None:
        pytest.skip("initdb is not installed: apt install postgresql")
    folder = open_folder / "postgres"
    folder.mkdir(mode=0o700)
    user: dict[str, Any] = {}
    if os.getuid() == 0:  # the server refuses to run as root
        nobody = pwd.getpwnam("nobody")
        os.chown(folder, nobody.pw_uid, nobody.pw_gid)
        user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}

    def run(name: str, *arguments: str) -> None:
        done = completed(
            [programs / name, *arguments],
            cwd=folder,
            env={**os.environ, "HOME": str(folder), "LC_ALL": "C.UTF-8"},
            **user,
        )
        assert done.returncode == 0, done.stderr

    data, options = folder / "data", f"-k {folder} -c listen_addresses= -c fsync=off"
    run("initdb", "-D", str(data), "-U", "teacher", "-A", "trust", "-N")
    run("pg_ctl", "-D", str(data), "-w", "-l", str(folder / "log"), "-o", options, "start")
    try:
        run("createdb", "-h", str(folder), "-U", "teacher", "gradebook")
        yield f"postgresql+psycopg2://teacher@/gradebook?host={folder}"
    finally:
        run("pg_ctl", "-D", str(data), "-w", "-m", "immediate", "stop")


@pytest.mark.parametrize("where", ["four jobs", "three workers"])
def test_parallel_grading_stores_every_score_in_postgresql(
    where: str, tiny: Tiny, course: Path, tmp_path: Path, postgres: str
) -> None:
    from nbgrader.api import Gradebook

    config = course / "nbgrader_config.py"
    config.write_text(
        config.read_text() + f"\nget_config().CourseDirectory.db_url = {postgres!r}\n"
    )
    for number in range(12):
        tiny.hand_in(course / "submitted" / f"student-{number:02}", solved=number % 3 > 0)
    with ExitStack() as stack:
        options: dict[str, Any] = {"jobs": 4}
        if where == "three workers":
            need_module("distributed", "distributed")
            cluster = stack.enter_context(closing(Cluster(tmp_path)))
            cluster.scheduler()
            for _ in range(3):
                cluster.worker()
            options = {"scheduler": cluster.address}
        run = grade("tiny", course=course, **options)
    assert run.failed == {}
    assert len(run.graded) == 12
    assert not (course / "gradebook.db").exists()
    with Gradebook(postgres, "tcplab") as book:
        stored = {
            submission.student.id: submission.score
            for submission in book.assignment_submissions("tiny")
        }
    assert stored == {f"student-{n:02}": 5.0 * (n % 3 > 0) for n in range(12)}


# ---- two students with their own accounts, through nbgrader's exchange ---------------------------


def account(name: str, home: Path) -> list[str]:
    """Return the prefix of a command that runs as that system user."""
    user = pwd.getpwnam(name)
    home.mkdir()
    os.chown(home, user.pw_uid, user.pw_gid)
    become = ["setpriv", "--reuid", name, "--regid", str(user.pw_gid), "--clear-groups"]
    python = Path(sys.executable).parent
    environment = ["env", f"HOME={home}", f"PATH={python}:{os.environ['PATH']}", f"USER={name}"]
    return [*let_in(ROOT, Path(sys.base_prefix)), *become, *environment]


@needs_root
def test_exchange_works_from_release_to_feedback(
    tiny: Tiny, tmp_path: Path, open_folder: Path
) -> None:
    exchange, course = open_folder / "exchange", tmp_path / "course"
    exchange.mkdir()
    exchange.chmod(0o777)
    shutil.copytree(tiny.course, course)
    shutil.rmtree(course / "exercises")
    config = course / "nbgrader_config.py"
    config.write_text(config.read_text() + f"\nget_config().Exchange.root = {str(exchange)!r}\n")

    def nbgrader(cwd: Path, *arguments: str, prefix: Sequence[str] = ()) -> None:
        options = [f"--Exchange.root={exchange}", "--CourseDirectory.course_id=tcplab"]
        typed(cwd, "nbgrader", *arguments, *options, prefix=prefix)

    nbgrader(course, "generate_assignment", "tiny")
    nbgrader(course, "release_assignment", "tiny")
    prefixes = {}
    for name, solved in (("games", True), ("nobody", False)):
        home = open_folder / name
        prefix = prefixes[name] = account(name, home)
        nbgrader(home, "fetch_assignment", "tiny", prefix=prefix)
        assert (home / "tiny" / "total.c").is_file()
        assert not (home / "tiny" / "hidden").exists()
        if solved:
            solution = tiny.hand_in(tmp_path / f"solved-by-{name}")
            for file in ("tiny.ipynb", "total.c"):
                shutil.copyfile(solution / file, home / "tiny" / file)
        nbgrader(home, "submit", "tiny", prefix=prefix)
    nbgrader(course, "collect", "tiny")
    run = grade("tiny", course=course, jobs=2)
    assert run.failed == {}
    assert scores(course) == {"games": 5.0, "nobody": 0.0}
    nbgrader(course, "release_feedback", "tiny")
    home = open_folder / "games"
    nbgrader(home, "fetch_feedback", "tiny", prefix=prefixes["games"])
    pages = list((home / "tiny" / "feedback").rglob("tiny.html"))
    assert len(pages) == 1
    assert "total adds up." in pages[0].read_text()


# ---- nbgrader's own tools ------------------------------------------------------------------------


def test_nbgraders_own_commands_work_on_the_same_folders(tiny: Tiny, course: Path) -> None:
    tiny.hand_in(course / "submitted" / "ada")
    for arguments in (
        ("generate_assignment", "tiny", "--force"),
        ("autograde", "tiny"),
        ("generate_feedback", "tiny"),
        ("export",),
    ):
        typed(course, "nbgrader", *arguments)
    with (course / "grades.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert (row["student_id"], float(row["score"]), float(row["max_score"])) == ("ada", 5, 7)
    assert "total adds up." in (course / "feedback" / "ada" / "tiny" / "tiny.html").read_text()
    output = typed(course, "nbgrader", "validate", "exercises/tiny/tiny.ipynb")
    assert "q1: not yet" in output
