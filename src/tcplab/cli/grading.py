"""`tcplab collect`, `grade`, `class-predictions`, `draw`, `handout`,
`try-assignment` and `new-assignment`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any, Final

from tcplab.errors import LabError, ParameterError

#: Where a hand-out goes unless told: a file that an LMS can give to one student.
INTO: Final = "handout/{assignment}/{student}.zip"


def add_commands(commands: Any) -> None:
    """Adds the instructor's commands to those of `tcplab`."""
    _add_collect(commands)
    _add_grade(commands)
    _add_class_predictions(commands)
    _add_draw(commands)
    _add_handout(commands)
    _add_try(commands)
    _add_new(commands)


def _add_grade(commands: Any) -> None:
    words = "grade all submissions of an assignment, in sandboxes, and write the report"
    grade = commands.add_parser("grade", help=words, description=words)
    grade.add_argument("assignment", help="such as ps5")
    grade.add_argument("students", nargs="*", help="only these")
    grade.add_argument(
        "--jobs",
        type=int,
        default=0,
        help="submissions judged at a time (default: one per processor)",
        metavar="N",
    )
    grade.add_argument(
        "--again",
        nargs="*",
        help="also what is graded and unchanged (of these students, if any are named)",
        metavar="STUDENT",
    )
    grade.add_argument("--no-feedback", action="store_true", help="make no feedback pages")
    grade.add_argument(
        "--unsafe-no-sandbox",
        action="store_true",
        help="run submissions without a sandbox; every feedback then says so",
    )
    words = "grade on the workers of Dask's scheduler, such as tcp://10.0.0.5:8786"
    grade.add_argument("--scheduler", default="", help=words, metavar="ADDRESS")
    words = "grade what arrives in nbgrader's exchange and give feedback at once, until Ctrl-C"
    grade.add_argument("--watch", action="store_true", help=words)
    grade.add_argument(
        "--tries",
        type=int,
        help="with --watch: show a question's result for N submissions where it lacks points (5)",
        metavar="N",
    )
    grade.add_argument("--course", type=Path, default=Path(), help="folder (default: this one)")
    grade.set_defaults(action=_grade)


def _add_collect(commands: Any) -> None:
    words = (
        "make submissions of what an LMS hands out, LOGIN.zip of each, or of nbgrader's exchange"
    )
    collect = commands.add_parser("collect", help=words, description=words)
    collect.add_argument("assignment", help="such as ps5")
    collect.add_argument(
        "downloads",
        nargs="+",
        type=Path,
        help="the LMS's one archive of all, or a folder with the learners' archives",
        metavar="DOWNLOAD",
    )
    words = "also submissions that are there already and differ"
    collect.add_argument("--replace", action="store_true", help=words)
    collect.add_argument("--course", type=Path, default=Path(), help="folder (default: this one)")
    collect.set_defaults(action=_collect)


def _add_class_predictions(commands: Any) -> None:
    words = "how far the guesses of a class were from what was measured, per question"
    guesses = commands.add_parser("class-predictions", help=words, description=words)
    guesses.add_argument(
        "files",
        nargs="+",
        type=Path,
        help="learners' predictions.json, or folders with them, such as submitted/",
        metavar="FILE",
    )
    guesses.add_argument("--lesson", help="only this one, such as 05")
    guesses.add_argument(
        "--figures",
        type=Path,
        help="folder for a picture per lesson, predictions-05.png",
        metavar="FOLDER",
    )
    guesses.set_defaults(action=_class_predictions)


def _add_draw(commands: Any) -> None:
    words = "make numbers and captures that are this course's own, of its secret"
    draw = commands.add_parser("draw", help=words, description=words)
    draw.add_argument("assignments", nargs="*", help="such as ps5 (default: all)")
    draw.add_argument("--new-secret", action="store_true", help="first give the course another one")
    draw.add_argument(
        "--captures",
        type=int,
        default=0,
        help="per assignment; 96 or more, and as many as there are learners (default: as now)",
        metavar="N",
    )
    draw.add_argument(
        "--only", type=int, nargs="+", default=(), help="record these captures only", metavar="N"
    )
    draw.add_argument("--course", type=Path, default=Path(), help="folder (default: this one)")
    draw.set_defaults(action=_draw)


def _add_handout(commands: Any) -> None:
    words = "copy a released exercise for each student, with their own captures and no others"
    handout = commands.add_parser("handout", help=words, description=words)
    handout.add_argument("assignment", help="such as ps5")
    handout.add_argument(
        "--students", type=Path, required=True, help="one id per line", metavar="FILE"
    )
    handout.add_argument(
        "--into", default=INTO, help=f"a .zip or a folder (default: {INTO})", metavar="WHERE"
    )
    handout.add_argument("--course", type=Path, default=Path(), help="folder (default: this one)")
    handout.set_defaults(action=_hand_out)


def _add_try(commands: Any) -> None:
    words = "judge an assignment's solution, the untouched exercise and its mutants"
    trial = commands.add_parser("try-assignment", help=words, description=words)
    trial.add_argument("assignment")
    trial.add_argument("names", nargs="*", help="reference, untouched or a mutant (default: all)")
    trial.add_argument("--student", default="ada", help="whose numbers (default ada)")
    trial.add_argument("--course", type=Path, default=Path(), help="folder (default: this one)")
    trial.set_defaults(action=_try)


def _add_new(commands: Any) -> None:
    words = "make the source folder of an assignment of your own"
    new = commands.add_parser("new-assignment", help=words, description=words)
    new.add_argument("name", help="letters, digits, - and _")
    new.add_argument("--course", type=Path, default=Path(), help="folder (default: this one)")
    new.set_defaults(action=_new)


def _grade(arguments: argparse.Namespace) -> int:
    from tcplab.grading.pool import note_interrupt, on_interrupt

    with on_interrupt(note_interrupt):
        from sqlalchemy.exc import OperationalError

        try:
            return _watch(arguments) if arguments.watch else _grade_all(arguments)
        except OperationalError as failure:  # locked by another program, say, or on a full disk
            raise LabError(
                f"the gradebook cannot be used ({failure.orig});"
                " when it can, the same command goes on"
            ) from None


def _grade_all(arguments: argparse.Namespace) -> int:
    from tcplab.grading.batch import grade
    from tcplab.grading.neutral import one_line

    if arguments.tries is not None:
        raise ParameterError("--tries is of --watch: nothing goes back at once without it")
    run = grade(
        arguments.assignment,
        course=arguments.course,
        jobs=arguments.jobs,
        scheduler=arguments.scheduler,
        students=[*arguments.students, *(arguments.again or ())],
        again=arguments.again is not None,
        feedback=not arguments.no_feedback,
        unsafe_no_sandbox=arguments.unsafe_no_sandbox,
    )
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


def _watch(arguments: argparse.Namespace) -> int:
    from tcplab.grading.watch import TRIES, watch

    for option in ("students", "again", "no_feedback"):
        if getattr(arguments, option) not in ([], None, False):
            raise ParameterError(f"--watch grades what arrives; it does not go with {option}")

    def tell(line: str) -> None:
        print(line, flush=True)

    watched = watch(
        arguments.assignment,
        tell,
        course=arguments.course,
        jobs=arguments.jobs,
        scheduler=arguments.scheduler,
        tries=TRIES if arguments.tries is None else arguments.tries,
        unsafe_no_sandbox=arguments.unsafe_no_sandbox,
    )
    pages = len(watched.waited_s)
    within = f", 95 % of them within {watched.p95_s():.1f} s" if pages else ""
    print(f"\n{pages} pages released{within}; {len(watched.batch.failed)} without a grade")
    print(f"report: {os.path.relpath(watched.batch.report or '')}")
    return 1 if watched.batch.failed or watched.batch.no_feedback else 0


def _collect(arguments: argparse.Namespace) -> int:
    from tcplab.grading.collect import collect
    from tcplab.grading.neutral import one_line
    from tcplab.tables import Table

    collected = collect(
        arguments.assignment,
        arguments.downloads,
        course=arguments.course,
        replace=arguments.replace,
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


def _class_predictions(arguments: argparse.Namespace) -> int:
    from tcplab.course.class_figure import histograms
    from tcplab.course.class_predictions import class_predictions
    from tcplab.grading.neutral import one_line

    found = class_predictions(arguments.files)
    found = found.of(arguments.lesson) if arguments.lesson else found
    print(found.table)
    for lesson in dict.fromkeys(each.lesson for each in found.guesses) if arguments.figures else ():
        arguments.figures.mkdir(parents=True, exist_ok=True)
        path = arguments.figures / f"predictions-{lesson}.png"
        try:
            histograms(found.of(lesson)).save(path)
            print(f"figure: {path}")
        except ValueError as nothing_to_draw:
            print(f"tcplab: lesson {lesson}: no figure: {nothing_to_draw}", file=sys.stderr)
    for file, reason in found.left_out.items():
        print(f"tcplab: {one_line(file)}: left out: {one_line(reason)}", file=sys.stderr)
    return 1 if found.left_out else 0


def _draw(arguments: argparse.Namespace) -> int:
    from tqdm import tqdm

    from tcplab.grading.drawing import assignments, draw, new_secret

    sources = arguments.course.resolve() / "solutions"
    known = {each.name: each for each in assignments(sources)}
    if unknown := sorted(set(arguments.assignments) - set(known)):
        raise ParameterError(f"no assignment {', '.join(unknown)}; there are {', '.join(known)}")
    if arguments.new_secret and arguments.assignments:
        raise ParameterError("a new secret is for all assignments; name none of them")
    if arguments.new_secret:
        new_secret(sources)
    for name in arguments.assignments or known:
        with tqdm(desc=name, unit="capture", disable=None) as bar:
            for done, total in draw(known[name], captures=arguments.captures, only=arguments.only):
                bar.total, bar.n = total, done
                bar.refresh()
    print("drawn; now make what learners get: nbgrader generate_assignment NAME --force")
    return 0


def _hand_out(arguments: argparse.Namespace) -> int:
    from tcplab.grading.handout import hand_out, students_in

    course = arguments.course.resolve()
    released = course / "exercises" / arguments.assignment
    students = students_in(arguments.students)
    for _made in hand_out(released, students, str(course / arguments.into)):
        pass
    print(f"{len(students)} times {arguments.assignment}, into {arguments.into}")
    return 0


def _try(arguments: argparse.Namespace) -> int:
    from tcplab.grading.trial import Trial
    from tcplab.tables import Table

    trial = Trial(arguments.course.resolve() / "solutions" / arguments.assignment)
    tried = [trial.run(name, arguments.student) for name in arguments.names or trial.names()]
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


def _new(arguments: argparse.Namespace) -> int:
    from tcplab.grading.new import new_assignment

    folder = new_assignment(arguments.course, arguments.name)
    shown = os.path.relpath(folder)
    print(f"{shown}: edit task.py, {arguments.name}.ipynb and hidden/, then")
    print(f"    tcplab try-assignment {arguments.name}")
    print(f"    nbgrader generate_assignment {arguments.name}")
    return 0
