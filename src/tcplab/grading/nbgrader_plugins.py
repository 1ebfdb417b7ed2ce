"""Provide the plug-ins of nbgrader that :func:`tcplab.grading.course.configure` installs."""

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import nbformat
from nbformat import v4
from nbgrader import utils
from nbgrader.api import Gradebook
from nbgrader.converters.base import NotebookExporter
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import ClearMarkScheme, NbGraderPreprocessor
from traitlets import Integer, List, Unicode

from tcplab.errors import StepError
from tcplab.grading.archive import write_whole
from tcplab.grading.checks import score
from tcplab.grading.judging import Judge, JudgingReport, parts_of
from tcplab.grading.neutral import one_line
from tcplab.grading.pages import look_at_texts, settle_page, texts_of
from tcplab.grading.processes import apart
from tcplab.grading.release import released_files
from tcplab.grading.repair import repair

#: Maximum number of repairs, and of flags, that the report lists for one submission.
MOST_NOTES: Final = 50


def report_path(root: Path, assignment: str, student: str) -> Path:
    """Return the path of the report on a student's graded submission."""
    return root / "reports" / assignment / "records" / f"{student}.json"


def _course_of(part: Any) -> CourseDirectory:
    """Return the course directory of the converter to which a plug-in belongs."""
    while (part := part.parent) is not None:
        if getattr(part, "coursedir", None) is not None:
            return part.coursedir
    raise ValueError("this plug-in belongs to no converter of nbgrader")


# ---- reading -------------------------------------------------------------------------------------


class RepairingExporter(NotebookExporter):  # type: ignore[misc]
    """Read a submitted notebook in any state, and rebuild it from the released notebook."""

    def from_filename(self, filename: str, resources: Any = None, **options: Any) -> Any:
        """Rebuild a submitted notebook, with notes in its metadata; read other files as usual."""
        released = self._released(Path(filename), resources)
        if released is None:
            return super().from_filename(filename, resources=resources, **options)
        read = _read_apart(filename, str(released))
        notebook = nbformat.from_dict(read["notebook"])
        notebook.metadata["tcplab"] = read["about"]
        for note in (*read["about"]["repairs"], *read["about"]["flags"]):
            self.log.warning("%s: %s", one_line(filename), note)
        resources["metadata"] = {"path": str(Path(filename).parent), "name": Path(filename).stem}
        rebuild: Any = self.from_notebook_node
        return rebuild(notebook, resources=resources, **options)

    def _released(self, path: Path, resources: Any) -> Path | None:
        course, about = _course_of(self), resources["nbgrader"]
        student, assignment = about["student"], about["assignment"]
        submitted = course.format_path(course.submitted_directory, student, assignment)
        released = course.format_path(course.release_directory, ".", assignment)
        original = Path(released) / path.name
        return original if path.parent == Path(submitted) and original.is_file() else None


def _read_apart(path: str, released: str) -> dict[str, Any]:
    """Read a submission in another process, if need be without its texts or as an empty file."""
    why = ""
    for _ in range(2):
        try:
            return dict(apart(read_submission, path, released, why))
        except StepError as error:
            why = str(error)
    read: dict[str, Any] = apart(read_submission, os.devnull, released)
    read["about"]["repairs"] = [f"unreadable-notebook: {why}"]
    return read


def read_submission(path: str, released: str, not_looked_at: str = "") -> dict[str, Any]:
    """Return the repaired "notebook", and notes "about" it. Run this with apart().

    With a reason in `not_looked_at`, all texts are to be shown as typed.
    """
    repaired = repair(Path(path).read_bytes(), nbformat.read(released, as_version=4))
    cells = repaired.notebook.cells
    slow, flags = [(number, not_looked_at) for number, _ in texts_of(cells)], repaired.flags
    if not not_looked_at:
        slow, active = look_at_texts(cells)
        flags = [*flags, *active]
    about = {"repairs": repaired.repairs, "flags": flags, "slow": slow}
    about["untouched_tasks"] = repaired.untouched_tasks
    return {"notebook": repaired.notebook, "about": about}


# ---- running and judging -------------------------------------------------------------------------


class SandboxedExecute(NbGraderPreprocessor):  # type: ignore[misc]
    """Run a submission in the sandbox, judge it outside, and write the judge's messages."""

    repairs = List(Unicode(), help="Repairs of the files, made before.").tag(config=True)
    flags = List(Unicode(), help="Flags of the files, set before.").tag(config=True)

    def preprocess(self, nb: Any, resources: Any) -> Any:
        """Set the outputs of all code cells, with the judge's message in each test cell."""
        began_s = time.monotonic()
        about, notes = resources["nbgrader"], nb.metadata.pop("tcplab")
        slow = notes.pop("slow")
        notes["repairs"] = [*self.repairs, *notes["repairs"]]
        notes["flags"] = [*self.flags, *notes["flags"]]
        report = JudgingReport(about["student"], about["assignment"], **notes)
        course = _course_of(self)
        source = Path(course.format_path(course.source_directory, ".", report.assignment))
        folder = Path(resources["metadata"]["path"])
        _make_readable(folder)
        self._judge(nb, source.resolve(), folder, report)
        repairs, flags = settle_page(nb.cells, folder, slow)
        report.repairs = _few([*report.repairs, *repairs])
        report.flags = _few([*report.flags, *flags])
        report.seconds = round(time.monotonic() - began_s, 3)
        path = report_path(Path(course.root).resolve(), report.assignment, report.student)
        write_whole(path, json.dumps(asdict(report), indent=1))
        resources["tcplab"] = report
        return nb, resources

    def _judge(self, nb: Any, source: Path, folder: Path, report: JudgingReport) -> None:
        tests, cells = parts_of(nb)
        ran, verdicts = Judge(source).judge(report.student, cells, list(tests), folder)
        for index, _source in cells:
            _set_outputs(nb.cells[index], ran.outputs.get(index, []))
        for question, cell in tests.items():
            verdict = verdicts[question]
            report.scores[question] = score(verdict, float(cell.metadata.nbgrader["points"]))
            report.messages[question] = verdict.message
            _set_outputs(cell, [v4.new_output("stream", text=verdict.message + "\n")])
        notes = [*(f"Repaired: {repair}." for repair in report.repairs[:MOST_NOTES]), *ran.notes]
        if notes and tests:
            first = next(iter(tests.values()))
            first.outputs.insert(0, v4.new_output("stream", text="\n".join(notes) + "\n"))
        report.flags += [flag for flag in ran.flags if flag not in report.flags]
        kind = "not-judged: "
        report.not_judged = [f.removeprefix(kind) for f in ran.flags if f.startswith(kind)]


def _few(notes: list[str]) -> list[str]:
    more = len(notes) - MOST_NOTES
    return notes if more <= 0 else [*notes[: MOST_NOTES - 1], f"and {more + 1} more"]


def _set_outputs(cell: Any, outputs: Any) -> None:
    cell.outputs = [nbformat.from_dict(output) for output in outputs]
    cell.execution_count = None


def _make_readable(folder: Path) -> None:
    """Make nbgrader's copy of the submission readable by every user, as the sandbox requires."""
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


# ---- saving --------------------------------------------------------------------------------------


class SaveScores(NbGraderPreprocessor):  # type: ignore[misc]
    """Write the scores and nbgrader's comments to the gradebook in one transaction.

    This replaces nbgrader's SaveAutoGrades, which parses scores from outputs, and adds two rules. A
    person marks a question that could not be judged, and a task without an answer scores 0.
    """

    def preprocess(self, nb: Any, resources: Any) -> Any:
        """Update the gradebook, and leave the notebook unchanged."""
        about, report = resources["nbgrader"], resources["tcplab"]
        where = (about["notebook"], about["assignment"], about["student"])
        with Gradebook(about["db_url"]) as gradebook:
            for cell in nb.cells:
                name = cell.metadata.get("nbgrader", {}).get("grade_id")
                is_task = utils.is_task(cell)
                if utils.is_grade(cell) or is_task:
                    self._settle(gradebook.find_grade(name, *where), cell, report)
                if utils.is_solution(cell) or is_task:
                    empty = name in report.untouched_tasks or (
                        not is_task
                        and cell.metadata.nbgrader.get("checksum") == utils.compute_checksum(cell)
                    )
                    comment = gradebook.find_comment(name, *where)
                    comment.auto_comment = "No response." if empty else None
            gradebook.db.commit()
        return nb, resources

    def _settle(self, grade: Any, cell: Any, report: JudgingReport) -> None:
        """Set the score of one cell, and whether a person has to mark it."""
        name = cell.metadata.nbgrader["grade_id"]
        if utils.is_task(cell):
            if name in report.untouched_tasks:
                grade.auto_score, grade.needs_manual_grade = 0.0, False
            else:  # a mark given before may be for another text
                grade.auto_score, grade.needs_manual_grade = None, True
            return
        if name in report.scores:
            earned = report.scores[name]
            grade.auto_score = earned or 0.0
        else:
            earned = grade.auto_score = utils.determine_grade(cell, self.log)[0]
        grade.needs_manual_grade = earned is None or grade.manual_score is not None


# ---- showing -------------------------------------------------------------------------------------


class EarlyPage(NbGraderPreprocessor):  # type: ignore[misc]
    """Make a feedback page that its student may see while others still hand in.

    The page has no mark scheme. The result of a question is shown until `tries` submissions have
    lacked points in it. After that it is hidden, even if all points are earned, which limits
    guessing. The result of a question with few possible answers is never shown.
    """

    tries = Integer(5, help="Submissions for which a question's result is shown.").tag(config=True)
    by_choice = List(Unicode(), help="Questions with few possible answers.").tag(config=True)
    arrival = Unicode(help="The name of this submission.").tag(config=True)
    record = Unicode(help="The file that lists the submissions with results.").tag(config=True)

    def preprocess(self, nb: Any, resources: Any) -> Any:
        """Remove results and schemes that the student may not see, and update the record."""
        path = Path(self.record)
        tried: dict[str, list[str]] = json.loads(path.read_text()) if path.is_file() else {}
        without_scheme = ClearMarkScheme(config=self.config)
        for cell in nb.cells:
            if utils.is_task(cell):
                without_scheme.preprocess_cell(cell, resources, 0)
            elif utils.is_grade(cell) and not utils.is_solution(cell):
                grading = cell.metadata.nbgrader
                used = tried.setdefault(grading.grade_id, [])
                spent = len(used) >= self.tries and self.arrival not in used
                if spent or grading.grade_id in self.by_choice:
                    self._withhold(cell, resources["nbgrader"])
                elif grading.score < grading.points and self.arrival not in used:
                    used.append(self.arrival)
        # The record is written before the page, so that every result shown has been counted.
        write_whole(path, json.dumps(tried))
        nb.cells.insert(0, v4.new_markdown_cell(self._notice(tried)))
        return nb, resources

    def _withhold(self, cell: Any, totals: Any) -> None:
        grading = cell.metadata.nbgrader
        totals["score"] -= grading.score
        totals["max_score"] -= grading.points
        grading.grade = False
        text = f"{grading.grade_id}: graded; its result will be in the final feedback.\n"
        _set_outputs(cell, [*cell.outputs[:-1], v4.new_output("stream", text=text)])

    def _notice(self, tried: Mapping[str, Sequence[str]]) -> str:
        never = ", ".join(self.by_choice)
        few = f" The results of {never} come later, as few answers are possible." if never else ""
        counted = ", ".join(f"{name}: {len(used)}" for name, used in sorted(tried.items()) if used)
        return (
            f"**Feedback on your latest submission.** Your last submission counts. A"
            f" question's result is shown for {self.tries} submissions in which it lacks points"
            f" (so far: {counted or 'none'}). Later ones are graded too, but the score"
            f" above leaves that question out.{few} Written answers are marked later, by a person."
        )


class PageStyle(NbGraderPreprocessor):  # type: ignore[misc]
    """Add space between the cells of tables, because nbgrader's template leaves none."""

    def preprocess(self, nb: Any, resources: Any) -> Any:
        """Add a CSS rule to the page."""
        css = resources.setdefault("inlining", {}).setdefault("css", [])
        css.append(".rendered_html :is(th, td) { padding: 3px 8px; }")
        return nb, resources


# ---- releasing -----------------------------------------------------------------------------------


def release_files(assignment: str, student: str, notebooks: Any) -> None:  # noqa: ARG001
    """Add the learners' C files to the released folder, and end the notebook with a newline."""
    for notebook in notebooks:
        source = Path(notebook).parent
        target = source.parent.parent / "exercises" / assignment
        for name, data in released_files(source).items():
            (target / name).write_bytes(data)
        released = target / Path(notebook).name
        released.write_text(released.read_text(encoding="utf-8").rstrip("\n") + "\n", "utf-8")
