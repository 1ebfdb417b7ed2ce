"""Copy the course for a learner, and open JupyterLab without the instructor's tools."""

import os
import shutil
import sys
from pathlib import Path
from typing import Final

from tcplab import machine
from tcplab.errors import MissingError, ParameterError
from tcplab.programs.sources import course_folder

START: Final = "start.ipynb"
#: The learner's settings, which hide the developers' files, Formgrader and Create Assignment. An
#: instructor starts `jupyter lab`.
_SETTINGS: Final = "tools/learner"

#: The files that a learner needs. src/CMakeLists.txt puts them into the wheel.
NAMES: Final = (
    "start.ipynb",
    "lessons",
    "exercises",
    "docs/any-program.md",
    "docs/claims.md",
    "docs/glossary.md",
    "docs/handout.md",
    "docs/kernels.md",
    "docs/learners-guide.md",
    "docs/platforms.md",
    "LICENSE",
    "LICENSE-CC-BY-4.0",
)
#: Names of files that a learner's work creates. They are not copied.
_OF_A_LEARNER: Final = shutil.ignore_patterns(".*", "predictions.json", "captures", "__pycache__")


def quickstart(directory: Path) -> None:
    """Copy the lessons, exercises, start page and guides into a new or empty directory."""
    if directory.exists() and not (directory.is_dir() and not any(directory.iterdir())):
        raise ParameterError(f"{directory} is not an empty directory; name a new one")
    for name in NAMES:
        source, target = course_folder() / name, directory / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=_OF_A_LEARNER)
        else:
            shutil.copy(source, target)


def prepare() -> None:
    """Raise MissingError if JupyterLab is not installed or could only end with a traceback."""
    machine.require_modules("jupyterlab")
    data = os.environ.get("XDG_DATA_HOME") or str(Path("~/.local/share").expanduser())
    jupyter = os.environ.get("JUPYTER_DATA_DIR") or f"{data}/jupyter"
    runtime = Path(os.environ.get("JUPYTER_RUNTIME_DIR") or f"{jupyter}/runtime")
    try:
        runtime.mkdir(parents=True, exist_ok=True)
        writable = os.access(runtime, os.W_OK)
    except OSError:
        writable = False
    if not writable:
        raise MissingError(
            f"Jupyter cannot write to {runtime}; use another home: HOME={Path.cwd()}/build/home"
        )


def command(course: Path) -> list[str]:
    """Return the command that starts JupyterLab in the course's folder."""
    options = [
        # Show a learner only the doctor's report and the address.
        "--log-level=ERROR",
        "--LabApp.log_level=ERROR",
        f"--ServerApp.root_dir={course.resolve()}",
        f"--LabApp.default_url=/lab/tree/{START}",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]
    display = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if os.environ.get("CI") or not display:
        options.append("--no-browser")
    if listen := os.environ.get("TCPLAB_LISTEN"):  # a container's loopback cannot be reached
        options.append(f"--ServerApp.ip={listen}")
    if os.geteuid() == 0:
        options.append("--allow-root")
    return [sys.executable, "-m", "jupyterlab", *options]


def environment() -> dict[str, str]:
    """Return the environment in which JupyterLab's terminals and cells find tcplab."""
    given = os.environ
    settings = [str(course_folder() / _SETTINGS), *filter(None, [given.get("JUPYTER_CONFIG_PATH")])]
    path = [str(Path(sys.executable).parent), given.get("PATH", os.defpath)]
    return {
        **given,
        "JUPYTER_CONFIG_PATH": os.pathsep.join(settings),
        "PATH": os.pathsep.join(path),
    }
