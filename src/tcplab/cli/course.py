"""Commands for learners and lecturers: doctor, ready, quickstart, demo, study and progress."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tcplab.checks.parameters import Spelled
from tcplab.cli.loading import loading


def doctor(*, versions: bool = False) -> int:
    """Show which parts of the course this machine can run, and how to enable the rest.

    Args:
        versions: show the installed and the required version of each package.

    Example: tcplab doctor --versions
    """
    with loading():
        from tcplab.course import doctor

    if versions:
        installed = doctor.version_table()
        print(installed.for_terminal())
        return 0 if all(row["compatible"] == "yes" for row in installed.rows) else 1
    abilities = doctor.capabilities()
    print(doctor.capability_table(abilities).for_terminal())
    for capability in abilities:
        if capability.advice:
            print(f"\n{capability.name}: {capability.finding}\n  → {capability.advice}")
    print()
    print(doctor.lesson_table().for_terminal())
    print()
    print(doctor.program_table().for_terminal())
    return 0 if all(capability.ok for capability in abilities) else 1


def ready() -> int:
    """Ask ten questions about the background that the course assumes; suggest a text for each gap.

    Example: tcplab ready
    """
    from tcplab.course.ready import ask_all

    ask_all()
    return 0


def quickstart(directory: Annotated[Path, Spelled(Path, "DIRECTORY")]) -> int:
    """Copy the lessons and exercises into a new directory.

    Args:
        directory: where to copy them; must be new or empty.

    Example: tcplab quickstart tcplab-course
    """
    from tcplab.course import files

    files.quickstart(directory)
    print(f"Continue with:\n  cd {directory}\n  jupyter lab start.ipynb")
    return 0


def demo(
    name: str | None = None, *, slides: Annotated[Path | None, Spelled(Path, "DIR")] = None
) -> int:
    """Open a lecture demo in the browser; without a name, list all demos.

    Args:
        name: name of the demo, or path of your own NAME.toml.
        slides: write each step's slide (PNG) and notes into DIR; without a name, for all demos.

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
        name: name of the problem set, such as small-writes.
        questions: grade only these questions, such as q1 (default: all).
        answers: show the model answers immediately.

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
