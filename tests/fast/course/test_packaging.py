"""Test requirements, locks, wheel and containers, and that no unwanted file is in the tree."""

import functools
import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name
from tests.support.commands import completed
from tests.support.needs import NO_REPOSITORY, need
from tests.support.nonempty import each
from tests.support.paths import ROOT

PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT: dict[str, Any] = PYPROJECT["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
#: The packages that `make setup` installs.
LEARNERS = [*PROJECT["dependencies"], *EXTRAS["course"], *EXTRAS["grading"]]
GROUPS: dict[str, list[str]] = {
    name: [entry for entry in group if isinstance(entry, str)]
    for name, group in PYPROJECT["dependency-groups"].items()
}
ENVIRONMENT: list[Any] = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
#: Names of all programs, one for each .c file and subfolder of src/programs and src/laboratory.
PROGRAMS = {
    path.stem
    for kind in ("programs", "laboratory")
    for path in (ROOT / "src" / kind).iterdir()
    if path.suffix == ".c" or path.is_dir()
}


@functools.cache
def pins(lock: str) -> dict[NormalizedName, tuple[Requirement, int]]:
    """Map each package in a lock file to its pinned requirement and its number of hashes."""
    text = (ROOT / "locks" / lock).read_text().replace("\\\n", " ")
    locked = {}
    for line in text.splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            requirement = Requirement(line.partition("--hash")[0].strip())
            locked[canonicalize_name(requirement.name)] = requirement, line.count("--hash=sha256:")
    return locked


def requirements(texts: list[str]) -> dict[NormalizedName, Requirement]:
    return {
        canonicalize_name(requirement.name): requirement for requirement in map(Requirement, texts)
    }


# ---- what is asked for, in its several places ----


def test_environment_yml_agrees_with_pyproject() -> None:
    python, *others, newest_pip, pip = ENVIRONMENT
    assert (
        python.removeprefix("python=")
        in Requirement("python" + PROJECT["requires-python"]).specifier
    )
    assert pip == {"pip": ["-e .[course,grading]"]}
    assert Requirement(newest_pip).name == "pip"
    # pip installs the two packages whose versions on conda-forge are too old.
    wanted = {
        str(requirement)
        for requirement in map(Requirement, LEARNERS)
        if requirement.name not in ("nbgrader", "pyroute2")
    }
    # conda-forge's matplotlib depends on Qt; matplotlib-base does not.
    listed = {
        str(Requirement(dependency)).replace("matplotlib-base", "matplotlib")
        for dependency in others
    }
    assert listed == wanted
    assert set(PYPROJECT["build-system"]["requires"]) <= set(GROUPS["build"])


def test_python_versions_agree() -> None:
    classifiers = [
        classifier.rpartition(" ")[2]
        for classifier in PROJECT["classifiers"]
        if ":: 3." in classifier
    ]
    minors = [int(version.partition(".")[2]) for version in classifiers]
    assert minors == list(range(minors[0], minors[-1] + 1))
    assert PROJECT["requires-python"] == f">=3.{minors[0]}"

    check = (ROOT / "tools" / "check-machine").read_text()
    assert f"(3, {minors[0]}) <= sys.version_info < (3, {minors[-1] + 1})" in check
    assert all(f"python{version}" in check for version in classifiers)

    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    assert workflow["jobs"]["python"]["strategy"]["matrix"]["python"] == classifiers

    assert PYPROJECT["tool"]["mypy"]["python_version"] == classifiers[0]
    assert PYPROJECT["tool"]["ruff"]["target-version"] == f"py{classifiers[0].replace('.', '')}"


@pytest.mark.parametrize(
    ("folder", "extras"),
    [("src", EXTRAS["cluster"]), ("tests", GROUPS["test"]), ("bench", GROUPS["test"])],
)
def test_every_imported_package_is_required(folder: str, extras: list[str]) -> None:
    """An imported package must be declared, even if another package already depends on it."""
    wanted = requirements([*LEARNERS, *extras]).keys()
    # A script inside a test imports alembic, which nbgrader requires.
    ours = {"tcplab", "tests", "bench", "tools", "alembic", *sys.stdlib_module_names}
    provided = {
        name
        for name, by in packages_distributions().items()
        if wanted & set(map(canonicalize_name, by))
    }
    for path in each(sorted((ROOT / folder).rglob("*.py"))):
        modules = {name for names in IMPORT.findall(path.read_text()) for name in names if name}
        assert modules <= ours | provided, path.name


IMPORT = re.compile(
    r"^ *(?:from (\w+)[\w.]* import \S|import (\w+)[\w.]*(?: as \w+)?$)", re.MULTILINE
)


# ---- what is pinned ----


@pytest.mark.parametrize(
    ("lock", "asked"),
    [
        ("requirements.lock", LEARNERS),
        (
            "requirements-dev.lock",
            [
                *PROJECT["dependencies"],
                *chain(*EXTRAS.values(), *(GROUPS[name] for name in GROUPS if name != "zig")),
            ],
        ),
        ("requirements-build.lock", GROUPS["build"]),
        ("requirements-zig.lock", GROUPS["zig"]),
    ],
)
def test_locks_satisfy_pyproject_by_exact_versions_with_hashes(lock: str, asked: list[str]) -> None:
    """`make setup` fails if a lock is incomplete, because it installs with --require-hashes."""
    pinned = pins(lock)
    tested = pins("requirements-zig.lock") | pins("requirements-dev.lock")
    for name, (requirement, hashes) in each(pinned.items()):
        assert [specifier.operator for specifier in requirement.specifier] == ["=="], name
        assert hashes > 0, f"{name} has no hash"
        assert tested[name][0].specifier == requirement.specifier
    for name, requirement in each(requirements(asked).items()):
        assert name in pinned, f"{name} is not in {lock}: make lock"
        (exact,) = pinned[name][0].specifier
        assert requirement.specifier.contains(exact.version), f"{lock} is stale: make lock"
    text = (ROOT / "locks" / lock).read_text()
    assert "://" not in text
    assert not re.search(r"^\s*--(?!hash=)", text, re.MULTILINE), "an option of pip"


# ---- what the tree holds ----


@functools.cache
def tracked_files(*kinds: str) -> list[Path]:
    """Return every file that is in the repository or is about to be added, or files of kinds."""
    need("git")
    if not (ROOT / ".git").exists():
        pytest.skip(NO_REPOSITORY)
    # The clone may belong to another user, for example in a container.
    git = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--exclude-standard"]
    listing = completed([*git, *(kinds or ("--cached", "--others"))], cwd=ROOT, check=True)
    paths = [ROOT / name for name in listing.stdout.split("\0") if name]
    return [path for path in paths if path.is_file()]


# The brackets keep these patterns from finding themselves.
MACHINE_PATHS = r"(?<![\w.])/(?:[r]oot|[w]ork|[h]ome/(?!jovyan)\w+)/"
REGISTRY_HOSTS = (
    r"(?i:[p]ypi\.(?:org|python)|[p]ythonhosted|registry\.[n]pmjs|deb\.[d]ebian|[a]naconda\.org)"
)


def test_no_machine_paths_and_no_registry_hosts() -> None:
    matches = []
    for path in tracked_files():
        content = path.read_bytes()
        if b"\0" in content:  # a binary file, such as a recording or a picture
            continue
        text = content.decode(errors="replace")
        for match in re.finditer(f"{MACHINE_PATHS}|{REGISTRY_HOSTS}", text):
            line = text.count("\n", 0, match.start()) + 1
            matches.append(f"{path.relative_to(ROOT)}:{line}: {match[0]}")
    assert matches == []


def test_no_file_is_tracked_that_gitignore_excludes() -> None:
    assert tracked_files("--cached", "--ignored") == []


def test_notebooks_hold_no_outputs() -> None:
    for path in each(path for path in tracked_files() if path.suffix == ".ipynb"):
        notebook = json.loads(path.read_text())
        kept = [cell for cell in notebook["cells"] if cell.get("outputs")]
        counted = [cell for cell in notebook["cells"] if cell.get("execution_count") is not None]
        widgets = notebook["metadata"].get("widgets", [])
        assert [*kept, *counted, *widgets] == [], f"{path.relative_to(ROOT)}: make format"


# ---- compilers ----


@pytest.mark.parametrize("compiler", ["zig", "clang"])
def test_only_the_set_up_sees_the_compiler_zig(compiler: str) -> None:
    show = "show:; @printf '%s: %s' '$(SETUP)' \"$${CC-}\""
    command = ["make", "--no-print-directory", f"--eval={show}", "show", f"CC={compiler}"]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    wanted = {"zig": "CC=zig bash tools/setup: ", "clang": "bash tools/setup: clang"}
    assert shown == wanted[compiler]


# ---- containers ----


def test_container_runs_as_an_ordinary_user() -> None:
    lines = (ROOT / "deploy/container/Dockerfile").read_text().splitlines()
    steps = [line for line in lines if re.match(r"[A-Z]+ ", line)]
    assert steps.index("USER learner") < steps.index("RUN make setup")
    assert not any(step.startswith("USER root") for step in steps)
    assert steps[-1] == 'CMD ["make", "lab"]'


def test_workflows_are_pinned_and_run_what_is_there() -> None:
    texts = {path: path.read_text() for path in (ROOT / ".github/workflows").glob("*.yml")}
    for path, text in each(texts.items()):
        for action in re.findall(r"uses: (\S+)", text):
            assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", action), (path.name, action)
        for script in re.findall(r"(?<!\S)((?:tools|deploy)/[\w./-]+)", text):
            assert (ROOT / script).exists(), (path.name, script)
    book, ci = (texts[ROOT / ".github/workflows" / name] for name in ("book.yml", "ci.yml"))
    assert book.count("path: build/web") == 2  # one job makes the box's Linux, the other adds it
    assert "python web/build" in book
    assert "pytest tests/slow/web" in ci  # the tests build it


def test_dev_container_allows_namespaces() -> None:
    text = (ROOT / ".devcontainer/devcontainer.json").read_text()
    settings = json.loads(re.sub(r"^//.*$", "", text, flags=re.MULTILINE))
    dockerfile = ROOT / ".devcontainer" / settings["build"]["dockerfile"]
    run = next(line for line in dockerfile.read_text().splitlines() if "docker run" in line)
    for option in ("seccomp=unconfined", "systempaths=unconfined"):
        assert option in settings["runArgs"]
        assert option in run
