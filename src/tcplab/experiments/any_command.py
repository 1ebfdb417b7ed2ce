"""Run an unmodified client and server on two hosts, and explain how the client spends its time."""

import shlex
import shutil
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Final

from tcplab import machine
from tcplab.errors import LabError, ParameterError
from tcplab.experiments import Between, PythonOnly, Result, experiment, provenance
from tcplab.experiments.parameters import RttMs
from tcplab.experiments.quantities import Variant, column, computed, derived
from tcplab.explain import CommandExchange, Explanation, explained
from tcplab.explain.recording import record_in_lab
from tcplab.explain.shares import requests
from tcplab.lab import Lab
from tcplab.lab.scratch import temporary_folder
from tcplab.segments import SegmentArray
from tcplab.tables import run_lengths
from tcplab.timeline import Reason, Timeline

_FOLDER: Final = "{folder}"
_TIMEOUT_S: Final = 20.0  # time limit of the client
_MOST_PARTS: Final = 5  #: a cell lists at most this many parts, such as 7 × 1448

TEXTS: Final[Mapping[str, str]] = tomllib.loads(
    Path(__file__).with_name("real_programs.toml").read_text()
)
HTTP_SERVER: Final = TEXTS["HTTP_SERVER"]

#: The files in the folder of the commands, by name: a page, and a server that buffers its answers.
FILES: Final = {
    "page.txt": 200 * "x",
    "buffered.py": HTTP_SERVER.replace("{line}", "wbufsize = -1"),
}


@dataclass(frozen=True, slots=True)
class Packets:
    """The packets captured at one host, reduced to a table of segments."""

    segments: SegmentArray


class Explained(Variant):
    """One run of a client and its server, with counts summed over all connections."""

    case: str = column("run")  #: the client's command, or what differs from other runs
    evidence: CommandExchange  #: the calls and packets; of the captures, only the segments

    @cached_property
    def explanation(self) -> Explanation:
        return explained(self.evidence)

    def timelines(self, side: str) -> list[Timeline]:
        """Return one side's timelines, one per connection on which it sent data."""
        timelines = [conversation.timelines for conversation in self.explanation.conversations]
        return [sides[side] for sides in timelines if side in sides]

    def answer(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the write and segment sizes of a typical answer, or empty tuples without one."""
        return _typical(self.timelines("server"))

    def options(self, side: str = "server") -> list[tuple[str, int]]:
        """Return the options that a side set on its connections, such as ("nodelay", 1)."""
        sockets = [one.sockets.get(side) for one in self.explanation.conversations]
        return [(name, value) for s in sockets if s for _time_ns, name, value in s.options]

    @derived("messages", "d")
    def messages(self) -> int:
        return sum(map(requests, self.explanation.conversations))

    #: Sizes of a typical answer's writes and segments, such as "238 + 200" and "7 × 1448 + 106".
    answer_writes = computed(
        lambda run: run_lengths(run.answer()[0], _MOST_PARTS), "answer's writes (bytes)"
    )
    answer_segments = computed(
        lambda run: run_lengths(run.answer()[1], _MOST_PARTS), "answer's segments (bytes)"
    )
    nodelay_set = computed(lambda run: run.options().count(("nodelay", 1)))
    corked = computed(lambda run: run.options().count(("cork", 1)))

    @derived("held (ms)", ".1f")
    def held_ms(self) -> float:
        both = [*self.timelines("client"), *self.timelines("server")]
        return sum(sum(timeline.waited_ms("kernel").values()) for timeline in both)

    waited_ms = computed(lambda run: run.explanation.waited_ms)
    ms_per_message = computed(lambda run: run.waited_ms / max(run.messages, 1), "ms/message", ".2f")

    @derived("verdict")
    def verdict(self) -> str:
        verdict = self.explanation.verdict
        return verdict.title if verdict else "nothing was captured"


def _typical(servers: Sequence[Timeline]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the write and segment sizes of the most common answer (in a tie, of the last one)."""
    shapes: Counter[tuple[tuple[int, ...], tuple[int, ...]]] = Counter()
    for timeline in servers:
        for number in {write.message for write in timeline.writes}:
            writes = (write.bytes for write in timeline.writes if write.message == number)
            parts = (
                segment.payload_bytes
                for segment in timeline.segments
                if segment.message == number and segment.reason is not Reason.RETRANSMISSION
            )
            shapes[tuple(writes), tuple(parts)] += 1
    return max(reversed(shapes), key=shapes.__getitem__) if shapes else ((), ())


class Commands(Result[Explained]):
    """One or more runs of a client and its server. The key of a run is its case."""

    def report(self) -> str:
        """Return the explanation of each run, under the name of its case if there are several."""
        parts = [run.explanation.report() for run in self.variants]
        if len(parts) == 1:
            return parts[0]
        named = zip(self.variants, parts, strict=True)
        return "\n\n".join(f"{run.case}\n{part}" for run, part in named)


def _needs(client: str, server: str, **_: object) -> list[str]:
    return [words[0] for words in map(_words, (client, server)) if words]


@experiment("any-command", needs=_needs, figure=("ms_per_message", "held_ms"))
def measure(
    client: Annotated[str, PythonOnly()] = "curl -s http://server:8000/page.txt?[1-12]",
    server: Annotated[str, PythonOnly()] = "python3 -m http.server -p HTTP/1.1 -d {folder} 8000",
    rtt_ms: Annotated[RttMs, Between(0, 1000, "ms")] = 0.0,
    files: Annotated[Mapping[str, str] | None, PythonOnly()] = None,
    network: Lab | None = None,
) -> Commands:
    """Run a client and its server unmodified, and show what the client waited for.

    On the command line, `tcplab explain` reports and saves more.

    Args:
        client: command of the client, split into words as by a shell; "server" names the server
        server: command of the server, which must listen on all addresses; empty for none
        files: texts of further files by name, placed in the folder with page.txt and buffered.py.
            The path of the folder replaces {folder} in the commands and texts
    """
    words = _words(client), _words(server) or None
    if not words[0]:
        raise ParameterError("no client: give a command such as curl http://server:8000/")
    own = Lab(rtt_ms=rtt_ms) if network is None else nullcontext(network)
    with own as lab:
        run = run_command(lab, client, *words, FILES | dict(files or {}))
        return Commands([run], provenance(lab, client=client, server=server))


def _words(command: str) -> list[str]:
    """Split a command as a shell does; ParameterError for an unfinished quotation or escape."""
    try:
        return shlex.split(command)
    except ValueError as error:
        raise ParameterError(f"{command}: {error}".replace("No closing", "no closing")) from None


def run_command(
    lab: Lab,
    case: str,
    client: Sequence[str],
    server: Sequence[str] | None,
    files: Mapping[str, str],
) -> Explained:
    """Run a client, and a server unless it is None, on two hosts, in a folder with these files."""
    with temporary_folder() as folder:
        for name, text in files.items():
            Path(folder, name).write_text(text.replace(_FOLDER, folder))
        recorded = record_in_lab(
            lab,
            _placed(client, folder),
            None if server is None else _placed(server, folder),
            timeout_s=_TIMEOUT_S,
        )
    assert recorded.near is not None
    assert recorded.far is not None
    with recorded.near, recorded.far:
        near: Any = Packets(recorded.near.segments)
        far: Any = Packets(recorded.far.segments)
    if not len(near.segments) and recorded.notes:
        raise LabError(recorded.notes[0])
    return Explained(case, replace(recorded, near=near, far=far))


def _placed(words: Sequence[str], folder: str) -> list[str]:
    first, *others = (word.replace(_FOLDER, folder) for word in words)
    if shutil.which(first) is None:
        first = machine.find(first) or first
    return [first, *others]
