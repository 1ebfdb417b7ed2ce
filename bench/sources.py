"""Identify the C code that each part measures, and the commit of this checkout."""

import hashlib
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
_LAB: Final = ("laboratory/lab_*.c", "laboratory/wire/*")
_BULK: Final = ("programs/tcpsource.c", "programs/tcpsink.c")
#: Patterns of the measured files below src/, besides those in common/.
MEASURED: Final[Mapping[str, Sequence[str]]] = {
    "programs": (*_BULK, "programs/udp*.c", "programs/tcp_nodelay_*.c", "programs/sendfile_*.c"),
    "lab": _LAB,
    "wire": (*_LAB, *_BULK),
    "capture": ("laboratory/capture.c",),
    "explain": (*_LAB, "laboratory/capture.c", "laboratory/calls/*"),
}
_COMMENT: Final = re.compile(r"/\*.*?\*/|//[^\n\"]*$", re.DOTALL | re.MULTILINE)


def digest(part: str, root: Path = ROOT) -> str:
    """Return a hash of the C code that a part measures, which ignores comments and white space."""
    total = hashlib.sha256()
    for pattern in ("common/*", *MEASURED[part]):
        for path in sorted((root / "src").glob(pattern)):
            code = " ".join(_COMMENT.sub(" ", path.read_text()).split())
            total.update(f"{path.relative_to(root)}\n{code}\n".encode())
    return total.hexdigest()[:16]


def commit() -> str:
    """Return the abbreviated commit of this checkout, marked if files were changed since."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--abbrev=12", "--dirty=, changed"]
    try:
        done = subprocess.run([*command, "--exclude=*"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()
