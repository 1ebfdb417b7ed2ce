"""The commands of an instructor: collect, grade, class-predictions, draw, handout, try-assignment
and new-assignment."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from tcplab.checks.parameters import Spelled
from tcplab.cli.loading import loading
from tcplab.errors import LabError, ParameterError

if TYPE_CHECKING:
    from tcplab.grading.batch import Batch

#: Where a hand-out goes unless told: a file that an LMS can give to one student.
INTO: Final = "handout/{assignment}/{student}.zip"

Folder = Annotated[Path, Spelled(Path, "FOLDER")]
Number = Annotated[int, Spelled(int, "N")]


def grade(
    assignment: str,
    *students: str,
    jobs: Number = 0,
    again: Annotated[Sequence[str] | None, Spelled(str, "STUDENT")] = None,
    no_feedback: bool = False,
    unsafe_no_sandbox: bool = False,
    scheduler: Annotated[str, Spelled(str, "ADDRESS")] = "",
    watch: bool = False,
    tries: Number | None = None,
    course: Folder = Path(),
) -> int:
    """Grade all submissions of an assignment, in sandboxes, and write the report.

    Args:
        assignment: such as small-writes.
        students: only these.
        jobs: submissions judged at a time (default: one per processor).
        again: also what is graded and unchanged (of these students, if any are named).
        no_feedback: make no feedback pages.
        unsafe_no_sandbox: run submissions without a sandbox; every feedback then says so.
        scheduler: grade on the workers of Dask's scheduler, such as tcp://10.0.0.5:8786.
        watch: grade what arrives in nbgrader's exchange and give feedback at once, until Ctrl-C.
        tries: with --watch: show a question's result for N submissions where it lacks points (5).
        course: folder (default: this one).

    Example: tcplab grade small-writes --jobs 4
    """
    with loading():
        from sqlalchemy.exc import OperationalError

        from tcplab.grading import batch, pool

    run_by: dict[str, Any] = {
        "course": course,
        "jobs": jobs,
        "scheduler": scheduler,
        "unsafe_no_sandbox": unsafe_no_sandbox,
    }
    with pool.on_interrupt(pool.note_interrupt):
        try:
            if watch:
                given = {"students": students, "again": again, "no_feedback": no_feedback}
                return _watch(assignment, tries, given, run_by)
            if tries is not None:
                raise ParameterError("--tries is of --watch: nothing goes back at once without it")
            run = batch.grade(
                assignment,
                **run_by,
                students=[*students, *(again or ())],
                again=again is not None,
                feedback=not no_feedback,
            )
            return _report(run)
        except OperationalError as failure:  # locked by another program, say, or on a full disk
            raise LabError(
                f"the gradebook cannot be used ({failure.orig});"
                " when it can, the same command goes on"
            ) from None


def _report(run: Batch) -> int:
    from tcplab.grading.neutral import one_line

    for what, reasons in (("grade", run.failed), ("feedback page", run.no_feedback)):
        for student, reason in reasons.items():
            print(f"tcplab: {one_line(student)}: no {what}: {one_line(reason)}", file=sys.stderr)
    rate = 60 * len(run.graded) / run.seconds if run.seconds else 0.0
    print(
        f"{len(run.graded)} graded in {run.seconds:.0f} s ({rate:.0f} per minute),"
        f" {len(run.kept)} unchanged, {len(run.failed)} without a grade"
    )
    if run.feedback:
        print(f"{len(run.feedback)} feedback pages made anew, with what was marked by hand")
    if run.report:
        print(f"report: {os.path.relpath(run.report)}")
    if run.interrupted:
        print("tcplab: interrupted; the same command goes on from here", file=sys.stderr)
        return 130
    return 1 if run.failed or run.no_feedback else 0


def _watch(
    assignment: str, tries: int | None, given: Mapping[str, Any], run_by: Mapping[str, Any]
) -> int:
    from tcplab.grading.watch import TRIES, watch

    for option, value in given.items():
        if value not in ((), [], None, False):
            raise ParameterError(f"--watch grades what arrives; it does not go with {option}")

    def tell(line: str) -> None:
        print(line, flush=True)

    watched = watch(assignment, tell, tries=TRIES if tries is None else tries, **run_by)
    pages = len(watched.waited_s)
    within = f", 95 % of them within {watched.p95_s():.1f} s" if pages else ""
    print(f"\n{pages} pages released{within}; {len(watched.batch.failed)} without a grade")
    print(f"report: {os.path.relpath(watched.batch.report or '')}")
    return 1 if watched.batch.failed or watched.batch.no_feedback else 0


def collect(
    assignment: str,
    downloads: Annotated[Sequence[Path], Spelled(Path, "DOWNLOAD")],
    *,
    replace: bool = False,
    course: Folder = Path(),
) -> int:
    """Make submissions of what an LMS hands out, LOGIN.zip of each, or of nbgrader's exchange.

    Args:
        assignment: such as small-writes.
        downloads: the LMS's one archive of all, or a folder with the learners' archives.
        replace: also submissions that are there already and differ.
        course: folder (default: this one).

    Example: tcplab collect small-writes downloads/small-writes.zip
    """
    with loading():
        from tcplab.grading import collect as collecting
        from tcplab.grading.neutral import one_line
        from tcplab.tables import Table

    collected = collecting.collect(
        assignment,
        downloads,
        course=course,
        replace=replace,
    )
    rows = []
    for login, done in collected.done.items():
        sender = collected.senders[login]
        rows.append((login, one_line(f"{sender.name} {sender.number}".strip()), done))
    if rows:
        print(Table.of(["login", "the LMS says of", "submission"], rows))
    for archive, reason in collected.refused.items():
        print(f"tcplab: {one_line(archive)}: not collected: {reason}", file=sys.stderr)
    print(f"{len(rows)} collected, {len(collected.refused)} not")
    return 1 if collected.refused else 0


def class_predictions(
    files: Annotated[Sequence[Path], Spelled(Path, "FILE")],
    *,
    lesson: str = "",
    figures: Folder | None = None,
) -> int:
    """Show how far the guesses of a class were from what was measured, per question.

    Args:
        files: learners' predictions.json, or folders with them, such as submitted/.
        lesson: only this one, such as small-writes.
        figures: folder for a picture per lesson, predictions-SLUG.png.

    Example: tcplab class-predictions submitted --lesson small-writes --figures reports
    """
    with loading():
        from tcplab.course import class_predictions as predictions
        from tcplab.course.class_figure import histograms
        from tcplab.grading.neutral import one_line

    found = predictions.class_predictions(files)
    found = found.of(lesson) if lesson else found
    print(found.table)
    for number in dict.fromkeys(each.lesson for each in found.guesses):
        if figures is None:
            break
        figures.mkdir(parents=True, exist_ok=True)
        path = figures / f"predictions-{number}.png"
        try:
            histograms(found.of(number)).save(path)
            print(f"figure: {path}")
        except ValueError as nothing_to_draw:
            print(f"tcplab: lesson {number}: no figure: {nothing_to_draw}", file=sys.stderr)
    for file, reason in found.left_out.items():
        print(f"tcplab: {one_line(file)}: left out: {one_line(reason)}", file=sys.stderr)
    return 1 if found.left_out else 0


def draw(
    *assignments: str,
    new_secret: bool = False,
    captures: Number = 0,
    only: Annotated[Sequence[int], Spelled(int, "N")] = (),
    course: Folder = Path(),
) -> int:
    """Make numbers and captures that are this course's own, of its secret.

    Args:
        assignments: such as small-writes (default: all).
        new_secret: first give the course another one.
        captures: per assignment; 96 or more, and as many as there are learners (default: as now).
        only: record these captures only.
        course: folder (default: this one).

    Example: tcplab draw small-writes --new-secret
    """
    with loading():
        from tqdm import tqdm

        from tcplab.grading import drawing

    sources = course.resolve() / "solutions"
    known = {each.name: each for each in drawing.assignments(sources)}
    if unknown := sorted(set(assignments) - set(known)):
        raise ParameterError(f"no assignment {', '.join(unknown)}; there are {', '.join(known)}")
    if new_secret and assignments:
        raise ParameterError("a new secret is for all assignments; name none of them")
    if new_secret:
        drawing.new_secret(sources)
    for name in assignments or known:
        with tqdm(desc=name, unit="capture", disable=None) as bar:
            for done, total in drawing.draw(known[name], captures=captures, only=only):
                bar.total, bar.n = total, done
                bar.refresh()
    print("drawn; now make what learners get: nbgrader generate_assignment NAME --force")
    return 0


def handout(
    assignment: str,
    *,
    students: Annotated[Path, Spelled(Path, "FILE")],
    into: Annotated[str, Spelled(str, "WHERE")] = INTO,
    course: Folder = Path(),
) -> int:
    """Copy a released exercise for each student, with their own captures and no others.

    Args:
        assignment: such as small-writes.
        students: one id per line.
        into: a .zip or a folder (default: handout/{assignment}/{student}.zip).
        course: folder (default: this one).

    Example: tcplab handout small-writes --students class.txt --into small-writes.zip
    """
    with loading():
        from tcplab.grading.handout import hand_out, students_in

    root = course.resolve()
    released = root / "exercises" / assignment
    logins = students_in(students)
    for _made in hand_out(released, logins, str(root / into)):
        pass
    print(f"{len(logins)} times {assignment}, into {into}")
    return 0


def try_assignment(
    assignment: str, *names: str, student: str = "ada", course: Folder = Path()
) -> int:
    """Grade an assignment's solution, the untouched exercise and its mutants.

    Args:
        assignment: such as small-writes.
        names: reference, untouched or a mutant (default: all).
        student: whose numbers (default ada).
        course: folder (default: this one).

    Example: tcplab try-assignment small-writes reference
    """
    with loading():
        from tcplab.grading.trial import Trial
        from tcplab.tables import Table

    trial = Trial(course.resolve() / "solutions" / assignment)
    tried = [trial.run(name, student) for name in names or trial.names()]
    rows = [
        (
            each.name,
            each.expected,
            each.total,
            "yes" if each.as_expected else "NO",
            " ".join(f"{name}={value}" for name, value in each.scores.items()),
        )
        for each in tried
    ]
    print(Table.of(["tried", "expected", "got", "as expected", "by question"], rows))
    for each in tried:
        for question, message in each.messages.items():
            if not each.as_expected:
                print(f"{each.name} {question}: {message}")
    print(f"\n{trial.full:g} points by the grader, {trial.all_points:g} in all")
    return 0 if all(each.as_expected for each in tried) else 1


def new_assignment(name: str, *, course: Folder = Path()) -> int:
    """Make the source folder of an assignment of your own.

    Args:
        name: letters, digits, - and _.
        course: folder (default: this one).

    Example: tcplab new-assignment my-set
    """
    with loading():
        from tcplab.grading import new

    folder = new.new_assignment(course, name)
    shown = os.path.relpath(folder)
    print(f"{shown}: edit task.py, {name}.ipynb and hidden/, then")
    print(f"    tcplab try-assignment {name}")
    print(f"    nbgrader generate_assignment {name}")
    return 0
