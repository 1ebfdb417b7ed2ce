"""The problem sets of the course."""

from pathlib import Path

from tests.support.nonempty import each
from tests.support.paths import ROOT

from tcplab.grading.archive import Stored, read_archive

SOURCES = each(
    path for path in sorted(ROOT.glob("solutions/*")) if (path / f"{path.name}.ipynb").is_file()
)
NAMES = [path.name for path in SOURCES]
#: The sets that the course ships. Only they must have 20 points, samples of written answers, and a
#: lesson and tables that name them; a teacher's own set in `solutions/` must not fail these tests.
SHIPPED = (
    *("the-lab", "small-writes", "cork", "buffers", "slow-start", "queues", "pipes", "sendfile"),
    *("segments", "tcp-vs-udp", "diagnosis", "real-programs"),
)
#: The problem set for tests that need only one.
EXAMPLE = "small-writes"
#: Sets that differ in kind, for tests/lab: a client, a server and a program that uses UDP.
#: tests/slow tries all of them.
FEW = (EXAMPLE, "pipes", "tcp-vs-udp")
#: Folders that Python and Jupyter create when a set is opened in `solutions/`.
BY_PRODUCTS = {"__pycache__", ".ipynb_checkpoints", "captures"}


def files_of(folder: Path) -> dict[str, bytes]:
    """Map the path of each file of a set to its content, without the by-products."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in each(sorted(folder.rglob("*")))
        if path.is_file() and not BY_PRODUCTS & {*path.parts}
    }


def captures_in(folder: Path) -> list[Stored]:
    """Return all captures of an assignment, ordered by their numbers."""
    names = [name for name in read_archive(folder) if name.endswith(".pcapng")]
    return [Stored(folder, name) for name in sorted(names, key=lambda name: (len(name), name))]
