"""Report what the machine can do, the mode of each lesson, and how to run more lessons live."""

import functools
import json
import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tcplab import machine
from tcplab.errors import LabError
from tcplab.experiments.mode import why_no_programs
from tcplab.lab import Lab, congestion_controls, program_path, why_no_lab
from tcplab.programs.sources import course_folder

_MODES: Final = {
    "live": "Live",
    "loopback": "On loopback, and the rest from recordings",
    "recorded": "From recordings",
}


@dataclass(frozen=True, slots=True)
class Capability:
    """One line of the doctor's report on the machine."""

    name: str  #: subject of the line
    ok: bool
    finding: str  #: the state on this machine
    advice: str = ""  #: the fix, or empty if none is needed


@dataclass(frozen=True, slots=True)
class Lesson:
    """A lesson, as its notebook describes it."""

    slug: str  #: name of the file without its number, such as "small-writes"
    title: str  #: title in the first heading
    #: the part of the lesson that runs on plain loopback, or empty. It comes from the notebook's
    #: metadata ({"tcplab": {"on_loopback": "..."}})
    on_loopback: str
    #: commands of other packages that the lesson runs, also from the metadata ({"programs": [...]})
    programs: tuple[str, ...] = ()


def lessons() -> list[Lesson]:
    """Return the lessons of this copy of the course, in order."""
    known = []
    for path in sorted((course_folder() / "lessons").glob("[0-9]*-*.ipynb")):
        notebook = json.loads(path.read_text())
        heading = "".join(notebook["cells"][0]["source"]).partition("\n")[0]
        about = notebook["metadata"].get("tcplab", {})
        known.append(
            Lesson(
                path.stem.partition("-")[2],
                heading.removeprefix("# ").rpartition(" · ")[2],
                about.get("on_loopback", ""),
                tuple(about.get("programs", ())),
            )
        )
    return known


def capabilities() -> list[Capability]:
    """Check what the course depends on, which takes about a tenth of a second."""
    return [*_machine(), *_programs(), _namespaces(), _congestion_control()]


def mode_of(lesson: Lesson, blocked: str | None) -> str:
    """Return a lesson's mode (live, loopback, recorded), given why_not_live()."""
    if blocked is None:
        return "live"
    return "loopback" if lesson.on_loopback and not why_no_programs() else "recorded"


@functools.cache
def why_not_live() -> str | None:
    """Return the reason why no laboratory works here, with the fix, or None if one was made."""
    try:
        if (why := why_no_lab()) is not None:
            return why
        with Lab():
            return None
    except Exception as error:  # any error, such as one of a library that is too old
        return f"{type(error).__name__}: {error}; to allow it: python -m pip check"


def summary() -> list[str]:
    """Return a line for each mode of the lessons here, and one for the programs that they lack."""
    here = lessons()
    by_mode: dict[str, list[Lesson]] = {}
    for lesson in here:
        by_mode.setdefault(mode_of(lesson, why_not_live()), []).append(lesson)
    lines = [
        f"{_MODES[mode]}: all {len(of)} lessons"
        if len(of) == len(here)
        else f"{_MODES[mode]}: {', '.join(lesson.slug for lesson in of)}"
        for mode, of in by_mode.items()
    ]
    absent: dict[str, list[str]] = {}
    for lesson in here:
        if names := [name for name in lesson.programs if machine.find(name) is None]:
            absent[lesson.slug] = names
    if absent:
        packages = sorted({machine.PACKAGES[name] for of in absent.values() for name in of})
        wanted = "; ".join(f"{', '.join(names)} (in {slug})" for slug, names in absent.items())
        lines += [f"Not installed, and optional: {wanted}", f"  → apt install {' '.join(packages)}"]
    folder = Path.cwd()
    if not any((parent / "lessons").is_dir() for parent in (folder, *folder.parents)):
        lines.append("To get the lessons and exercises, and open them: tcplab lab")
    return lines


def _machine() -> Iterator[Capability]:
    system, release = platform.system(), platform.release()
    new_enough = system == "Linux" and tuple(map(int, release.split(".")[:2])) >= (5, 6)
    advice = "" if new_enough else "use a Linux kernel of version 5.6 or later"
    yield Capability("kernel", new_enough, f"{system} {release}", advice)
    cores = len(os.sched_getaffinity(0))
    advice = "give the machine two cores: the hosts and the wire share this one"
    yield Capability("cores", cores > 1, str(cores), "" if cores > 1 else advice)


def _programs() -> Iterator[Capability]:
    path = machine.find("cc")
    try:
        yield Capability("C programs", True, f"in {program_path('lab_init').parent}")
    except LabError as error:  # without a compiler, the next line says what to do
        yield Capability("C programs", False, "not built", str(error) if path else "")
    # An installed package comes without the Makefile.
    cloned = (course_folder() / "Makefile").is_file()
    zig = "make lab CC=zig" if cloned else "pip install ziglang; export CC='python -m ziglang cc'"
    advice = "" if path else f"{machine.lacking('cc')}; or without root: {zig}"
    yield Capability("C compiler", bool(path), path or "none", advice)


def _namespaces() -> Capability:
    if why_no_programs():
        return Capability("user namespaces", False, "not tried without the C programs")
    why = why_not_live()
    if why is None:
        return Capability("user namespaces", True, "a laboratory can be made without root")
    finding, _, fix = why.partition("; to allow it: ")
    return Capability("user namespaces", False, finding, fix)


def _congestion_control() -> Capability:
    default = Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip()
    offered = congestion_controls()
    finding = f"default {default}, available {' '.join(offered)}"
    if "cubic" not in offered:
        return Capability("congestion control", False, finding, "sudo modprobe tcp_cubic")
    return Capability("congestion control", True, f"{finding}; experiments pin cubic")
