"""nbgrader's own extension points, filled: nothing of nbgrader is forked, and nothing patched but
what a worker of `tcplab grade` keeps (tcplab.grading.worker.keep_engines).

==========================  =======================================================================
RepairingExporter           `c.Autograde.exporter_class`: reads submissions in whatever state
FeedbackExporter            `c.GenerateFeedback.exporter_class`: compiles its templates once
CheckForeignMetadata        `c.Autograde.sanitize_preprocessors`, for CheckCellMetadata
SandboxedExecute            `c.Autograde.autograde_preprocessors`, in the place of Execute
SaveGrades                  in the same list, in the place of SaveAutoGrades
release_files               `c.GenerateAssignment.post_convert_hook`: the learner's C files
==========================  =======================================================================

:func:`tcplab.grading.course.configure` sets all of them.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import threading
import time
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from jinja2.bccache import Bucket, BytecodeCache
from nbconvert.exporters import HTMLExporter
from nbgrader.api import Gradebook
from nbgrader.converters.base import NotebookExporter
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import CheckCellMetadata, NbGraderPreprocessor, SaveAutoGrades
from traitlets import Bool, Float

from tcplab.errors import SandboxError
from tcplab.grading import ahead
from tcplab.grading.checks import Verdict, score
from tcplab.grading.flags import harmless_markdown
from tcplab.grading.judging import Judge, Record, parts_of, run_cells
from tcplab.grading.release import released_files
from tcplab.grading.repair import repair
from tcplab.grading.sandbox import why_no_sandbox
from tcplab.grading.staging import content_key

__all__ = [
    "CheckForeignMetadata",
    "FeedbackExporter",
    "RepairingExporter",
    "SandboxedExecute",
    "SaveGrades",
    "record_path",
    "release_files",
]

_UNSAFE_WARNING: Final = (
    "WARNING: graded with --unsafe-no-sandbox. Nothing kept this notebook from reading or changing"
    " other files; its score is not to be trusted."
)


def record_path(root: Path, assignment: str, student: str) -> Path:
    """Where the record of a graded submission is."""
    return root / "reports" / assignment / "records" / f"{student}.json"


def _course_of(part: Any) -> CourseDirectory:
    """The course directory of the converter that a part works for."""
    above = part.parent
    while above is not None:
        if getattr(above, "coursedir", None) is not None:
            return above.coursedir
        above = above.parent
    return CourseDirectory(config=part.config)


# ---- reading -------------------------------------------------------------------------------------


class RepairingExporter(NotebookExporter):  # type: ignore[misc]
    """Reads a submitted notebook in whatever state it is, rebuilt along the released one."""

    def from_filename(self, filename: str, resources: Any = None, **options: Any) -> Any:
        """As in NotebookExporter. What was repaired is in the notebook's metadata, "tcplab"."""
        released = self._released(filename, resources)
        if released is None:
            return super().from_filename(filename, resources=resources, **options)
        repaired = repair(Path(filename).read_bytes(), released)
        repaired.notebook.metadata["tcplab"] = {
            "repairs": repaired.repairs,
            "flags": repaired.flags,
            "untouched_tasks": repaired.untouched_tasks,
        }
        for note in (*repaired.repairs, *repaired.flags):
            self.log.warning("%s: %s", filename, note)
        resources = {**(resources or {}), "metadata": {"path": str(Path(filename).parent)}}
        resources["metadata"]["name"] = Path(filename).stem
        rebuild: Any = self.from_notebook_node
        return rebuild(repaired.notebook, resources=resources, **options)

    def _released(self, filename: str, resources: Any) -> Any:
        """The notebook as it was handed out; None in the second pass, and without a release."""
        import nbformat

        if not getattr(self.parent, "_sanitizing", False):
            return None
        course = _course_of(self)
        assignment = (resources or {}).get("nbgrader", {}).get("assignment", "")
        folder = course.format_path(course.release_directory, ".", assignment)
        path = Path(folder) / Path(filename).name
        return nbformat.read(path, as_version=4) if path.is_file() else None


class CheckForeignMetadata(CheckCellMetadata):  # type: ignore[misc]
    """A notebook that was rebuilt has the released one's metadata, which nbgrader wrote itself; to
    check them once more is a sixth of the time that a conversion takes."""

    def preprocess(self, nb: Any, resources: Any) -> Any:
        """As in CheckCellMetadata, for a notebook that was taken as it came."""
        return (nb, resources) if "tcplab" in nb.metadata else super().preprocess(nb, resources)


# ---- feedback ------------------------------------------------------------------------------------


class _Compiled(BytecodeCache):
    """What Jinja made of the templates, for as long as the process lives."""

    def __init__(self) -> None:
        self._made: dict[str, bytes] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        if made := self._made.get(bucket.key):
            bucket.bytecode_from_string(made)

    def dump_bytecode(self, bucket: Bucket) -> None:
        self._made[bucket.key] = bucket.bytecode_to_string()


_compiled: Final = _Compiled()


class FeedbackExporter(HTMLExporter):
    """nbgrader's pages; half of the time that one takes is the compiling of its templates."""

    @property
    def environment(self) -> Any:
        """As in TemplateExporter."""
        environment = super().environment
        environment.bytecode_cache = _compiled
        return environment


# ---- running and judging -------------------------------------------------------------------------


class SandboxedExecute(NbGraderPreprocessor):  # type: ignore[misc]
    """Runs a submission in the sandbox, judges it outside, and writes scores and messages.

    An assignment without a hidden judge is run whole in the sandbox, its tests too, and scored by
    nbgrader's rules: better than the stock Execute, not as good as a judge outside.

    Raises:
        SandboxError: submissions cannot be sandboxed here, and unsafe_no_sandbox is not set.
    """

    unsafe_no_sandbox = Bool(
        False, help="Run submissions without walls; every feedback then says so."
    ).tag(config=True)
    cell_timeout_s = Float(30.0, help="For each cell, in seconds.").tag(config=True)

    def preprocess(self, nb: Any, resources: Any) -> Any:
        """As nbgrader's Execute: the outputs of all code cells, those of tests with the score."""
        began_s = time.monotonic()
        about = resources["nbgrader"]
        told = nb.metadata.pop("tcplab", {})
        record = Record(about["student"], about["assignment"], sandboxed=not self.unsafe_no_sandbox)
        record.repairs = list(told.get("repairs", []))
        record.flags = list(told.get("flags", []))
        record.untouched_tasks = list(told.get("untouched_tasks", []))
        if not self.unsafe_no_sandbox:
            _insist_on_a_sandbox()
        course = _course_of(self)
        root = Path(course.root).resolve()
        source = Path(course.format_path(course.source_directory, ".", about["assignment"]))
        with tempfile.TemporaryDirectory(prefix="tcplab-submission-") as name:
            folder = Path(name)
            _copy_readable(Path(resources["metadata"]["path"]), folder)
            if (source / "hidden" / "judge.py").is_file():
                self._judge(nb, source.resolve(), folder, record)
            else:
                self._run_whole(nb, folder, record)
        for index, cell in enumerate(nb.cells):
            if _make_harmless(cell):
                record.flags.append(f"active-html: cell {index + 1} of the notebook")
        record.seconds = round(max(record.seconds, time.monotonic() - began_s), 3)
        if self.unsafe_no_sandbox:
            _warn_in(nb)
        _write_json(record_path(root, record.assignment, record.student), record.as_dict())
        resources["tcplab"] = record.as_dict()
        return nb, resources

    def judge_of(self, source: Path) -> Judge:
        """The judge of an assignment's source folder, as the folder is now."""
        with _loading:
            return _judge_of(source, content_key(source), self.unsafe_no_sandbox)

    def _judge(self, nb: Any, source: Path, folder: Path, record: Record) -> None:
        tests, cells = parts_of(nb)
        judged = ahead.judge(
            self.judge_of(source),
            record.student,
            cells,
            list(tests),
            folder,
            cell_timeout_s=self.cell_timeout_s,
        )
        ran, verdicts = judged.ran, judged.verdicts
        record.seconds = judged.seconds
        for index, outputs in ran.outputs.items():
            if index in dict(cells):
                _set_outputs(nb.cells[index], outputs)
        for question, cell in tests.items():
            self._write(cell, verdicts[question], record)
        if ran.notes and tests:
            first = next(iter(tests.values()))
            first.outputs.insert(0, _stream("\n".join(ran.notes) + "\n"))
        record.flags += [each for each in ran.flags if each not in record.flags]

    def _write(self, cell: Any, verdict: Verdict, record: Record) -> None:
        """The message, and the score as nbgrader reads it from a test's outputs."""
        import nbformat

        own = cell.metadata.nbgrader
        earned = score(verdict, float(own["points"]))
        question = own["grade_id"]
        record.scores[question] = earned
        record.messages[question] = verdict.message
        result = {
            "output_type": "execute_result",
            "execution_count": None,
            "data": {"text/plain": repr(float(earned or 0.0))},
            "metadata": {},
        }
        cell.outputs = [_stream(verdict.message + "\n"), nbformat.from_dict(result)]
        cell.execution_count = None

    def _run_whole(self, nb: Any, folder: Path, record: Record) -> None:
        cells = [(i, cell.source) for i, cell in enumerate(nb.cells) if cell.cell_type == "code"]
        ran = run_cells(
            cells,
            folder,
            [],
            [],
            cell_timeout_s=self.cell_timeout_s,
            unsafe=self.unsafe_no_sandbox,
        )
        for index, _source in cells:
            lost = [{"output_type": "error", "ename": "Stopped", "evalue": "", "traceback": []}]
            _set_outputs(nb.cells[index], ran.outputs.get(index, lost))
        record.flags += ran.flags


@lru_cache(maxsize=1)
def _insist_on_a_sandbox() -> None:
    """Tries it once a process; a failure is tried again."""
    if reason := why_no_sandbox():
        raise SandboxError(
            f"submissions are not graded without a sandbox. {reason}"
            " (or, if you trust them all: --unsafe-no-sandbox)"
        )


#: Two threads may need the judge at once; it is loaded by one.
_loading: Final = threading.Lock()


@lru_cache(maxsize=4)
def _judge_of(source: Path, key: str, unsafe: bool) -> Judge:  # noqa: ARG001  (the cache's)
    """The judge of a source folder as it is now; what it computes of captures it keeps."""
    return Judge(source, unsafe=unsafe)


def _make_harmless(cell: Any) -> bool:
    """Whether a learner's text had to be changed, so that its page does nothing but show it."""
    if cell.cell_type == "code" or cell.metadata.get("nbgrader", {}).get("locked"):
        return False
    if cell.cell_type == "raw":
        harmless = cell.source.replace("<", "&lt;")
    else:
        harmless = harmless_markdown(cell.source)
    changed = bool(harmless != cell.source)
    cell.source = harmless
    return changed


def _stream(text: str) -> Any:
    import nbformat

    return nbformat.from_dict({"output_type": "stream", "name": "stdout", "text": text})


def _set_outputs(cell: Any, outputs: Any) -> None:
    import nbformat

    cell.outputs = [nbformat.from_dict(output) for output in outputs]


def _warn_in(nb: Any) -> None:
    from nbformat import v4

    nb.cells.insert(0, v4.new_markdown_cell(f"**{_UNSAFE_WARNING}**"))


def _copy_readable(source: Path, target: Path) -> None:
    """The submission's plain files, readable by the sandbox's user; links and devices are not
    followed."""
    target.chmod(0o755)
    for directory, folders, names in os.walk(source, followlinks=False):
        folders[:] = [each for each in folders if not (Path(directory) / each).is_symlink()]
        there = target / Path(directory).relative_to(source)
        there.mkdir(mode=0o755, exist_ok=True)
        for name in names:
            path = Path(directory) / name
            if path.is_file() and not path.is_symlink() and path.suffix != ".ipynb":
                shutil.copyfile(path, there / name)
                (there / name).chmod(0o644)


def _write_json(path: Path, document: Any) -> None:
    """Whole or not at all, whenever the power goes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(f".{os.getpid()}.tmp")
    draft.write_text(json.dumps(document, indent=1))
    draft.replace(path)


# ---- saving --------------------------------------------------------------------------------------


class SaveGrades(SaveAutoGrades):  # type: ignore[misc]
    """SaveAutoGrades in one transaction, and two rules that it does not know.

    It commits after each cell, and each time waits for the disk while nobody else may write. The
    rules: what could not be judged is for a person, no answer to a task gives 0.
    """

    def preprocess(self, nb: Any, resources: Any) -> Any:
        """Changes the gradebook only."""
        about = resources["nbgrader"]
        where = (about["notebook"], about["assignment"], about["student"])
        self.notebook_id, self.assignment_id, self.student_id = where
        with (
            Gradebook(about["db_url"]) as self.gradebook,
            # The session's commits take effect with the transaction that it joins.
            self.gradebook.engine.begin() as connection,
        ):
            self.gradebook.db.remove()
            self.gradebook.db.configure(bind=connection)
            nb, resources = NbGraderPreprocessor.preprocess(self, nb, resources)
            self._settle(resources.get("tcplab"), where)
            self.gradebook.db.commit()
        return nb, resources

    def _settle(self, record: Any, where: tuple[str, str, str]) -> None:
        if record is None:
            return
        for question, earned in record["scores"].items():
            if earned is None:
                self.gradebook.find_grade(question, *where).needs_manual_grade = True
        for task in record["untouched_tasks"]:
            grade = self.gradebook.find_grade(task, *where)
            grade.auto_score, grade.needs_manual_grade = 0.0, False
            self.gradebook.find_comment(task, *where).auto_comment = "No response."


# ---- releasing -----------------------------------------------------------------------------------


def release_files(assignment: str, student: str, notebooks: Any) -> None:  # noqa: ARG001
    """After `nbgrader generate_assignment`: the learner's files, made of the reference solution,
    and a newline at the notebook's end, as git and editors like it.

    nbgrader calls it with the course's root as the working directory.
    """
    for notebook in notebooks:
        source = Path(notebook).parent
        course = Path(source).parent.parent
        target = course / "exercises" / assignment
        for name, data in released_files(source).items():
            (target / name).write_bytes(data)
        released = target / Path(notebook).name
        released.write_text(released.read_text(encoding="utf-8").rstrip("\n") + "\n", "utf-8")
