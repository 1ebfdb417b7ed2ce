"""Any client and its server, unmodified, on two hosts: what their time went to."""

from __future__ import annotations

import shlex
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Final

from tcplab import machine
from tcplab.errors import LabError, ParameterError
from tcplab.experiments import Between, PythonOnly, Result, experiment, provenance
from tcplab.experiments.quantities import Variant, column, computed, derived
from tcplab.explain import Explanation, Recorded, explained
from tcplab.explain.recording import record_in_lab
from tcplab.explain.shares import requests
from tcplab.lab import Lab
from tcplab.lab.scratch import temporary_folder
from tcplab.programs import CallLog
from tcplab.segments import SegmentArray
from tcplab.tables import run_lengths
from tcplab.timeline import Reason, Timeline

_FOLDER: Final = "{folder}"
#: Sizes of an answer that are written out.
_MOST_PARTS: Final = 5


#: Python's http.server; a line of its handler takes the place of {line}.
HTTP_SERVER: Final = """\
import os, sys
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

class Handler(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    {line}

    def log_message(self, *words): pass

os.chdir(sys.path[0])
ThreadingHTTPServer(("", 8000), Handler).serve_forever()
"""

#: Files that commands find in their folder: a page, and a server whose handler buffers.
FILES: Final = {
    "page.txt": 200 * "x",
    "buffered.py": HTTP_SERVER.replace("{line}", "wbufsize = -1"),
}


@dataclass(frozen=True, slots=True)
class Packets:
    """The packets at one host, as an explanation needs them."""

    segments: SegmentArray


@dataclass(frozen=True, slots=True)
class Evidence:
    """The calls and the packets of one run, and nothing that was concluded from them."""

    client: CallLog
    server: CallLog | None
    near: Packets
    far: Packets
    span_ns: tuple[int, int]
    rate_mbit: float | None
    notes: Sequence[str]
    output: str

    def explanation(self) -> Explanation:
        """The explanation of the client's time."""
        near: Any = self.near  # an explanation asks of a capture its segments only
        far: Any = self.far
        times = (self.span_ns, self.rate_mbit, list(self.notes), self.output)
        return explained(Recorded(self.client, self.server, near, far, *times))


class Explained(Variant):
    """One run of a client and its server; what follows from its evidence, over all connections."""

    case: str = column("run")  #: the difference from the other runs, in words
    evidence: Evidence  #: all that a recording holds

    @cached_property
    def explanation(self) -> Explanation:
        return self.evidence.explanation()

    def timelines(self, side: str) -> list[Timeline]:
        """The timelines of what one side sent."""
        every = self.explanation.conversations
        return [one.timelines[side] for one in every if side in one.timelines]

    def answer(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The sizes of a typical answer's writes, and of its segments; empty if there is none."""
        return _typical(self.timelines("server"))

    def options(self, side: str = "server") -> list[tuple[str, int]]:
        """The options that a side set on its connections, in order: ("nodelay", 1)."""
        sockets = [one.sockets.get(side) for one in self.explanation.conversations]
        return [(name, value) for s in sockets if s for _time_ns, name, value in s.options]

    @derived("messages", "d")
    def messages(self) -> int:
        """The messages that the client waited for."""
        return sum(map(requests, self.explanation.conversations))

    client_writes = computed(lambda run: sum(len(each.writes) for each in run.timelines("client")))
    client_segments = computed(
        lambda run: sum(len(each.segments) for each in run.timelines("client"))
    )
    server_writes = computed(lambda run: sum(len(each.writes) for each in run.timelines("server")))
    server_segments = computed(
        lambda run: sum(len(each.segments) for each in run.timelines("server"))
    )
    #: of a typical answer: "238 + 200" bytes in its writes, "7 × 1448 + 106" in its segments
    answer_writes = computed(
        lambda run: run_lengths(run.answer()[0], _MOST_PARTS), "an answer's writes (bytes)"
    )
    answer_segments = computed(
        lambda run: run_lengths(run.answer()[1], _MOST_PARTS), "its segments (bytes)"
    )
    #: how many times the server's connections got TCP_NODELAY, and TCP_CORK
    nodelay_set = computed(lambda run: run.options().count(("nodelay", 1)))
    corked = computed(lambda run: run.options().count(("cork", 1)))

    @derived("held (ms)", ".1f")
    def held_ms(self) -> float:
        """The time that data waited in either sender's kernel."""
        both = [*self.timelines("client"), *self.timelines("server")]
        return sum(sum(each.waited_ms("kernel").values()) for each in both)

    waited_ms = computed(lambda run: run.explanation.waited_ms)  #: for answers
    ms_per_message = computed(
        lambda run: run.waited_ms / max(run.messages, 1), "ms per message", ".2f"
    )

    @derived("what decides")
    def verdict(self) -> str:
        """The cause that decides, in a few words."""
        found = self.explanation.verdict
        return found.title if found else "nothing was captured"


def _typical(servers: Sequence[Timeline]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Writes and segments of the answer that is the most common; of equals the last."""
    shapes: Counter[tuple[tuple[int, ...], tuple[int, ...]]] = Counter()
    for timeline in servers:
        for number in {each.message for each in timeline.writes}:
            writes = (each.bytes for each in timeline.writes if each.message == number)
            parts = (
                each.payload_bytes
                for each in timeline.segments
                if each.message == number and each.reason is not Reason.RETRANSMISSION
            )
            shapes[tuple(writes), tuple(parts)] += 1
    return max(reversed(shapes), key=shapes.__getitem__) if shapes else ((), ())


class Commands(Result[Explained]):
    """Runs of commands, found by the case in words."""

    def report(self) -> str:
        """The explanation of each run, as `tcplab explain` prints it."""
        parts = [each.explanation.report() for each in self.variants]
        if len(parts) == 1:
            return parts[0]
        named = zip(self.variants, parts, strict=True)
        return "\n\n".join(f"{each.case}\n{part}" for each, part in named)


# ---- the experiment ------------------------------------------------------------------------------


def _needs(client: str, server: str, **_: object) -> list[str]:
    return [words[0] for words in map(_words, (client, server)) if words]


@experiment("any-command", needs=_needs)
def measure(
    client: Annotated[str, PythonOnly()] = "curl -s http://server:8000/page.txt?[1-12]",
    server: Annotated[str, PythonOnly()] = "python3 -m http.server -p HTTP/1.1 -d {folder} 8000",
    rtt_ms: Annotated[float, Between(0, 1000, "ms")] = 0.0,
    rate_mbit: Annotated[float | None, Between(0.01, 10_000, "Mbit/s")] = None,
    files: Annotated[Mapping[str, str] | None, PythonOnly()] = None,
    timeout_s: Annotated[float, Between(0.1, 600, "s")] = 20.0,
    network: Lab | None = None,
) -> Commands:
    """A client and its server, unmodified: what the client waited for.

    `tcplab explain` is the same for the command line, with more to say and to save.

    Args:
        client: its command, in words as a shell takes them, but without a shell; the server's name
            is "server".
        server: its command; it has to listen on all addresses. Empty for none.
        rtt_ms: round-trip time of the wire.
        rate_mbit: its rate; None for as much as it can.
        files: name -> text of files for both, beside page.txt and buffered.py, in a folder that
            {folder} in a command stands for.
        timeout_s: after this time the client is ended.
        network: a Lab of its own unless given.
    """
    asked, serving = client_words(client), server_words(server)
    own = Lab(rtt_ms=rtt_ms, rate_mbit=rate_mbit) if network is None else nullcontext(network)
    with own as lab:
        case = run_command(
            lab, client, asked, serving or None, FILES | dict(files or {}), timeout_s
        )
        return Commands([case], provenance(lab, client=client, server=server))


def client_words(command: str) -> list[str]:
    """The words of a client's command.

    Raises:
        ParameterError: there are none, or a quotation is not closed.
    """
    words = _words(command)
    if not words:
        raise ParameterError("no client: give a command such as curl http://server:8000/")
    return words


def server_words(command: str) -> list[str]:
    """The words of a server's command, which may be none. Raises as client_words does."""
    return _words(command)


def _words(command: str) -> list[str]:
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
    timeout_s: float = 20.0,
) -> Explained:
    """Runs a client and its server on the hosts of a laboratory, and explains it.

    Raises:
        LabError: a command does not exist, or the server does not listen.
    """
    with temporary_folder() as folder:
        for name, text in files.items():
            Path(folder, name).write_text(text.replace(_FOLDER, folder))
        found = record_in_lab(
            lab,
            _placed(client, folder),
            None if server is None else _placed(server, folder),
            timeout_s=timeout_s,
        )
    assert found.near is not None
    assert found.far is not None
    with found.near, found.far:
        near, far = Packets(found.near.segments), Packets(found.far.segments)
    if not len(near.segments) and found.notes:
        raise LabError(found.notes[0])
    times = (found.span_ns, found.rate_mbit, found.notes, found.output)
    return Explained(case, Evidence(found.client, found.server, near, far, *times))


def _placed(words: Sequence[str], folder: str) -> list[str]:
    """The words of a command with its folder, and its program where that is off the PATH."""
    first, *others = (word.replace(_FOLDER, folder) for word in words)
    if shutil.which(first) is None:
        first = machine.find(first) or first
    return [first, *others]
