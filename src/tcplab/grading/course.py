"""Configure nbgrader for a course: its folders, the repair of notebooks, and the sandbox."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tcplab.errors import ParameterError

if TYPE_CHECKING:
    from nbgrader.coursedir import CourseDirectory

    from tcplab.grading.staging import Expected


FEEDBACK_PAGE: Final = [
    "nbgrader.preprocessors.GetGrades",
    "nbconvert.preprocessors.CSSHTMLHeaderPreprocessor",
    "tcplab.grading.nbgrader_plugins.PageStyle",
]


def configure(c: Any, root: Path) -> None:
    """Configure nbgrader for the course in the folder `root`.

    The course's nbgrader_config.py calls this with the result of `get_config()`. After the call, it
    may override settings such as ``c.CourseDirectory.db_url``.
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
        # Judges, reference solutions and wrong solutions must never be copied to learners.
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
        # nbgrader's default ends with a second CheckCellMetadata. It is not needed, because nothing
        # changes the metadata of nbgrader after the first.
    ]
    c.GenerateFeedback.preprocessors = FEEDBACK_PAGE
    # Pages that an instructor opens must not run scripts in the texts and outputs of learners.
    c.HTMLExporter.filters = {"markdown2html": "tcplab.grading.pages.safe_markdown"}
    c.HTMLExporter.sanitize_html = True


def find_alembic() -> None:
    """Add this Python's programs to PATH, because nbgrader runs alembic by its name."""
    programs, path = str(Path(sys.executable).parent), os.environ.get("PATH", "")
    if programs not in path.split(os.pathsep):
        os.environ["PATH"] = os.pathsep.join([programs, path])


def load_course(folder: Path) -> tuple[Any, CourseDirectory]:
    """Return nbgrader's configuration and course directory, as nbgrader_config.py sets them."""
    # jsonschema then does without this module, which no notebook needs, and which takes 0.8 s.
    sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
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


def folder_of(
    folders: CourseDirectory, step: str, student: str = ".", assignment: str = "."
) -> Path:
    """Return the folder of a step, which is source, release, submitted, autograded or feedback."""
    return Path(folders.format_path(getattr(folders, f"{step}_directory"), student, assignment))


def load_assignment(course: Path, assignment: str) -> tuple[Any, CourseDirectory, Path]:
    """Load a course; return also the source folder of an assignment, or raise ParameterError."""
    config, folders = load_course(course)
    source = folder_of(folders, "source", assignment=assignment)
    if not source.is_dir():
        raise ParameterError(f"no assignment {assignment!r}: {source} does not exist")
    return config, folders, source


def expected_files(folders: CourseDirectory, assignment: str) -> Expected:
    """Return the files that a submission should contain, and the assignment's folders."""
    from tcplab.grading.assignment import Task
    from tcplab.grading.staging import Expected

    source = folder_of(folders, "source", assignment=assignment)
    released = folder_of(folders, "release", assignment=assignment)
    task_path = source / "task.py"
    files = Task(task_path, assignment).files if task_path.is_file() else ()
    return Expected(f"{assignment}.ipynb", tuple(files), released, source.parent)
