"""Test the architecture. With two exceptions, a module imports only from those to its left in
CONTRIBUTING.md, and no modules import each other in a circle. Heavy packages are imported only when
they are used. A package exports names one by one, and no name means two classes. No function is
long, and no public function has many parameters."""

import ast
import functools
import importlib
from graphlib import TopologicalSorter
from pathlib import Path
from types import ModuleType
from typing import Final, NamedTuple

from tests.support.nonempty import each
from tests.support.paths import ROOT

PACKAGE = ROOT / "src" / "tcplab"

#: Packages that are slow to import, so importing tcplab must not load them.
HEAVY = ("scapy", "matplotlib", "pyroute2", "ipywidgets", "IPython")
#: The only modules of the standard library that the models import.
PURE = {"collections", "dataclasses", "enum", "heapq", "itertools", "math", "typing"}
MOST_LINES = 60
MOST_PARAMETERS = 10

#: The only imports of a module further right. They run when a method capture() is called.
UPWARD: Final = {("lab/host.py", "capture"), ("lab/link.py", "capture")}


class Import(NamedTuple):
    """An import of a module of tcplab, or of another package."""

    file: str  # "lab/host.py"
    name: str  # "tcplab.lab.host.Host", "numpy"
    at_once: bool  # runs when the file is imported, not when a function is called
    for_types: bool  # under TYPE_CHECKING, so it is never executed


def order() -> list[str]:
    """Return the modules in the order in which CONTRIBUTING.md lists them."""
    text = (ROOT / ".github/CONTRIBUTING.md").read_text()
    [line] = [line for line in text.splitlines() if line.startswith("    ") and "→ cli" in line]
    return [name.strip() for name in line.split("→")]


def top(file: str) -> str:
    """Return the module that a file belongs to, for example "lab" for "lab/host.py"."""
    return file.partition("/")[0].removesuffix(".py")


class Function(NamedTuple):
    """A function, a method or a nested function."""

    name: str  # "lab/host.py:Host.run"
    lines: int
    parameters: int
    is_public: bool


class Source(NamedTuple):
    """The imports, functions and classes of all files in the package, each parsed once."""

    files: list[str]
    imports: list[Import]
    functions: list[Function]
    classes: list[str]


@functools.cache
def source() -> Source:
    read = Source([], [], [], [])
    for path in sorted(PACKAGE.rglob("*.py")):
        file = str(path.relative_to(PACKAGE))
        read.files.append(file)
        _look(read, file, f"{file}:", ast.parse(path.read_text()), at_once=True, for_types=False)
    return read


def _look(
    read: Source, file: str, prefix: str, node: ast.AST, *, at_once: bool, for_types: bool
) -> None:
    """Add the imports and functions below a node to `read`."""
    for child in ast.iter_child_nodes(node):
        names: list[str] = []
        inside = prefix
        if isinstance(child, ast.expr):  # an expression holds no imports or definitions
            continue
        if isinstance(child, ast.Import):
            names = [alias.name for alias in child.names]
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, f"{file}:{child.lineno}: write the whole name"
            names = [f"{child.module}.{alias.name}" for alias in child.names]
        elif isinstance(child, ast.FunctionDef):
            read.functions.append(_function(prefix, child))
        elif isinstance(child, ast.ClassDef):
            read.classes.append(child.name)
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            inside += f"{child.name}."
        read.imports.extend(
            Import(file, name, at_once and not for_types, for_types) for name in names
        )
        later = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
        types = isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"
        now = {"at_once": at_once and not later, "for_types": for_types or types}
        _look(read, file, inside, child, **now)


def _function(prefix: str, node: ast.FunctionDef) -> Function:
    every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    lines = (node.end_lineno or 0) - node.lineno + 1
    is_public = not node.name.startswith("_") or node.name == "__init__"
    return Function(prefix + node.name, lines, len(every), is_public)


def test_every_module_is_in_the_order_and_in_the_table() -> None:
    text = (ROOT / ".github/CONTRIBUTING.md").read_text()
    for module in each({top(file) for file in source().files} - {"__init__", "__main__"}):
        assert module in order(), f"{module} is not in the order of CONTRIBUTING.md"
        assert f"| `{module}` |" in text, f"{module} has no line in the table of CONTRIBUTING.md"


def test_imports_come_from_the_left() -> None:
    position = {name: number for number, name in enumerate(order())}
    upward = set()
    for file, name, at_once, _for_types in source().imports:
        package, _, rest = name.partition(".")
        other = rest.partition(".")[0]
        if package != "tcplab" or top(file) == "__init__":  # __init__ exports other modules' names
            continue
        if position.get(other, 0) > position.get(top(file), len(position)):
            upward.add((file, other))
            assert not at_once, f"{file} imports {name}, which is to its right, at once"
    assert upward == UPWARD


def test_no_module_imports_itself_by_way_of_others() -> None:
    """Cycles within a package count too, as do imports in functions or for types only."""
    graph: dict[str, set[str]] = {_module(file): set() for file in source().files}
    for file, name, *_ in source().imports:
        other = name if name in graph else name.rpartition(".")[0]
        package = other.partition(".")[2].partition(".")[0]
        if other in graph and (file, package) not in UPWARD:
            graph[_module(file)].add(other)
    TopologicalSorter(graph).prepare()  # raises CycleError


def test_the_top_level_has_few_modules() -> None:
    assert len({top(file) for file in source().files} - {"__init__", "__main__"}) <= 18


def _module(file: str) -> str:
    return ".".join(["tcplab", *Path(file).with_suffix("").parts]).removesuffix(".__init__")


def test_no_module_imports_whatever_another_one_has() -> None:
    assert [entry.file for entry in source().imports if entry.name.endswith(".*")] == []


def test_a_package_shows_no_foreign_names() -> None:
    """Tab in a notebook lists what dir() does, which is meant to be the package's reference."""
    files = [file for file in source().files if file.endswith("__init__.py")]
    for package in map(importlib.import_module, each(map(_module, files))):
        exported = getattr(package, "__all__", ())
        shown = [name for name in dir(package) if name not in exported and name[0] != "_"]
        foreign = [name for name in shown if not _home(package, name).startswith(package.__name__)]
        assert foreign == [], package.__name__


def _home(package: ModuleType, name: str) -> str:
    """Return the module that a package's name comes from; a constant counts as its own."""
    value = getattr(package, name)
    own = package.__name__
    return value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", own)


def test_no_public_class_name_is_used_twice() -> None:
    names = [name for name in source().classes if not name.startswith("_")]
    assert sorted({name for name in each(names) if names.count(name) > 1}) == []


def test_functions_are_short() -> None:
    assert [function.name for function in source().functions if function.lines > MOST_LINES] == []


def test_public_functions_take_few_parameters() -> None:
    many = [function for function in source().functions if function.parameters > MOST_PARAMETERS]
    assert [function.name for function in many if function.is_public] == []


def test_models_are_pure_functions_of_the_standard_library() -> None:
    """The test of the order of modules covers the models' imports from tcplab."""
    imported = {
        name.partition(".")[0] for file, name, *_ in source().imports if top(file) == "models"
    }
    assert imported == PURE | {"tcplab"}


def test_nothing_heavy_is_imported_with_a_module() -> None:
    wrong = [
        f"{file} imports {name}: do it in the functions that need it"
        for file, name, at_once, _for_types in source().imports
        if at_once and name.partition(".")[0] in HEAVY
    ]
    assert wrong == []
