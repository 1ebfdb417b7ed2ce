"""Read the lessons' notebooks, each of them only once."""

import ast
import functools
import json
import re
from pathlib import Path
from typing import Any, Final

from tests.support.paths import ROOT

ALL: Final = sorted((ROOT / "lessons").glob("*.ipynb"))


def slug(path: Path) -> str:
    """Return the name of a lesson without its number, which appears only in the file name."""
    return path.stem.partition("-")[2]


#: The file of each slug in lesson order, without the primer, which has a different form.
BY_SLUG: Final = {slug(path): path for path in ALL if slug(path) != "primer"}


@functools.cache
def notebook(path: Path) -> Any:
    """Return the notebook as plain data; no test may change it."""
    return json.loads(path.read_text())


def cells(path: Path, kind: str) -> list[str]:
    """Return the sources of the cells of a kind, "code" or "markdown"."""
    selected = [cell for cell in notebook(path)["cells"] if cell["cell_type"] == kind]
    return ["".join(cell["source"]) for cell in selected]


def headings(path: Path) -> list[tuple[int, str]]:
    """Return the level and text of each heading outside code blocks."""
    prose = functools.partial(re.sub, r"```.*?```", "", flags=re.DOTALL)
    matches = [re.findall(r"^(#+) (.+)$", prose(text), re.M) for text in cells(path, "markdown")]
    return [(len(marks), title) for several in matches for marks, title in several]


def glossary_links(text: str) -> list[str]:
    """Return the anchors of the glossary that a text links to."""
    matches = re.findall(r"\]\((?:<[^>]*glossary\.md#(.+?)>|[^)]*glossary\.md#([^()]+))\)", text)
    return [bracketed or plain for bracketed, plain in matches]


def imports(lesson: Path) -> dict[str, Any]:
    """Return the names that the cells of a lesson import."""
    namespace: dict[str, Any] = {}
    for source in cells(lesson, "code"):
        tree = ast.parse(source)
        tree.body = [line for line in tree.body if isinstance(line, ast.Import | ast.ImportFrom)]
        exec(compile(tree, lesson.name, "exec"), namespace)
    return namespace
