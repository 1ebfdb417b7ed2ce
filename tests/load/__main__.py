"""Try the hub with a class of N learners and an instructor.

    sudo env PATH="$PATH" .venv/bin/python -m tests.load [--learners 20] [--lesson small-writes]
                                                                [--assignment pipes]

It starts a JupyterHub with the configuration of deploy/jupyterhub, and makes a system user for each
person, which is removed again. Over the hub's web address, as browsers do, all learners at once

  - log in by name and password;
  - run the whole lesson, whose claims must hold for each of them;
  - make a laboratory each, and try to look into the others' laboratories;
  - fetch the assignment, and hand it in solved, untouched, or with one of the known mistakes.

Then the instructor collects the submissions, runs `tcplab grade`, and releases the feedback. Every
score must be the expected one. The exit status is the number of people with failures. The command
needs root to make users, jupyterhub in .venv, and configurable-http-proxy on the PATH.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

import httpx
from tests.load.accounts import Account, accounts
from tests.load.homework import HandIn, do_homework, fetch_feedback, hand_ins
from tests.load.hub import running_hub
from tests.load.person import Kernel, Person, TroubleError
from tests.support.paths import ROOT

HERE = Path(__file__).resolve().parent
INTRUDER = (HERE / "intruder.py").read_text()

INFINITY = float("inf")


@dataclass(frozen=True)
class Claim:
    """A number in the lesson's variables that must be within wide bounds for each learner."""

    label: str
    expression: str
    low: float
    high: float = INFINITY


_DEFAULT = "result['default'].ms_per_message"
CLAIMS = {
    "small-writes": (
        Claim("packets lost by a recorder", "result.provenance['capture_drops']", 0, 0),
        Claim("Nagle / TCP_NODELAY (ms)", f"{_DEFAULT} / result['no_delay'].ms_per_message", 4),
        Claim("Nagle / writev (ms)", f"{_DEFAULT} / result['writev'].ms_per_message", 4),
        Claim("slow combinations of four", "slow", 1, 1),
        Claim("panels that measured", "int(panel.phase == 'done')", 1, 1),
    ),
}
BEFORE_CLAIMS = """
from tcplab import widgets
panel = widgets.small_writes().start().wait(3600)
"""


@dataclass
class Attendance:
    """One person, with the times and failures of the day."""

    account: Account
    person: Person
    hand_in: HandIn | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    cells: int = 0
    cells_that_waited: int = 0
    refusals: int = 0
    score: float | None = None
    failures: list[str] = field(default_factory=list)


async def everybody(
    phase: str, people: Sequence[Attendance], do: Callable[[Attendance], Awaitable[None]]
) -> None:
    """Let all people act at once; note a person's failure without stopping the others."""
    started_s = time.monotonic()

    async def one(attendance: Attendance) -> None:
        began_s, known = time.monotonic(), len(attendance.failures)
        try:
            await do(attendance)
        except (TroubleError, OSError, httpx.HTTPError, ValueError, KeyError) as error:
            attendance.failures.append(f"{phase}: {type(error).__name__}: {error}")
        attendance.seconds[phase] = time.monotonic() - began_s
        for failure in attendance.failures[known:]:
            say(f"{attendance.account.name}: {' '.join(failure.split())[:600]}")

    await asyncio.gather(*(one(attendance) for attendance in people))
    say(f"{phase}: {time.monotonic() - started_s:.0f} s")


async def class_day(
    learners: list[Attendance], instructor: Attendance, arguments: argparse.Namespace
) -> None:
    """Play the day, from the first login to the feedback."""
    async with AsyncExitStack() as stack:
        for attendance in (*learners, instructor):
            await stack.enter_async_context(attendance.person)
        await wait_for_hub(instructor.person.url)
        if arguments.assignment:
            await everybody("release", [instructor], lambda teacher: release(teacher, arguments))
        await everybody("log in", learners, log_in)
        await everybody("lesson", learners, lambda learner: attend(learner, arguments))
        await try_to_look_into_others(learners)
        if arguments.assignment:
            await everybody(
                "homework", learners, lambda learner: work(learner, arguments.assignment)
            )
            await everybody(
                "grading", [instructor], lambda teacher: grade(teacher, learners, arguments)
            )
            await everybody(
                "feedback",
                learners,
                lambda learner: fetch_feedback(learner.person, arguments.assignment),
            )


async def wait_for_hub(url: str) -> None:
    async with httpx.AsyncClient() as client:
        for _ in range(240):
            with suppress(httpx.HTTPError):
                if (await client.get(f"{url}/hub/api/")).is_success:
                    return
            await asyncio.sleep(0.5)
    raise TroubleError("the hub does not answer: see its log (--keep-log)")


# ---- learners ------------------------------------------------------------------------------------


async def log_in(learner: Attendance) -> None:
    await learner.person.log_in()


async def attend(learner: Attendance, arguments: argparse.Namespace) -> None:
    """Run the learner's own copy of the lesson, and check its claims."""
    path = f"lessons/{arguments.notebook}"
    notebook = await learner.person.read(path)
    sources = [cell["source"] for cell in notebook["cells"] if cell["cell_type"] == "code"]
    async with await learner.person.open_kernel(path) as kernel:
        for number, source in enumerate(sources[: arguments.cells]):
            if "predictions.predict(" in source:
                source = source.replace("=None", '="skip"')
            run = await kernel.run(source)
            learner.cells += 1
            learner.cells_that_waited += run.waited
            learner.failures += [f"cell {number}: {complaint}" for complaint in run.complaints]
        claims = CLAIMS.get(arguments.lesson, ()) if arguments.cells is None else ()
        if claims:
            await must_run(kernel, BEFORE_CLAIMS)
        for claim in claims:
            value = float(await must_run(kernel, f"print({claim.expression})"))
            if not claim.low <= value <= claim.high:
                limits = f"must be from {claim.low:g} to {claim.high:g}"
                learner.failures.append(f"{claim.label}: {value:g} {limits}")


async def must_run(kernel: Kernel, source: str) -> str:
    """Run a cell and return its text; raise TroubleError if the cell fails."""
    run = await kernel.run(source)
    if run.complaints:
        raise TroubleError(run.complaints[0])
    return run.text


async def try_to_look_into_others(learners: Sequence[Attendance]) -> None:
    """Let each learner try to see or enter the others' laboratories."""
    secrets = {learner.account.name: f"<secret of {learner.account.name}>" for learner in learners}
    homes = [str(learner.account.home) for learner in learners]
    kernels: dict[str, Kernel] = {}

    async def call(learner: Attendance, expression: str) -> Any:
        kernel = kernels[learner.account.name]
        return json.loads(await must_run(kernel, f"import json; print(json.dumps({expression}))"))

    async def open_up(learner: Attendance) -> None:
        kernel = await learner.person.open_kernel("lessons/neighbours.ipynb")
        kernels[learner.account.name] = kernel
        await must_run(kernel, INTRUDER)
        await call(learner, "open_up()")

    async def talk(learner: Attendance) -> None:
        await call(learner, f"talk({secrets[learner.account.name]!r})")

    async def intrude(learner: Attendance) -> None:
        tried = await call(learner, "intrude()")
        learner.refusals = tried["refused"]
        learner.failures += [
            f"not even to an own child: {attempt}" for attempt in tried["control_refused"]
        ]
        learner.failures += [
            f"could get at another learner: {attempt}" for attempt in tried["entered"]
        ]
        if tried["laboratories"] < len(learners) - 1:
            learner.failures.append(f"only {tried['laboratories']} other laboratories to try")
        readable = await call(learner, f"read_others({homes!r})")
        learner.failures += [f"can read {path}" for path in readable]

    async def look(learner: Attendance) -> None:
        seen = await call(learner, f"look({list(secrets.values())!r})")
        if seen["seen"] != [secrets[learner.account.name]] or seen["drops"] != 0:
            learner.failures.append(f"a recording of the own laboratory holds {seen}")
        await kernels.pop(learner.account.name).__aexit__()

    for phase, do in (
        ("laboratories", open_up),
        ("talking in them", talk),
        ("intruding", intrude),
        ("looking at recordings", look),
    ):
        await everybody(phase, [learner for learner in learners if not learner.failures], do)


async def work(learner: Attendance, assignment: str) -> None:
    assert learner.hand_in is not None
    await do_homework(learner.person, assignment, learner.hand_in)


# ---- the instructor ------------------------------------------------------------------------------


async def shell(instructor: Attendance, kernel: Kernel, *command: str) -> str:
    """Run a command in the instructor's course folder."""
    folder = str(instructor.account.home / "course")
    return await must_run(
        kernel,
        f"import subprocess\n"
        f"done = subprocess.run({list(command)!r}, cwd={folder!r},"
        " capture_output=True, text=True)\n"
        "print(done.stdout)\n"
        "assert done.returncode == 0, (done.stdout + done.stderr)[-1000:]",
    )


async def release(instructor: Attendance, arguments: argparse.Namespace) -> None:
    """Make the learners' version and release it to the exchange."""
    await instructor.person.log_in()
    async with await instructor.person.open_kernel("lessons/office.ipynb") as kernel:
        await shell(instructor, kernel, "nbgrader", "generate_assignment", arguments.assignment)
        await shell(instructor, kernel, "nbgrader", "release_assignment", arguments.assignment)


async def grade(
    instructor: Attendance, learners: Sequence[Attendance], arguments: argparse.Namespace
) -> None:
    """Collect, grade, compare every score with the expected one, and give feedback."""
    name = arguments.assignment
    async with await instructor.person.open_kernel("lessons/office.ipynb") as kernel:
        for step, command in (
            ("collect", ["nbgrader", "collect", name]),
            ("tcplab grade", ["tcplab", "grade", name]),
            ("release feedback", ["nbgrader", "release_feedback", name]),
        ):
            began_s = time.monotonic()
            await shell(instructor, kernel, *command)
            instructor.seconds[step] = time.monotonic() - began_s
        table = await shell(instructor, kernel, "cat", f"reports/{name}/grades.csv")
    rows = csv.DictReader(StringIO(table.strip()))
    scores = {row["student"]: float(row["score"] or "nan") for row in rows}
    for learner in learners:
        assert learner.hand_in is not None
        learner.score = scores.get(learner.account.name)
        if learner.score != learner.hand_in.score:
            learner.failures.append(
                f"{learner.hand_in.name}: {learner.score} points, not {learner.hand_in.score}"
            )


# ---- the whole -----------------------------------------------------------------------------------


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {text}", flush=True)


def main() -> int:
    """Play the class day, and return the number of people with failures."""
    arguments = parse()
    # Users and servers must be removed even if the test is terminated.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    names = [f"tcplab-try-{number:02}" for number in range(1, arguments.learners + 1)]
    # A systemd unit has a private /tmp, without the homes that are made here.
    place = "/srv" if arguments.spawner == "systemd" else None
    with tempfile.TemporaryDirectory(prefix="tcplab-hub-", dir=place) as directory:
        work = Path(directory)
        work.chmod(0o755)
        with accounts([*names, "tcplab-try-teacher"], work / "home") as made:
            refuse_unreachable_python(made[0])
            course = lay_out_course(work)
            lay_out_office(made[-1])
            log_path = arguments.keep_log or work / "hub.log"
            with (
                log_path.open("w") as log,
                running_hub(work, course, log, spawner=arguments.spawner) as url,
            ):
                people = [Attendance(user, Person(url, user.name, user.password)) for user in made]
                *learners, instructor = people
                if arguments.assignment:
                    source = ROOT / "solutions" / arguments.assignment
                    for learner, hand_in in zip(
                        learners, hand_ins(source, len(learners)), strict=True
                    ):
                        learner.hand_in = hand_in
                asyncio.run(class_day(learners, instructor, arguments))
    report(learners, instructor)
    return sum(bool(attendance.failures) for attendance in people)


def parse() -> argparse.Namespace:
    """Parse the command line; refuse to run where the test is impossible."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.load",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parser.add_argument("--learners", type=int, default=20, help="1 to 99 (default 20)")
    parser.add_argument("--lesson", default="small-writes", help="its slug (default small-writes)")
    parser.add_argument(
        "--cells", type=int, help="number of the lesson's cells to run, from the first"
    )
    parser.add_argument("--assignment", default="pipes", help="default pipes; empty for none")
    parser.add_argument(
        "--spawner",
        choices=("localprocess", "systemd"),
        default="localprocess",
        help="systemd, where it runs: with the limits of a department's hub (default localprocess)",
    )
    parser.add_argument("--keep-log", type=Path, help="where the hub's log goes")
    arguments = parser.parse_args()
    if not 1 <= arguments.learners <= 99:
        parser.error(f"--learners {arguments.learners}: from 1 to 99")
    matches = [path.name for path in (ROOT / "lessons").glob(f"[0-9]*-{arguments.lesson}.ipynb")]
    if len(matches) != 1:
        parser.error(
            f"--lesson {arguments.lesson}: no such lesson; give a slug such as small-writes"
        )
    arguments.notebook = matches[0]
    if arguments.assignment and not (ROOT / "solutions" / arguments.assignment).is_dir():
        parser.error(f"--assignment {arguments.assignment}: there is none in solutions/")
    if os.getuid() != 0:
        parser.error(
            "run it as root: it adds a system user for each learner and removes them at the end"
        )
    if shutil.which("configurable-http-proxy") is None:
        parser.error("configurable-http-proxy is not on the PATH: npm install it")
    if not Path(sys.prefix, "bin", "jupyterhub-singleuser").exists():
        parser.error(f"no jupyterhub in {sys.prefix}: .venv/bin/uv pip install jupyterhub")
    return arguments


def refuse_unreachable_python(learner: Account) -> None:
    """Exit if learners cannot run this Python, for example because it is in root's home."""
    command = [sys.executable, "-c", "import tcplab, jupyterhub"]
    become = ["setpriv", f"--reuid={learner.uid}", f"--regid={learner.gid}", "--clear-groups"]
    done = subprocess.run([*become, *command], cwd="/", capture_output=True, check=False)
    if done.returncode:
        sys.exit(f"load: learners cannot run {sys.executable}; put the course where all may go")


def lay_out_course(work: Path) -> Path:
    """Copy the course for the hub's users, without solutions."""
    course = work / "course"
    course.mkdir()
    (course / ".venv").symlink_to(sys.prefix)
    for folder in ("lessons", "docs", "tools"):
        shutil.copytree(ROOT / folder, course / folder)
    shutil.copy(ROOT / "start.ipynb", course)
    return course


def lay_out_office(instructor: Account) -> None:
    """Make the instructor's folder, as deploy/jupyterhub/README.md says."""
    folder = instructor.home / "course"
    shutil.copytree(ROOT / "solutions", folder / "solutions")
    shutil.copy(ROOT / "nbgrader_config.py", folder)
    folder.chmod(0o700)
    for path in (folder, *folder.rglob("*")):
        os.chown(path, instructor.uid, instructor.gid)


def report(learners: Sequence[Attendance], instructor: Attendance) -> None:
    """Print the times, the counts, and the first five failures of each person."""
    print(f"\n{'':34}{'median':>9}{'most':>9}")
    for phase in ("log in", "lesson", "homework"):
        if spent_s := [learner.seconds[phase] for learner in learners if phase in learner.seconds]:
            print(f"{phase + ' (s)':34}{statistics.median(spent_s):9.1f}{max(spent_s):9.1f}")
    for step in ("collect", "tcplab grade", "release feedback"):
        if step in instructor.seconds:
            print(f"{step + ' (s)':34}{instructor.seconds[step]:9.1f}")
    people = (*learners, instructor)
    failed = [attendance for attendance in people if attendance.failures]
    cells = sum(learner.cells for learner in learners)
    waited = sum(learner.cells_that_waited for learner in learners)
    print(f"\n{len(learners)} learners ran {cells} cells; {waited} said that they wait")
    refusals = sum(learner.refusals for learner in learners)
    print(f"{refusals} tries to get at somebody else's laboratory or processes were refused")
    scored = [learner for learner in learners if learner.score is not None]
    if scored:
        right = sum(learner.score == learner.hand_in.score for learner in scored if learner.hand_in)
        print(f"{len(scored)} have a score, {right} of them the one that must come out")
    print(f"{len(failed)} people with failures")
    for attendance in failed:
        name, failures = attendance.account.name, attendance.failures
        print(f"{name}: {len(failures)} failures: {'; '.join(failures[:5])}")


if __name__ == "__main__":
    sys.exit(main())
