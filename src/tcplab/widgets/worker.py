"""The process that runs a panel's experiments: ``python -m tcplab.widgets.worker``.

It reads lines of JSON from standard input and writes lines of JSON to standard output:

    {"run": "small-writes", "values": {...}}     →  {"stage": "measuring", "share": null} ...
                                                    {"sample": {...}} ...
    {"set": {"rtt_ms": 40}}, during a live run      {"result": {...}, "seconds": {...}}
    {"stop": true}, during a live run               or {"error": "one line"}

It sends {"ready": true} after all slow imports, and then waits. A result with a picture is followed
by {"png": "..."}. When standard input ends, the owner has ended, so the worker ends too, with its
laboratory. The first argument is the file descriptor for the last run's recording.
"""

from __future__ import annotations

import base64
import contextlib
import gc
import json
import os
import queue
import sys
import threading
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tcplab.capture import Capture
from tcplab.errors import CaptureError, LabError, TcplabError
from tcplab.experiments.exclusive import exclusive
from tcplab.experiments.mode import mode
from tcplab.experiments.progress import Rounds
from tcplab.figures import Picture
from tcplab.figures.canvas import new_figure
from tcplab.figures.picture import drawn
from tcplab.lab import Lab
from tcplab.lab.interfaces import import_early
from tcplab.tables import Table
from tcplab.widgets.controls import checked
from tcplab.widgets.spec import Job, PanelSpec, Shown, Values, load

if TYPE_CHECKING:
    from tcplab.capture import Recording
    from tcplab.timeline import Timeline

#: A worker ends after this time without a request. The next run starts another.
IDLE_S: Final = 600.0
#: A recording stops at this size, because it has to pass through a browser.
MAX_CAPTURE_BYTES: Final = 16 << 20


class Run(Job):
    """The run of a panel's measurement in this process."""

    def __init__(self, spec: PanelSpec, values: Values, capture_fd: int) -> None:
        self.spec = spec
        self.values: Values = checked(spec.controls, values)
        self.stop_asked = False
        self.notes: list[str] = []
        self.changed: queue.SimpleQueue[Values] = queue.SimpleQueue()
        self._capture_fd = capture_fd
        self.capture_bytes = 0
        self.drawing_since: float | None = None

    def stage(self, message: str, share: float | None = None, *, waits: bool = False) -> None:
        """Report the current stage. "drawing" also marks the end of the measurement.

        `waits` means that the run waits for another measurement on this machine.
        """
        if message == "drawing":
            self.drawing_since = time.perf_counter()
            gc.disable()  # a collection would take half as long as the picture; see _answer
            share = 1.0  # all slow work is done
        _send(stage=message, share=share, waits=waits)

    def sample(self, values: Mapping[str, float]) -> None:
        """Send a reading to the strips of a live panel."""
        _send(sample=values)

    def changes(self) -> Iterator[Values]:
        """Yield the settings that the user has chosen since the last call, oldest first."""
        with contextlib.suppress(queue.Empty):
            while True:
                changed = self.changed.get_nowait()
                if changed != self.values:
                    self.values = changed
                    yield changed

    @contextmanager
    def lab(self, **parameters: Any) -> Iterator[Lab | None]:
        """Yield a laboratory whose packets are recorded, or None (see :meth:`Job.lab`)."""
        # With TCPLAB_RECORD, the experiment must choose its own network, or nothing is recorded.
        if mode() != "live" or "TCPLAB_RECORD" in os.environ:
            yield None
            return
        waiting = "waiting for another measurement on this machine"
        with exclusive(lambda: self.stage(waiting, waits=True)), Lab(**parameters) as lab:
            self.stage("measuring")
            recording = lab.client.capture()
            path = Path(recording.start().path)
            over = threading.Event()
            guard = threading.Thread(target=self._end_in_time, args=[recording, path, over])
            guard.start()
            try:
                yield lab
            finally:
                over.set()
                guard.join()
                _end(recording)
            os.ftruncate(self._capture_fd, 0)
            self.capture_bytes = os.pwrite(self._capture_fd, path.read_bytes(), 0)

    def explained(self, timelines: Iterable[Timeline]) -> None:
        """Add each reason as a comment to its packet in the recording, if there is one."""
        if self.capture_bytes:
            from tcplab.explain.comments import with_reasons

            capture = Capture(f"/proc/{os.getpid()}/fd/{self._capture_fd}")
            data = with_reasons(capture, timelines)
            self.capture_bytes = os.pwrite(self._capture_fd, data, 0)

    def _end_in_time(self, recording: Recording, path: Path, over: threading.Event) -> None:
        start = time.monotonic()
        while not over.wait(0.2):
            if path.stat().st_size > MAX_CAPTURE_BYTES:
                _end(recording)
                seconds = time.monotonic() - start
                self.notes.append(f"the capture ends after the first {seconds:.0f} s, it is large")
                return


def _end(recording: Recording) -> None:
    """End a recording, if it has not ended; the experiment counts losses in another one."""
    with contextlib.suppress(LabError, CaptureError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        recording.stop()


def _send(**message: Any) -> None:
    print(json.dumps(message), file=_messages, flush=True)


# main() replaces this, to keep the output of libraries apart from the messages.
_messages = sys.stdout


class _Owner:
    """Read the owner's messages in a separate thread."""

    def __init__(self) -> None:
        self.requests: queue.Queue[dict[str, Any]] = queue.Queue()
        self.run: Run | None = None
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for line in sys.stdin:
            message = json.loads(line)
            if "run" in message:
                self.requests.put(message)
            elif (run := self.run) is not None:
                run.stop_asked |= bool(message.get("stop"))
                if "set" in message:
                    run.changed.put(message["set"])
        os._exit(0)  # the owner has ended, so do not wait for the main thread


def _warm_up() -> None:
    """Draw once, so that the first run is as quick as later ones."""
    import_early()
    table = Table.of(["warm"], [[1]])

    @drawn
    def warm() -> Picture:
        figure = new_figure()
        for number, weight in enumerate(("normal", "bold")):  # matplotlib then looks for its fonts
            figure.text(0.5, 0.5 + number / 10, "warm", weight=weight)
        return Picture(figure, "", table)

    Shown.of("", None, warm(), table, {})
    gc.collect()
    gc.freeze()  # later collections can skip the objects created so far


def _answer(request: Mapping[str, Any], owner: _Owner, capture_fd: int) -> None:
    start = time.perf_counter()
    try:
        run = Run(load(request["run"]), request["values"], capture_fd)
        owner.run = run
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            shown = run.spec.measurement.run(run)
    except (TcplabError, ValueError) as error:
        _send(error=_one_line(str(error)))
    except Exception as error:  # a defect of the course, which the panel shows
        _send(error=_one_line(f"{type(error).__name__}: {error}"))
    else:
        end = time.perf_counter()
        measured = run.drawing_since or end
        seconds = {"experiment": measured - start, "drawing": end - measured}
        warned = (str(warning.message) for warning in caught if _concerns_user(warning))
        late = [] if shown.provenance.get("recorded") else [shown.provenance.get("wire_late")]
        noted = dict.fromkeys([*shown.notes, *run.notes, *warned, *late])  # each note once
        notes = [_one_line(note) for note in noted if note]
        result = asdict(replace(shown, notes=notes, picture=None))
        _send(result=result, seconds=seconds, capture_bytes=run.capture_bytes)
        if shown.picture is not None:  # last, because only saving needs the file
            _send(png=base64.b64encode(shown.picture.png()).decode())
    finally:
        owner.run = None
        gc.enable()
        gc.collect()  # between two runs, a collection delays no one


def _concerns_user(warning: warnings.WarningMessage) -> bool:
    return issubclass(warning.category, UserWarning) and "tcplab" in (warning.filename or "")


def _one_line(text: str) -> str:
    return " ".join(text.split()) or "it failed without a message"


def main() -> int:
    """Answer requests until the owner ends or is silent for IDLE_S; return the exit status."""
    global _messages
    capture_fd = int(sys.argv[1])
    _messages = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    owner = _Owner()
    Rounds.watch = lambda done, planned: _send(stage="measuring", share=done / planned)
    _warm_up()
    _send(ready=True)
    with contextlib.suppress(queue.Empty):
        while True:
            _answer(owner.requests.get(timeout=IDLE_S), owner, capture_fd)
    return 0


if __name__ == "__main__":
    sys.exit(main())
