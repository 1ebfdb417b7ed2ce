"""Commands for instructors: collect, grade, autograde, give-back, class-predictions, draw, handout,
try-assignment and new-assignment."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from tcplab.checks import choice
from tcplab.checks.parameters import Spelled
from tcplab.cli.loading import loading
from tcplab.errors import LabError, ParameterError

if TYPE_CHECKING:
    from tcplab.grading.batch import Batch

#: Default place of a hand-out, one file per student, so that an LMS can distribute them.
INTO: Final = "handout/{assignment}/{student}.zip"

Folder = Annotated[Path, Spelled(Path, "FOLDER")]
Number = Annotated[int, Spelled(int, "N")]
Assignment = Annotated[str, "name of the assignment, such as small-writes"]
Course = Annotated[
    Path, Spelled(Path, "FOLDER"), "folder of the course (default: the current directory)"
]


def grade(
    assignment: Assignment,
    *students: str,
    jobs: Number = 0,
    again: Annotated[Sequence[str] | None, Spelled(str, "STUDENT")] = None,
    no_feedback: bool = False,
    scheduler: Annotated[str, Spelled(str, "ADDRESS")] = "",
    watch: bool = False,
    course: Course = Path(),
) -> int:
    """Grade all submissions of an assignment in sandboxes, and write the report.

    Args:
        students: grade only these students.
        jobs: number of submissions to grade in parallel (default: one per processor).
        again: grade unchanged submissions again (only those of the students named, if any).
        no_feedback: do not make feedback pages.
        scheduler: grade on the workers of this Dask scheduler, such as tcp://10.0.0.5:8786.
        watch: grade submissions as they arrive in nbgrader's exchange, until Ctrl-C.

    Example: tcplab grade small-writes --jobs 4
    """
    with loading():
        from tcplab.grading import batch, processes  # first, since its door reports a missing extra

        from sqlalchemy.exc import OperationalError  # isort: skip

    run_by: dict[str, Any] = {"course": course, "jobs": jobs, "scheduler": scheduler}
    with processes.on_interrupt(processes.note_interrupt):
        try:
            if watch:
                from tcplab.grading.watch import watch as grade_arrivals

                given = {"STUDENT": students, "--again": again, "--no-feedback": no_feedback}
                for option in (option for option, value in given.items() if value):
                    raise ParameterError(f"{option} cannot be combined with --watch")
                return _report(grade_arrivals(assignment, partial(print, flush=True), **run_by))
            run = batch.grade(
                assignment,
                **run_by,
                students=[*students, *(again or ())],
                again=again is not None,
                feedback=not no_feedback,
            )
            return _report(run)
        except OperationalError as failure:
            # The database may be locked by another program, or the disk may be full.
            raise LabError(
                f"the gradebook cannot be used ({failure.orig}); when it can, run the same"
                " command again to continue"
            ) from None


def autograde(
    folder: Annotated[Path, Spelled(Path, "FOLDER")],
    *,
    assignment: Assignment,
    student: str,
    results: Annotated[Path, Spelled(Path, "FILE")],
    platform: str = "gradescope",
    course: Course = Path(),
) -> int:
    """Grade one submission for another platform, and write its results as JSON.

    Args:
        folder: the folder with the notebook and the programs.
        student: id of the student, from which the numbers in the questions derive.
        results: file to write.
        platform: gradescope or prairielearn.

    Example: tcplab autograde submission --assignment cork --student ada --results results.json
    """
    with loading():
        from tcplab.grading import platforms

    judged = platforms.autograde(
        folder, assignment, student, course=course, platform=platform, into=results
    )
    points, full = sum(one.points for one in judged), sum(one.max_points for one in judged)
    print(f"{points:g} of {full:g} points; results: {results}")
    return 0


def _report(run: Batch) -> int:
    from tcplab.grading.neutral import one_line

    for lacking, reasons in (("no grade: ", run.failed), ("", run.lacking)):
        for student, reason in reasons.items():
            print(f"tcplab: {one_line(student)}: {lacking}{one_line(reason)}", file=sys.stderr)
    print(
        f"{len(run.graded)} graded in {run.seconds:.0f} s, {len(run.kept)} unchanged,"
        f" {len(run.failed)} without a grade"
    )
    if run.feedback:
        print(f"feedback pages updated with marks given by hand: {len(run.feedback)}")
    print(f"report: {os.path.relpath(run.report or '')}")
    if run.interrupted:
        print("tcplab: interrupted; the same command continues from here", file=sys.stderr)
        return 130
    return run.exit_status


def collect(
    assignment: Assignment,
    downloads: Annotated[Sequence[Path], Spelled(Path, "DOWNLOAD")],
    *,
    replace: bool = False,
    students: Annotated[Path | None, Spelled(Path, "FILE")] = None,
    take: Annotated[Sequence[str], Spelled(str, "ARCHIVE")] = (),
    course: Course = Path(),
) -> int:
    """Unpack the submissions in an LMS download or in a folder of LOGIN.zip archives.

    Args:
        downloads: the LMS's single archive, or a folder with the learners' archives.
        replace: replace submissions that were collected before and differ.
        students: file with the class, one login per line or the LMS's CSV; kept as class.txt.
        take: of several archives of one login, take the one with this name.

    Example: tcplab collect small-writes downloads/small-writes.zip
    """
    with loading():
        from tcplab.grading import collect as collecting
        from tcplab.grading.neutral import one_line
        from tcplab.tables import Table

    collected = collecting.collect(
        assignment, downloads, course=course, replace=replace, students=students, take=take
    )
    rows = []
    for login, outcome in collected.done.items():
        sender = collected.senders[login]
        rows.append((login, one_line(f"{sender.name} {sender.number}".strip()), outcome))
    if rows:
        print(Table.of(["login", "name in the LMS", "submission"], rows))
    for archive, reason in collected.refused.items():
        print(f"tcplab: {one_line(archive)}: not collected: {reason}", file=sys.stderr)
    if collected.missing:
        print(f"nothing from {len(collected.missing)}: {', '.join(collected.missing)}")
    kept = sum(outcome.startswith("kept") for outcome in collected.done.values())
    refused = len(collected.refused)
    print(f"{len(rows) - kept} collected, {kept} kept as they were, {refused} not")
    return (3 if rows else 1) if kept or refused else 0


def give_back(
    assignment: Assignment,
    downloads: Annotated[Sequence[Path], Spelled(Path, "DOWNLOAD")],
    *,
    take: Annotated[Sequence[str], Spelled(str, "ARCHIVE")] = (),
    course: Course = Path(),
) -> int:
    """Pack the feedback pages into one archive that an LMS can return to its learners.

    Args:
        downloads: the download that you gave to `tcplab collect`.
        take: of several archives of one login, take the one with this name.

    Example: tcplab give-back small-writes downloads/small-writes.zip
    """
    with loading():
        from tcplab.grading import collect as collecting
        from tcplab.grading.neutral import one_line

    target, given, missing = collecting.give_back(assignment, downloads, course=course, take=take)
    for name, reason in sorted(missing.items()):
        print(f"tcplab: {one_line(name)}: {reason}", file=sys.stderr)
    print(f"pages packed: {len(given)}; upload {os.path.relpath(target)} as feedback files")
    return (3 if given else 1) if missing else 0


def class_predictions(
    files: Annotated[Sequence[Path], Spelled(Path, "FILE")],
    *,
    lesson: str = "",
    figures: Folder | None = None,
) -> int:
    """Show how far a class's guesses were from the measurements, question by question.

    Args:
        files: learners' predictions.json files, or folders with them, such as submitted/.
        lesson: show only this lesson, such as small-writes.
        figures: save a picture per lesson, predictions-SLUG.png, in this folder.

    Example: tcplab class-predictions submitted --lesson small-writes --figures reports
    """
    with loading():
        from tcplab.course import class_predictions as predictions
        from tcplab.course.class_figure import histograms
        from tcplab.grading.neutral import one_line

    guesses = predictions.class_predictions(files)
    guesses = guesses.of(lesson) if lesson else guesses
    print(guesses.table)
    for number in dict.fromkeys(guess.lesson for guess in guesses.guesses):
        if figures is None:
            break
        figures.mkdir(parents=True, exist_ok=True)
        path = figures / f"predictions-{number}.png"
        try:
            histograms(guesses.of(number)).save(path)
            print(f"figure: {path}")
        except ValueError as nothing_to_draw:
            print(f"tcplab: lesson {number}: no figure: {nothing_to_draw}", file=sys.stderr)
    for file, reason in guesses.left_out.items():
        print(f"tcplab: {one_line(file)}: left out: {one_line(reason)}", file=sys.stderr)
    return 1 if guesses.left_out else 0


def draw(
    *assignments: str, new_secret: bool = False, captures: Number = 0, course: Course = Path()
) -> int:
    """Draw new numbers and captures for this course from its secret.

    Args:
        assignments: names of the assignments, such as small-writes (default: all).
        new_secret: replace the course's secret first.
        captures: captures per assignment, at least 96 and one per learner (default: unchanged).

    Example: tcplab draw --new-secret --captures 120
    """
    with loading():
        from tqdm import tqdm

        from tcplab.grading import drawing

    sources = course.resolve() / "solutions"
    known = {assignment.name: assignment for assignment in drawing.assignments(sources)}
    for name in assignments:
        choice("assignment", name, known)
    if new_secret and assignments:
        raise ParameterError("--new-secret applies to all assignments; do not name any")
    if new_secret:
        drawing.new_secret(sources)
    wanted = list(assignments or known)
    waiting = list(wanted)
    # A set that fails, for example on a busy machine, is tried again at the end.
    for name in [*wanted, *wanted]:
        if name not in waiting:
            continue
        try:
            with tqdm(desc=name, unit="capture", disable=None) as bar:
                for bar.n, bar.total in drawing.draw(known[name], captures=captures):
                    bar.refresh()
            waiting.remove(name)
        except (LabError, OSError) as error:
            print(f"tcplab: {name}: not drawn: {error}", file=sys.stderr)
        except KeyboardInterrupt:
            break
    if waiting:
        options = f" --captures {captures}" if captures else ""
        options += f" --course {course}" if course != Path() else ""
        rest = f"tcplab draw{options} {' '.join(waiting)}"
        print(f"tcplab: {len(waiting)} not drawn; to go on: {rest}", file=sys.stderr)
        return 3 if len(waiting) < len(wanted) else 1
    print("drawn; now make the learners' version: make exercises")
    return 0


def handout(
    assignment: Assignment,
    *,
    students: Annotated[Path, Spelled(Path, "FILE")],
    into: Annotated[str, Spelled(str, "WHERE")] = INTO,
    course: Course = Path(),
) -> int:
    """Copy a released exercise for each student, with only that student's captures.

    Args:
        students: file with one student id per line.
        into: .zip file or folder for each copy (default: handout/{assignment}/{student}.zip).

    Example: tcplab handout small-writes --students class.txt --into small-writes.zip
    """
    with loading():
        from tcplab.grading.ledger import keep_class
        from tcplab.grading.release import hand_out

    root = course.resolve()
    released = root / "exercises" / assignment
    logins = keep_class(root, students)
    hand_out(released, logins, str(root / into))
    print(f"{len(logins)} copies in {into.format(assignment=assignment, student='STUDENT')}")
    return 0


def try_assignment(
    assignment: Assignment, *names: str, student: str = "ada", course: Course = Path()
) -> int:
    """Grade an assignment's solution, its untouched exercise and its mutants, and check its rules.

    Args:
        names: reference, untouched or the name of a mutant (default: all).
        student: student id whose numbers to use (default: ada).

    Example: tcplab try-assignment small-writes reference
    """
    with loading():
        from tcplab.grading.rules import broken_rules
        from tcplab.grading.trial import Trial
        from tcplab.tables import Table

    trial = Trial(course.resolve() / "solutions" / assignment)
    if broken := broken_rules(trial):
        print(*broken, "\nNothing was graded. Fix these first.", sep="\n")
        return 1
    results = [trial.run(name, student) for name in names or trial.names()]
    rows = [
        (
            result.name,
            round(sum(result.expected.values()), 2),
            result.total,
            "yes" if result.as_expected else "NO",
            " ".join(f"{question}={points}" for question, points in result.scores.items()),
        )
        for result in results
    ]
    print(Table.of(["attempt", "expected", "points", "as expected", "by question"], rows))
    for result in results:
        for question, expected in result.expected.items():
            if result.scores[question] != expected:
                print(f"{result.name} {question}: expected {expected}. {result.messages[question]}")
    judged, in_all = sum(trial.points.values()), sum(trial.all_points.values())
    print(f"\n{judged:g} points by the grader, {in_all:g} in all")
    return 0 if all(result.as_expected for result in results) else 1


def new_assignment(name: str, *, course: Folder = Path()) -> int:
    """Create the source folder of a new assignment.

    Args:
        name: name of the assignment; may contain letters, digits, - and _.

    Example: tcplab new-assignment my-set
    """
    with loading():
        from tcplab.grading.release import new_assignment as make

    folder = make(course, name)
    shown = os.path.relpath(folder)
    print(f"{shown}: edit task.py, {name}.ipynb and hidden/, then")
    print(f"    tcplab try-assignment {name}\n    nbgrader generate_assignment {name}")
    return 0
