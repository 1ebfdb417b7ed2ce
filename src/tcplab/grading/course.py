"""The configuration of nbgrader for a course: folders, repairs, a sandbox instead of Execute."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tcplab.errors import ParameterError

if TYPE_CHECKING:
    from nbgrader.coursedir import CourseDirectory

    from tcplab.grading.staging import Expected


def configure(c: Any, root: Path) -> None:
    """Sets nbgrader up; the body of a course's nbgrader_config.py::

        from pathlib import Path
        from tcplab.grading.course import configure
        c = get_config()
        configure(c, Path(__file__).resolve().parent)

    Everything may be set anew after it, such as ``c.CourseDirectory.db_url``.
    """
    c.CourseDirectory.root = str(root)
    c.CourseDirectory.course_id = "tcplab"
    c.CourseDirectory.source_directory = "solutions"
    c.CourseDirectory.release_directory = "exercises"
    c.CourseDirectory.ignore = [
        ".ipynb_checkpoints",
        "*.pyc",
        "__pycache__",
        "feedback",
        # Judges, reference solutions and wrong ones: never copied to learners, nor beside them.
        "hidden",
    ]
    c.GenerateAssignment.post_convert_hook = "tcplab.grading.nbgrader_plugins.release_files"
    c.ClearSolutions.code_stub = {"python": "# Your lines go here."}
    c.ClearSolutions.text_stub = "*Write your answer here.*"
    c.ExchangeFactory.collect = "tcplab.grading.exchange.Collect"
    c.Autograde.exporter_class = "tcplab.grading.nbgrader_plugins.RepairingExporter"
    c.Autograde.autograde_preprocessors = [
        "tcplab.grading.nbgrader_plugins.SandboxedExecute",
        "nbgrader.preprocessors.IgnorePattern",
        "nbconvert.preprocessors.ClearMetadataPreprocessor",
        "nbgrader.preprocessors.LimitOutput",
        "tcplab.grading.nbgrader_plugins.SaveScores",
        "nbgrader.preprocessors.AssignLatePenalties",
        # No second CheckCellMetadata: nothing here since the first one touches metadata.
    ]
    # Texts and outputs by a stranger: the pages that an instructor opens run none of their scripts.
    c.HTMLExporter.filters = {"markdown2html": "tcplab.grading.pages.safe_markdown"}
    c.HTMLExporter.sanitize_html = True


def find_alembic() -> None:
    """Puts this Python's programs on the PATH: nbgrader runs alembic by its name."""
    programs, path = str(Path(sys.executable).parent), os.environ.get("PATH", "")
    if programs not in path.split(os.pathsep):
        os.environ["PATH"] = os.pathsep.join([programs, path])


def import_jsonschema() -> None:
    """Imports jsonschema without a grammar of international addresses, which takes 0.8 s to make.

    It serves a check of formats that the schema of notebooks does not ask for.
    """
    modules: dict[str, Any] = sys.modules
    if "jsonschema" not in modules and "rfc3987_syntax" not in modules:
        modules["rfc3987_syntax"] = None  # an import of it fails, as where it is not installed
        try:
            importlib.import_module("jsonschema")
        finally:
            del modules["rfc3987_syntax"]


def load_course(folder: Path) -> tuple[Any, CourseDirectory]:
    """nbgrader's configuration and course directory of a folder with an nbgrader_config.py.

    Raises:
        ParameterError: there is none.
    """
    import_jsonschema()
    from nbgrader.coursedir import CourseDirectory
    from traitlets.config.loader import PyFileConfigLoader

    find_alembic()
    path = folder / "nbgrader_config.py"
    if not path.is_file():
        raise ParameterError(
            f"{folder} has no nbgrader_config.py; run in the course's folder, or give --course"
        )
    config = PyFileConfigLoader(path.name, path=str(folder)).load_config()
    if "root" not in config.CourseDirectory:
        config.CourseDirectory.root = str(folder.resolve())
    return config, CourseDirectory(config=config)


def source_folder(folders: CourseDirectory, assignment: str) -> Path:
    """The instructor's folder of an assignment.

    Raises:
        ParameterError: there is none.
    """
    source = Path(folders.format_path(folders.source_directory, ".", assignment))
    if not source.is_dir():
        raise ParameterError(f"no assignment {assignment!r}: {source} does not exist")
    return source


def expected_files(folders: CourseDirectory, assignment: str) -> Expected:
    """The files of an assignment: the notebook, those of its task.py, what was handed out."""
    from tcplab.grading.assignment import Task
    from tcplab.grading.staging import Expected

    source = Path(folders.format_path(folders.source_directory, ".", assignment))
    released = Path(folders.format_path(folders.release_directory, ".", assignment))
    asked = source / "task.py"
    files = Task(asked, assignment).files if asked.is_file() else ()
    return Expected(f"{assignment}.ipynb", tuple(files), released, source.parent)
