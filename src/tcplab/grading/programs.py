"""Compile C programs for checks, and describe their runs (see docs/grading.md)."""

import functools
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Concatenate, NamedTuple, ParamSpec

from tcplab.grading.checks import Verdict
from tcplab.grading.sandbox import Limits
from tcplab.grading.submission import LabRun, Submission
from tcplab.programs.compile import Built
from tcplab.segments import FROM_CLIENT, FROM_SERVER

_P = ParamSpec("_P")
_Check = Callable[Concatenate[Submission, _P], Verdict]

#: Runs in each of which a message must be held before a program loses points for it.
_RUNS = 3
#: Number of bytes that a program may send in addition to twice the size of its files.
MOST_BESIDE_BYTES = 1 << 20
_NO_IO_URING = " In grading, calls of io_uring fail with ENOSYS. Fall back to poll() or threads."
#: The usual reasons for a program's bad end.
_USUAL = {
    "wall": " (does it wait for data or for an end that never comes?)",
    "SIGPIPE": " (had the peer closed the connection?)",
    "SIGSEGV": " (did it use memory that it does not own?)",
}


def compiled(name: str) -> Callable[[_Check[_P]], _Check[_P]]:
    """Decorate a check, so that a file that does not compile gets 0 and the compiler's messages."""

    def decorate(check: _Check[_P]) -> _Check[_P]:
        @functools.wraps(check)
        def checked(submission: Submission, /, *args: _P.args, **kwargs: _P.kwargs) -> Verdict:
            built = submission.compile(name)
            if built.binary is None:
                return Verdict(0, f"{name} does not compile:\n{built.messages}")
            verdict = check(submission, *args, **kwargs)
            if b"io_uring" in submission.files[name] and (submission.unsafe or not verdict.passed):
                return replace(verdict, message=verdict.message + _NO_IO_URING)
            return verdict

        return checked

    return decorate


def how_it_ended(run: LabRun, name: str) -> str:
    """Return how the learner's program ended, with its last line on standard error and a hint."""
    errors = run.outcome.errors.decode(errors="replace").strip()
    last = "".join(filter(str.isprintable, errors.rpartition("\n")[2]))
    quoted = f' and printed "{last[:120]}"' if last else ""
    hint = _USUAL.get(run.outcome.stopped_by or run.outcome.signal or "", "")
    return f"{name} {run.outcome.how_it_ended()}{quoted}{hint}"


def never_listened(run: LabRun, name: str, port: int) -> Verdict:
    """Give 0 to a server that did not listen, with how it ended, such as its failure to bind."""
    return Verdict(0, f"No program listened on port {port}; {how_it_ended(run, name)}.")


def run_into_file(
    submission: Submission,
    built: Built,
    arguments: Sequence[str],
    *,
    lab: Mapping[str, Any],
    files: Mapping[str, bytes],
    limits: Limits,
) -> tuple[LabRun, bytes]:
    """Run the learner's program on the client, and the course's sendfile_server on the server.

    Return the run, and the bytes that arrived. There are none if no client connected, and at most
    twice the size of the files plus MOST_BESIDE_BYTES.
    """
    most_bytes = 2 * sum(map(len, files.values())) + MOST_BESIDE_BYTES
    with tempfile.TemporaryDirectory(prefix="tcplab-received-") as folder:
        received = Path(folder) / "received"
        peer = ["sendfile_server", "--json", "--port", "0", "--most", str(most_bytes)]
        run = submission.run_in_lab(
            built, arguments, peer=[*peer, "-o", str(received)], lab=lab, files=files, limits=limits
        )
        return run, received.read_bytes() if received.is_file() else b""


class Departure(NamedTuple):
    """A data segment that leaves its host for the first time, with its place in the stream."""

    start_bytes: int  #: offset of its first byte in the stream
    end_bytes: int  #: offset of its end in the stream
    acked_bytes: int  #: number of bytes of the stream that were acknowledged when it left

    @property
    def size_bytes(self) -> int:
        return self.end_bytes - self.start_bytes

    @property
    def is_ahead(self) -> bool:
        """True if it left while earlier data was unacknowledged, and so not because of an ACK.

        With a long RTT, this tells immediate from delayed segments, however fast the machine is.
        """
        return self.acked_bytes < self.start_bytes


def departures(run: LabRun, from_client: bool = True) -> list[Departure]:
    """Return one direction's data segments, without retransmissions, as captured at the sender."""
    rows = run.client_segments if from_client else run.server_segments
    ours = FROM_CLIENT if from_client else FROM_SERVER
    sent, acked = [], 0
    for row in rows:
        if row["direction"] != ours:
            acked = max(acked, int(row["ack"]) - 1)  # the SYN is number 0, the first byte number 1
        elif row["payload_bytes"] and not row["is_retransmission"]:
            start = int(row["seq"]) - 1
            sent.append(Departure(start, start + int(row["payload_bytes"]), acked))
    return sent


def held(run: LabRun, ends: Collection[int]) -> int:
    """Return how many messages, given by their ends, left together with the next one.

    After a needless retransmission, TCP holds messages that the program does not. It must not hold
    any before, so the run needs an `initial_window` for all of them, and a longer RTT than it
    takes to send them. Otherwise an ACK releases messages that the program holds.
    """
    rows = run.client_segments
    again = rows["is_retransmission"].nonzero()[0]
    sent = departures(replace(run, client_segments=rows[: again[0]] if len(again) else rows))
    return sum(segment.start_bytes < end < segment.end_bytes for segment in sent for end in ends)


def always_held(run: LabRun, again: Callable[[], LabRun], ends: Collection[int]) -> int:
    """Return the smallest number of held messages in a run and, if there are any, in two more.

    A busy machine may hold a message in one of the runs. A program that holds messages always does.
    """
    fewest = held(run, ends)
    for _ in range(_RUNS - 1):
        if fewest and (other := again()).outcome.ok:
            fewest = min(fewest, held(other, ends))
    return fewest
