"""Make the numbers and captures of a course from its secret (`tcplab draw`).

`solutions/secret` never leaves the course. With it, `tcplab draw` makes for each assignment:

- `course.json`, which learners get, with the number of captures and the key from which all numbers
  are derived;
- the constants of the C files that task.py names in IN_PROGRAMS, such as `STEP_BYTES = 7` for the
  number step_bytes, so that the programs of two courses behave differently;
- `captures.zip`, recorded in a Lab, and `hidden/captures.json` with the cause of each capture.
  All causes occur equally often, in an order that depends on the secret.

`hidden/scenes.py` defines what to record::

    ANSWER = "q6_reason"                           # the variable that names the cause
    CAUSES = ("corked", "held-by-nagle")           # in alphabetical order
    def draw(rng: random.Random, cause: str) -> Scene: ...
    def record(path: Path, scene: Scene) -> None: ...

A capture is recorded again if the notebook's solution does not find the intended cause in it.
"""

import ast
import hmac
import json
import random
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from tcplab.errors import LabError, ParameterError
from tcplab.grading.archive import ARCHIVE_FILE, Stored, write_archive, write_whole
from tcplab.grading.assignment import COURSE_FILE, Course, Task, load_module
from tcplab.grading.fairness import MORE_THAN_CHANCE, seen_in, share_named
from tcplab.lab.scratch import temporary_folder

SECRET_FILE: Final = "secret"
#: Maximum number of attempts to record a capture that shows its cause, and of attempts per scene.
#: An attempt fails if the machine is busy, or if the scene is a rare one that shows another cause.
ATTEMPTS: Final = 6
OF_ONE_SCENE: Final = 2
#: Maximum number of draws of a set. Among fewer captures than ENOUGH, counts often tell by chance.
DRAWS: Final = 10
ENOUGH: Final = 24
MOST_CAPTURES: Final = 1000
#: Number of simultaneous recordings. There may be several, because a recording mostly waits.
AT_A_TIME: Final = 8


def assignments(sources: Path) -> list[Path]:
    """Return the folders of a course's assignments, in the order of the lessons."""
    folders = [path.parent for path in sources.glob("*/*.ipynb") if path.stem == path.parent.name]
    lessons = sorted(sources.parent.glob("lessons/[0-9]*-*.ipynb"))
    places = {path.stem.partition("-")[2]: place for place, path in enumerate(lessons)}
    return sorted(folders, key=lambda path: (places.get(path.name, len(places)), path.name))


def read_secret(sources: Path) -> bytes:
    """Return the secret of a course, or raise ParameterError if it has none."""
    path = sources / SECRET_FILE
    try:
        return bytes.fromhex(path.read_text())
    except (OSError, ValueError):
        raise ParameterError(
            f"{path} holds no secret; make one with: tcplab draw --new-secret"
        ) from None


def new_secret(sources: Path) -> None:
    """Make a new secret. Raise ParameterError if submissions depend on the old one."""
    if any((sources.parent / "submitted").glob("*/*")):
        raise ParameterError(
            "submitted/ holds work with the numbers of the old secret; make a new secret"
            " only before the first submission"
        )
    path = sources / SECRET_FILE
    path.touch(mode=0o600)
    path.write_text(secrets.token_hex(32) + "\n")


def course_key(secret: bytes, assignment: str) -> str:
    """Return the key of an assignment's numbers. It does not reveal the secret to learners."""
    return _digest(secret, "numbers", assignment).hex()[:32]


def _digest(secret: bytes, *words: str) -> bytes:
    return hmac.digest(secret, "\0".join(words).encode(), "sha256")


def draw(source: Path, *, captures: int = 0) -> Iterator[tuple[int, int]]:
    """Write an assignment's course.json and constants, and record its captures.

    Yield (recorded, total) after each recording. The number of captures stays as it is unless
    `captures` is given. All are recorded again if their counts and sizes reveal the causes. Raise
    LabError if they still do, or if no recording of a capture shows the intended cause.
    """
    secret = read_secret(source.parent)
    path = source / "hidden" / "scenes.py"
    scenes = load_module(path, f"tcplab_scenes_{source.name}") if path.is_file() else None
    count = (captures or Course.read(source).captures) if scenes else 0
    if not 0 <= count <= MOST_CAPTURES:
        raise ParameterError(f"captures={count} must be from 1 to {MOST_CAPTURES}")
    if scenes:
        # If the recordings fail or are killed, old captures must not stay under a new secret.
        (source / ARCHIVE_FILE).unlink(missing_ok=True)
    course = Course(course_key(secret, source.name), count)
    write_whole(source / COURSE_FILE, json.dumps(course._asdict()) + "\n")
    write_constants(source)
    if scenes is None:
        return
    causes = dict(enumerate(causes_in_order(secret, source.name, scenes.CAUSES, count), start=1))
    for attempt in range(DRAWS):
        yield from _record_all(source, scenes, _digest(secret, *["again"] * attempt), causes)
        stored = [Stored(source, f"captures/{number}.pcapng") for number in causes]
        most = 1 / len(scenes.CAUSES) + MORE_THAN_CHANCE
        if count < ENOUGH or share_named(*seen_in(stored)) <= most:
            return
        (source / ARCHIVE_FILE).unlink()
    raise LabError(
        f"{source.name}: in {DRAWS} draws, counts and sizes tell too many causes; let draw() in"
        " hidden/scenes.py choose them before it looks at the cause"
    )


def _record_all(
    source: Path, scenes: ModuleType, secret: bytes, causes: Mapping[int, str]
) -> Iterator[tuple[int, int]]:
    """Record a capture for each cause, and store all of them; yield as draw() does."""
    with temporary_folder() as name:
        (folder := Path(name, "captures")).mkdir()
        with ThreadPoolExecutor(AT_A_TIME) as pool:
            recordings = [
                pool.submit(_record, source, scenes, folder / f"{number}.pcapng", secret, cause)
                for number, cause in causes.items()
            ]
            try:
                for done, recording in enumerate(as_completed(recordings), start=1):
                    recording.result()
                    yield done, len(recordings)
            finally:
                pool.shutdown(cancel_futures=True)
        # The archive comes last, so that no captures can be there with other causes.
        named = {f"{number}.pcapng": cause for number, cause in causes.items()}
        write_whole(source / "hidden" / "captures.json", json.dumps(named, indent=1) + "\n")
        write_archive(
            source, {f"captures/{path.name}": path.read_bytes() for path in folder.iterdir()}
        )


def write_constants(source: Path) -> None:
    """Write the numbers into C files. Raise ParameterError if a name in IN_PROGRAMS is in none."""
    task = Task(source / "task.py", source.name)
    for name in task.in_programs:
        constant = name.upper()
        programs = {path: path.read_text() for path in (source / "hidden").glob("*.c")}
        if not any(f" {constant} = " in program for program in programs.values()):
            raise ParameterError(
                f"{source}/task.py names {name} in IN_PROGRAMS, but no C file has {constant} = …"
            )
        drawn = f"{constant} = {task.numbers('')[name]}"
        for path, program in programs.items():
            path.write_text(re.sub(rf"\b{constant} = \d+", drawn, program))


def questions_by_choice(source: Path) -> list[str]:
    """Return the questions with few answers, whose judge calls choice() or check_choice()."""
    code = ast.parse((source / "hidden" / "judge.py").read_bytes())
    names = {each.name: _names_in(each) for each in code.body if isinstance(each, ast.FunctionDef)}
    choosing = {"choice", "check_choice"}
    for _ in names:  # a chain of calls is no longer than the list of functions
        choosing |= {function for function, used in names.items() if used & choosing}
    return [name for name in Task(source / "task.py", source.name).answers if name in choosing]


def _names_in(function: ast.FunctionDef) -> set[str]:
    """Return the names and methods that a function uses, without secrets.choice() and the like."""
    nodes = list(ast.walk(function))
    methods = {node.attr for node in nodes if isinstance(node, ast.Attribute)} - {"choice"}
    return methods | {node.id for node in nodes if isinstance(node, ast.Name)}


def causes_in_order(secret: bytes, assignment: str, causes: Sequence[str], count: int) -> list[str]:
    """Return the cause of each capture. All causes occur equally often, up to a remainder."""
    shuffled = [causes[number % len(causes)] for number in range(count)]
    random.Random(_digest(secret, "causes", assignment)).shuffle(shuffled)
    return shuffled


def _record(source: Path, scenes: ModuleType, path: Path, secret: bytes, cause: str) -> None:
    rng = random.Random(_digest(secret, source.name, path.stem))
    scene = seen = None
    for attempt in range(ATTEMPTS):
        if attempt % OF_ONE_SCENE == 0:
            scene = scenes.draw(rng, cause)
        scenes.record(path, scene)
        seen = read_by_solution(source, path, scenes.ANSWER)
        if seen == cause:
            return
    raise LabError(
        f"{source.name}: capture {path.stem} should show {cause}, but its solution found"
        f" {seen} in {ATTEMPTS} recordings; is this machine busy? The last scene: {scene}"
    )


def read_by_solution(source: Path, capture: Path, answer: str) -> Any:
    """Return the value that the notebook's solution gives the variable `answer` for a capture."""
    numbers = Task(source / "task.py", source.name).numbers("ada")
    captures = numbers.get("captures", ())
    numbers.update(capture=str(capture), captures=[str(capture)] * len(captures))
    value = solved(source, numbers)[answer]
    return value[0] if isinstance(value, list) else value


def solved(source: Path, numbers: Mapping[str, Any]) -> dict[str, Any]:
    """Run the notebook's solution for these numbers, and return its variables."""
    import nbformat

    variables: dict[str, Any] = {"n": numbers}
    for cell in nbformat.read(source / f"{source.name}.ipynb", as_version=4).cells:
        if cell.cell_type == "code" and cell.metadata.get("nbgrader", {}).get("solution"):
            exec(cell.source, variables)
    return variables
