"""Commands for learners and lecturers: doctor, ready, quickstart, demo, study and progress."""

import os
import shutil
import sys
import textwrap
from pathlib import Path
from typing import Annotated

from tcplab.checks.parameters import Spelled
from tcplab.cli.loading import loading


def doctor() -> int:
    """Show which parts of the course this machine can run, and how to enable the rest.

    Example: tcplab doctor
    """
    with loading():
        from tcplab.course import doctor

    abilities = doctor.capabilities()
    lines = [f"{'yes' if one.ok else 'NO':5}{one.name}: {one.finding}" for one in abilities]
    lines += ["", *(f"{one.name}: → {one.advice}" for one in abilities if one.advice)]
    width = min(shutil.get_terminal_size((100, 24)).columns, 100)
    for line in (*lines, *doctor.summary()):
        print(textwrap.fill(line, width, subsequent_indent="     ", break_on_hyphens=False))
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
    from tcplab.course import opening

    opening.quickstart(directory)
    print(f"Continue with: tcplab lab {directory}")
    return 0


def lab(directory: Annotated[Path, Spelled(Path, "DIRECTORY")] = Path("tcplab-course")) -> int:
    """Open the course in JupyterLab; copy it into a directory first, if there is none here.

    Args:
        directory: the course, or a new or empty directory for a copy of it.

    Example: tcplab lab
    """
    with loading():
        from tcplab.course import opening

    opening.prepare()
    here = Path()
    if directory == Path("tcplab-course") and (here / opening.START).is_file():
        directory = here
    elif not (directory / opening.START).is_file():
        opening.quickstart(directory)
    os.chdir(directory)
    doctor()
    sys.stdout.flush()
    argv = opening.command(Path())
    os.execve(argv[0], argv, opening.environment())


def demo(
    name: str | None = None,
    *,
    slides: Annotated[Path | None, Spelled(Path, "DIR")] = None,
    phones: Annotated[str | None, Spelled(str, "ADDRESS")] = None,
) -> int:
    """Open a lecture demo in the browser; without a name, list all demos.

    Args:
        name: name of the demo, or path of your own NAME.toml.
        slides: write each step's slide (PNG) and notes into DIR; without a name, for all demos.
        phones: let phones vote at this address of your machine (ADDRESS:PORT, or auto).

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
        from tcplab.demos.phones import place

        open_page(name, None if phones is None else place(phones))
    return 0


def study(name: str, *questions: str, answers: bool = False) -> int:
    """Grade your attempt at a problem set; after two different answers, show the model answer.

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
