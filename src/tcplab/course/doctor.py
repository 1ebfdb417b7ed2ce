"""Report what the machine can do, the mode of each lesson, and how to run more lessons live."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import dataclass, replace
from pathlib import Path

from tcplab import machine
from tcplab.errors import LabError
from tcplab.lab import congestion_controls, program_path, why_no_lab
from tcplab.programs.sources import course_folder
from tcplab.tables import Table


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
    return [
        _kernel(),
        _cores(),
        _programs(),
        _compiler(),
        _namespaces(),
        _congestion_control(),
    ]


def mode_of(lesson: Lesson, blocked: str | None) -> tuple[str, str]:
    """Return a lesson's mode (live, loopback, recorded) and its meaning, given why_no_lab()."""
    if blocked is None:
        absent = [name for name in lesson.programs if machine.find(name) is None]
        without = f" except what needs {', '.join(absent)} (not installed)" if absent else ""
        return "live", f"everything in it runs here{without}"
    if lesson.on_loopback:
        return "loopback", f"live: {lesson.on_loopback}; the rest is shown from recordings"
    return "recorded", "all of it needs a laboratory: shown from recordings"


def capability_table(capabilities: list[Capability]) -> Table:
    """Return the table of capabilities that the doctor prints."""
    rows = [(one.name, "yes" if one.ok else "NO", one.finding) for one in capabilities]
    return Table.of(["capability", "usable", "finding"], rows)


def lesson_table() -> Table:
    """Return a table with the mode of each lesson on this machine."""
    blocked = why_no_lab()
    rows = [(lesson.slug, lesson.title, *mode_of(lesson, blocked)) for lesson in lessons()]
    here = Path.cwd()
    at_hand = any((folder / "lessons").is_dir() for folder in (here, *here.parents))
    caption = "" if at_hand else "To get the lessons and exercises: tcplab quickstart DIRECTORY"
    return replace(Table.of(["lesson", "title", "mode", "what runs"], rows), caption=caption)


def program_table() -> Table:
    """Return a table of the programs and libraries that the course uses, installed or not."""
    rows = [
        (name, "yes" if machine.find(name) else "NO", need.package, need.use)
        for name, need in machine.NEEDS.items()
        if need.use
    ]
    absent = sorted({package for _name, here, package, _use in rows if here == "NO"})
    caption = f"To install what is missing: apt install {' '.join(absent)}" if absent else ""
    table = Table.of(["program", "installed", "package", "purpose"], rows)
    return replace(table, caption=caption)


def version_table() -> Table:
    """Return a table with the required and the installed version of each package."""
    from importlib.metadata import PackageNotFoundError, requires, version

    machine.require_modules("packaging")
    from packaging.requirements import Requirement

    rows = [
        ("tcplab", "", version("tcplab"), "yes"),
        ("python", "", platform.python_version(), "yes"),
        ("linux", ">=5.6", platform.release(), "yes"),
    ]
    for text in requires("tcplab") or ():
        wanted = Requirement(text)
        extras = ("", "course", "grading")
        if wanted.marker and not any(wanted.marker.evaluate({"extra": extra}) for extra in extras):
            continue
        try:
            here = version(wanted.name)
            fits = "yes" if wanted.specifier.contains(here, prereleases=True) else "NO"
        except PackageNotFoundError:
            here, fits = "not installed", "NO"
        rows.append((wanted.name, str(wanted.specifier), here, fits))
    return Table.of(["package", "required", "installed", "compatible"], rows)


def _kernel() -> Capability:
    system, release = platform.system(), platform.release()
    new_enough = system == "Linux" and tuple(map(int, release.split(".")[:2])) >= (5, 6)
    advice = "" if new_enough else "use a Linux kernel of version 5.6 or later"
    return Capability("kernel", new_enough, f"{system} {release}", advice)


def _cores() -> Capability:
    cores = len(os.sched_getaffinity(0))
    advice = (
        "" if cores > 1 else "give the machine two cores: the hosts and the wire share this one"
    )
    return Capability("cores", cores > 1, str(cores), advice)


def _programs() -> Capability:
    try:
        return Capability("C programs", True, f"in {program_path('lab_init').parent}")
    except LabError as error:
        return Capability("C programs", False, "not built", str(error))


def _compiler() -> Capability:
    path = machine.find("cc")
    return Capability("C compiler", bool(path), path or "none", machine.lacking("cc"))


def _namespaces() -> Capability:
    try:
        why = why_no_lab()
    except OSError as error:
        why = str(error)
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
