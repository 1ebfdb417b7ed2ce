"""The process of one run of a panel: ``python -m tcplab.widgets.job DESCRIPTOR``.

The descriptor is one end of a pipe to the notebook, which sends the panel's name and the settings.
The process answers with the messages of `Job`, and finally with {"result": Shown} or
{"error": "one line"}. During a live run, the notebook may send {"set": values} or {"stop": True}.
If the notebook's kernel ends, this process ends too, with its laboratory.
"""

import sys
import threading
import warnings
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any

from tcplab.errors import TcplabError
from tcplab.experiments.progress import Rounds
from tcplab.widgets.spec import Job, Shown, load


def answer(job: Job) -> dict[str, Any]:
    """Measure, and return the last message."""
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            shown = job.spec.measurement.run(job)
    except (TcplabError, ValueError) as error:
        return {"error": _one_line(str(error))}
    except Exception as error:  # a defect of the course, which the panel shows
        return {"error": _one_line(f"{type(error).__name__}: {error}")}
    return {"result": _noted(shown, caught)}


def _noted(shown: Shown, caught: list[warnings.WarningMessage]) -> Shown:
    """Add the warnings of this package and a busy machine to the notes, each note once."""
    notes = [*shown.notes]
    notes += [str(one.message) for one in caught if "tcplab" in (one.filename or "")]
    if not shown.provenance.get("recorded"):
        notes.append(shown.provenance.get("disturbed") or "")
    return replace(shown, notes=[_one_line(note) for note in dict.fromkeys(notes) if note])


def _one_line(text: str) -> str:
    return " ".join(text.split()) or "it failed without a message"


def main() -> None:
    """Measure what the owner asks for."""
    owner = Connection(int(sys.argv[1]))
    name, values, longest_ms = owner.recv()
    job = Job(load(name), values, owner)
    job.longest_ms = longest_ms
    threading.Thread(target=job.listen, daemon=True).start()
    Rounds.watch = lambda done, planned: job.stage("measuring", done / planned)
    owner.send(answer(job))


if __name__ == "__main__":
    main()
