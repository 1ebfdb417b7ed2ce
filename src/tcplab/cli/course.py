"""The commands of a learner and a lecturer: doctor, ready, quickstart, demo, study and progress."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from tcplab.checks.parameters import Spelled
from tcplab.cli.loading import loading


def doctor(*, versions: bool = False) -> int:
    """Show what this machine can do, and what to do about it.

    Args:
        versions: the version of each package, beside the one that the course asks for.

    Example: tcplab doctor --versions
    """
    with loading():
        from tcplab.course import doctor

    if versions:
        installed = doctor.version_table()
        print(installed.for_terminal())
        return 0 if all(row["fits"] == "yes" for row in installed.rows) else 1
    found = doctor.capabilities()
    print(doctor.capability_table(found).for_terminal())
    for capability in found:
        if capability.advice:
            print(f"\n{capability.name}: {capability.finding}\n  → {capability.advice}")
    print()
    print(doctor.lesson_table().for_terminal())
    print()
    print(doctor.program_table().for_terminal())
    return 0 if all(capability.ok is not False for capability in found) else 1


def ready() -> int:
    """Ask ten questions on what the course takes for granted, with a link for each gap.

    Example: tcplab ready
    """
    from tcplab.course.ready import ask_all

    ask_all(sys.stdin, sys.stdout)
    return 0


def quickstart(directory: Annotated[Path, Spelled(Path, "DIRECTORY")]) -> int:
    """Copy the lessons and exercises into a new directory.

    Args:
        directory: new or empty.

    Example: tcplab quickstart tcplab-course
    """
    from tcplab.course import files

    files.quickstart(directory)
    print(f"Go on with:\n  cd {directory}\n  jupyter lab start.ipynb")
    return 0


def demo(
    name: str | None = None, *, slides: Annotated[Path | None, Spelled(Path, "DIR")] = None
) -> int:
    """Open a demonstration for a lecture in the browser; without a name, list them.

    Args:
        name: of the demo, or a file NAME.toml of your own.
        slides: write each step as slides (PNG) with notes; of all demos without a name.

    Example: tcplab demo small-writes
    """
    with loading():
        from tcplab import demos

    if slides:
        from tcplab.demos.slides import write_slides

        write_slides([demos.find(name)] if name else demos.every(), slides)
    elif name is None:
        for known in demos.every():
            print(f"{known.name:18}lesson {known.lesson}  {known.title} ({len(known.steps)} steps)")
    else:
        from tcplab.demos.page import open_page

        open_page(name)
    return 0


def study(name: str, *questions: str, answers: bool = False) -> int:
    """Grade your attempt at a problem set; after the second attempt, show the model answer.

    Args:
        name: of the problem set, such as small-writes.
        questions: only these, such as q1 (default: all).
        answers: show the model answers at once.

    Example: tcplab study small-writes q1 q7
    """
    with loading():
        from tcplab.grading.study import study

    print(study(name, *questions, answers=answers))
    return 0


def progress() -> int:
    """Show what you have predicted and attempted so far, one row per lesson.

    Example: tcplab progress
    """
    with loading():
        from tcplab.course.progress import progress

    print(progress().narrow(100))
    return 0
