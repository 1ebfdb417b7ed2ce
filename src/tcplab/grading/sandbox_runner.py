"""Run a notebook's cells inside the sandbox, and send the results outside.

    python sandbox_runner.py RESULT_FD <request.json

This is the learner's process. Once the first cell runs, no data from it can be trusted. It gets no
check and no right answer. It writes lines of JSON to RESULT_FD: {"start": 3} before a cell,
{"cell": 3, "outputs": […]} after it, and {"answers": {…}, "files": {…}} at the end. It does not
import the course's package, so that cells start as in a fresh Jupyter kernel.
"""

import base64
import json
import math
import os
import signal
import stat
import sys
import tempfile
import time
from collections import deque
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import IO, Any, Final

#: The limits on the depth of an answer, its number of items and the length of a text in it.
MAX_DEPTH: Final = 5
MAX_ITEMS: Final = 10_000
MAX_TEXT: Final = 100_000
#: Maximum size of a file that is returned. C sources are smaller.
MAX_FILE_BYTES: Final = 1 << 20
#: The exit status if a cell could not be interrupted.
STUCK: Final = 97

_KEYS, _VALUES = type(globals().keys()), type(globals().values())
_LISTS: Final = (list, tuple, set, frozenset, deque, range, _KEYS, _VALUES)
KEPT_TYPES: Final = ("text/plain", "image/png", "image/jpeg")


class CellTimeoutError(KeyboardInterrupt):
    """The cell exceeded its time limit."""


# ---- answers -------------------------------------------------------------------------------------


def plain(value: Any, depth: int = MAX_DEPTH, most: int = MAX_ITEMS) -> Any:
    """Convert a value to plain JSON data. An unsupported value becomes {"unsupported": reason}.

    Types must match exactly, except numpy's, so that no learner's class passes for a number.
    """
    left = [most]
    try:
        data = _plain(value, depth, left)
    except Exception as error:  # of a dictionary's key, or one of numpy's types
        return {"unsupported": f"{type(value).__name__} ({type(error).__name__})"[:80]}
    return data if left[0] >= 0 else {"unsupported": f"huge {type(value).__name__}"}


def _plain(value: Any, depth: int, left: list[int]) -> Any:
    """Convert a value of at most `depth` levels, and count its items down."""
    kind = type(value)
    left[0] -= 1
    if left[0] < 0:  # nested lists that repeat a list grow exponentially
        return None
    if value is None or kind is bool:
        return value
    if kind is int:
        return value if abs(value) < 1 << 63 else {"unsupported": "huge int"}
    if kind in (float, Fraction, Decimal):
        return _finite(value)
    text = value.hex() if kind is bytes else value
    if type(text) is str:
        return text if len(text) <= MAX_TEXT else {"unsupported": "huge str"}
    if kind in (*_LISTS, dict) and depth <= 0:
        return {"unsupported": f"deep {kind.__name__}"}
    if kind in _LISTS:
        return [_plain(item, depth - 1, left) for item in islice(value, left[0] + 1)]
    if kind is dict:
        few = list(value.items())[: left[0] + 1]
        return {str(key)[:200]: _plain(item, depth - 1, left) for key, item in few}
    # Computing with a capture's segments yields numpy's types, as in `pauses.max() / 1e6`.
    if any(base.__module__ == "numpy" for base in kind.__mro__) and hasattr(value, "tolist"):
        return _plain(value.tolist(), depth - 1, left)
    return {"unsupported": str(kind.__name__)[:80]}


def _finite(value: float | Fraction | Decimal) -> Any:
    try:
        number = float(value)
    except (OverflowError, ValueError):  # 10**400, and a signalling NaN
        number = math.inf
    return number if math.isfinite(number) else {"unsupported": f"{type(value).__name__} {number}"}


def read_files(folder: Path, names: Sequence[str]) -> dict[str, bytes]:
    """Return the content of the files that exist and have at most 1 MiB, without following links.

    A thread of a cell may replace a file at any moment, so each file is opened before its type is
    checked.
    """

    def without_following(path: str, flags: int) -> int:
        return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)

    contents = {}
    for name in names:
        try:
            with open(folder / name, "rb", opener=without_following) as file:
                data = file.read(MAX_FILE_BYTES + 1)
                is_plain = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
        except OSError:
            continue
        if is_plain and len(data) <= MAX_FILE_BYTES:
            contents[name] = data
    return contents


# ---- cells ---------------------------------------------------------------------------------------


class Streams:
    """The output of the process and its children to descriptors 1 and 2, cell by cell."""

    def __init__(self) -> None:
        self._files = {}
        for fd, name in ((1, "stdout"), (2, "stderr")):
            file = tempfile.TemporaryFile()  # noqa: SIM115  (lives as long as the process)
            os.dup2(file.fileno(), fd)
            self._files[name] = file

    def take(self, most: int) -> list[dict[str, Any]]:
        """Return the output since the last call as notebook outputs, cut to `most` bytes each."""
        taken = []
        for name, file in self._files.items():
            file.seek(0)
            text = file.read(most).decode(errors="replace")
            file.seek(0)
            file.truncate()
            if text:
                taken.append({"output_type": "stream", "name": name, "text": text})
        return taken


def make_shell() -> Any:
    """Return an IPython shell that collects tracebacks and has no history."""
    from IPython.core.displayhook import DisplayHook
    from IPython.core.interactiveshell import InteractiveShell

    class Hook(DisplayHook):
        """Send the value of a cell's last line to display()."""

        def write_output_prompt(self) -> None:
            pass

        def write_format_data(self, format_dict: Any, md_dict: Any = None) -> None:
            assert self.shell is not None
            self.shell.display_pub.publish(format_dict, md_dict or {})

        def finish_displayhook(self) -> None:
            pass

    class Shell(InteractiveShell):
        tracebacks: list[tuple[str, str, list[str]]]

        def _showtraceback(self, etype: Any, evalue: Any, stb: Any) -> None:
            lines = [stb] if isinstance(stb, str) else list(stb)
            self.tracebacks.append((str(etype.__name__), str(evalue)[:2000], lines))

        def init_history(self) -> None:
            super().init_history()  # type: ignore[no-untyped-call]
            if self.history_manager is not None:
                self.history_manager.enabled = False

    shell = Shell.instance(colors="NoColor", displayhook_class=Hook)
    shell.tracebacks = []
    return shell


def run_cell(shell: Any, source: str, streams: Streams, most: int) -> list[dict[str, Any]]:
    """Run one cell, and return its outputs. A text is cut to `most` characters."""
    from IPython.utils.capture import capture_output

    shell.tracebacks.clear()
    with capture_output() as captured:
        result = shell.run_cell(source, store_history=False)
    error = result.error_before_exec or result.error_in_exec
    if error is not None and not shell.tracebacks:  # the cell has switched tracebacks off
        shell.tracebacks.append((type(error).__name__, str(error)[:2000], []))
    texts = {"stdout": captured.stdout, "stderr": captured.stderr}
    outputs: list[dict[str, Any]] = [
        {"output_type": "stream", "name": name, "text": text[:most]}
        for name, text in texts.items()
        if text
    ]
    outputs += streams.take(most)
    for rich in captured.outputs[:50]:
        data = {kind: rich.data[kind] for kind in KEPT_TYPES if kind in (rich.data or {})}
        data = {kind: value for kind, value in data.items() if len(value) <= 4 * most}
        if data:
            outputs.append({"output_type": "display_data", "data": data, "metadata": {}})
    for name, value, lines in shell.tracebacks[:3]:
        lines = [line[:most] for line in lines[-30:]]
        outputs.append({"output_type": "error", "ename": name, "evalue": value, "traceback": lines})
    return outputs


def set_alarm(seconds: float) -> None:
    """Interrupt the cell after this time, then every second. The third time, end the process."""
    alarms = 0

    def ring(*_: object) -> None:
        nonlocal alarms
        alarms += 1
        if alarms == 3:
            os._exit(STUCK)
        raise CellTimeoutError(f"the cell did not end in {seconds:.3g} s")

    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)


def main() -> None:
    """Read the request, run its cells in order, and send the results."""
    fd = int(sys.argv[1])
    os.set_inheritable(fd, False)
    request: Mapping[str, Any] = json.load(sys.stdin)
    out: IO[str] = os.fdopen(fd, "w", buffering=1, encoding="utf-8")

    def say(**message: Any) -> None:
        out.write(json.dumps(message, allow_nan=False) + "\n")

    streams = Streams()
    shell = make_shell()
    sys.path.insert(0, "")
    end_s = time.monotonic() + request["time_s"]
    for index, source in request["cells"]:
        say(start=index)
        # Later cells need time too, even if many earlier ones do not end.
        set_alarm(max(0.1, (end_s - time.monotonic()) / 2))
        try:
            outputs = run_cell(shell, source, streams, request["cell_output_bytes"])
        except KeyboardInterrupt as error:
            name = type(error).__name__
            outputs = [
                {"output_type": "error", "ename": name, "evalue": str(error), "traceback": [name]}
            ]
        except SystemExit:
            outputs = []
        signal.setitimer(signal.ITIMER_REAL, 0)
        say(cell=index, outputs=outputs)
    answers = {name: plain(shell.user_ns.get(name)) for name in request["names"]}
    files = read_files(Path(), request["files"])
    say(
        answers=answers,
        files={name: base64.b64encode(data).decode() for name, data in files.items()},
    )
    out.flush()
    # Threads and exit handlers of the cells must not delay the end.
    os._exit(0)


if __name__ == "__main__":
    main()
