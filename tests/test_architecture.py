"""The direction of flow: each module imports only from those to its left in CONTRIBUTING.md, and
what is heavy is imported when it is used."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.nonempty import each

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "tcplab"

#: Half a second each to import, and so never when tcplab is.
HEAVY = ("scapy", "matplotlib", "pyroute2", "ipywidgets", "IPython")

#: Imports to the right, with their reason. All are made when a function is called.
EXCEPTIONS = {
    ("lab", "capture"): "host.capture() is where one looks for it",
}


def order() -> list[str]:
    """The modules from left to right."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    [line] = [each for each in text.splitlines() if each.strip().startswith("errors →")]
    return [name.strip() for name in line.split("→")]


def sources() -> Iterator[tuple[str, Path]]:
    """Each source file with the module that it belongs to."""
    for path in sorted(PACKAGE.rglob("*.py")):
        inside = path.relative_to(PACKAGE)
        yield inside.parts[0].removesuffix(".py"), path


def imported(tree: ast.AST) -> Iterator[tuple[str, bool]]:
    """The full name of everything that is imported, and whether that is when the file is."""
    later = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        or (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: write the whole name"
            names = [f"{node.module}.{each.name}" for each in node.names]
        for name in names:
            yield name, id(node) not in later


def test_every_module_has_its_place_and_its_line_in_the_table() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    for module in each({module for module, _path in sources()} - {"__init__", "__main__"}):
        assert module in order(), f"{module} is not in the order of CONTRIBUTING.md"
        assert f"| `{module}` |" in text, f"{module} has no line in the table of CONTRIBUTING.md"


def test_imports_come_from_the_left() -> None:
    places = {name: place for place, name in enumerate(order())}
    wrong = []
    for module, path in sources():
        if module not in places:
            continue  # tcplab/__init__.py shows names of several
        for name, at_once in imported(ast.parse(path.read_text())):
            package, _, rest = name.partition(".")
            other = rest.partition(".")[0]
            if package != "tcplab" or places.get(other, 0) <= places[module]:
                continue
            if at_once or (module, other) not in EXCEPTIONS:
                wrong.append(f"{path.relative_to(ROOT)} imports {name}, which is to its right")
    assert not wrong, "\n".join(wrong)


def test_every_exception_is_needed() -> None:
    made = {
        (module, name.split(".")[1])
        for module, path in sources()
        for name, _at_once in imported(ast.parse(path.read_text()))
        if name.startswith("tcplab.")
    }
    assert set(EXCEPTIONS) <= made


def test_nothing_heavy_is_imported_with_a_module() -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}: do it in the functions that need it"
        for _module, path in sources()
        for name, at_once in imported(ast.parse(path.read_text()))
        if at_once and name.partition(".")[0] in HEAVY
    ]
    assert not wrong, "\n".join(wrong)


def test_importing_every_module_loads_nothing_heavy() -> None:
    names = [name for name in order() if name in {module for module, _path in sources()}]
    code = "; ".join(f"import tcplab.{name}" for name in names)
    code += "; import sys; print(*{name.partition('.')[0] for name in sys.modules})"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(HEAVY) & set(ran.stdout.split())
