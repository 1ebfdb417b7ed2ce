"""Run one of the slow programs, or a learner's file, record it, and check the repair.

The check is based on segments, bytes and windows on the wire. It reads the program's own report
only for the size and checksum of the backup, and uses times only to detect requests that a cork
holds. Lessons and graders share it.
"""

import os
import shutil
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from tcplab.capture import Capture
from tcplab.checks import choice
from tcplab.errors import LabError, ParameterError
from tcplab.experiments import Between, experiment, provenance
from tcplab.experiments.diagnosis.cases import (
    PROGRAMS,
    Backup,
    Diagnosis,
    Program,
    Requests,
    Ticker,
)
from tcplab.experiments.mode import announce, why_not_live
from tcplab.lab import Lab, program_path
from tcplab.lab.scratch import temporary_folder
from tcplab.programs import SocketOptions, read_log, run_pair
from tcplab.programs.compile import compile_program
from tcplab.programs.sources import source_path
from tcplab.timeline import Exchange

CASES: Final[Mapping[str, type[Diagnosis]]] = {
    case.program: case for case in (Requests, Backup, Ticker)
}

_TIMEOUT_S: Final = 40.0
_DEADLINE_S: Final = 10.0


@experiment("diagnosis", figure=lambda figures, result: figures.symptom(result))
def measure(
    program: Annotated[Program, "the slow program to run"] = "request",
    source: str | None = None,
    network: Lab | None = None,
    rtt_ms: Annotated[float | None, Between(0, 4000, "ms")] = None,
    count: Annotated[int | None, Between(2, 10_000)] = None,
) -> Diagnosis:
    """Run one of three slow programs, and record its symptoms and the evidence of the cause.

    Args:
        source: C file to compile and run instead of the shipped program
        rtt_ms: round-trip time of the link; as in the lesson if unset
        count: number of requests, 16 KiB blocks or lines; as in the lesson if unset
    """
    case = CASES[program]
    link = dict(case.link)
    if rtt_ms is not None:
        link["rtt_ms"] = rtt_ms
    with temporary_folder() as directory:
        if source is None:
            binary, name = program_path(f"faulty_{program}"), "as shipped"
        else:
            binary, name = compile_source(Path(source), Path(directory)), Path(source).name
        with nullcontext(network) if network else Lab() as lab:
            lab.link.update(**{"rtt_ms": 0, "rate_mbit": 0} | link)
            return record(case, name, binary, lab, link, count)[0]


def compile_source(source: Path, directory: Path) -> Path:
    """Compile a C file into a folder, and return the program's path; ParameterError on failure."""
    if not source.is_file():
        raise ParameterError(f"{source}: no such file; diagnosis.copy(...) makes one to start from")
    built = compile_program(source.name, source.read_bytes())
    if built.binary is None:
        raise ParameterError(f"{source.name} does not compile: {built.first_error}")
    binary = directory / source.stem
    binary.write_bytes(built.binary)
    binary.chmod(0o755)
    return binary


def record(
    case: type[Diagnosis],
    source: str,
    binary: Path,
    lab: Lab,
    link: Mapping[str, float],
    count: int | None = None,
    snaplen: int = 128,
) -> tuple[Diagnosis, bytes]:
    """Run a program; return its record and, if snaplen exceeds 1500, the data the client sent."""
    units = case.units_by_default if count is None else count
    with temporary_folder() as directory:
        log, peer_log = Path(directory) / "log", Path(directory) / "peer.log"
        server, client = _commands(case, binary, lab, units, log, peer_log)
        with lab.client.capture(snaplen=snaplen) as near, lab.server.capture() as far:
            client_report, server_report = run_pair(lab, server, client, _TIMEOUT_S)
        with near, far:
            stream = stream_of(near) if snaplen > 1500 else b""
            exchange = Exchange(
                None,
                read_log(log) if log.exists() else None,
                near.segments,
                read_log(peer_log) if peer_log.exists() else None,
                None if case.program == "ticker" else far.segments,
                drops=(near.drops or 0) + (far.drops or 0),
                options=SocketOptions.from_json(client_report["options"]),
                tcp_info=client_report["tcp_info"],
                rate_mbit=link.get("rate_mbit"),
            )
    reports = (server_report, client_report) if case.listens else (client_report, server_report)
    origin = provenance(
        lab, program=case.program, source=source, count=units, rtt_ms=link.get("rtt_ms", 0.0)
    )
    return case(source, *reports, exchange, origin), stream


def _commands(
    case: type[Diagnosis], binary: Path, lab: Lab, units: int, log: Path, peer_log: Path
) -> tuple[list[str], list[str]]:
    common = ["--json", f"--deadline={_DEADLINE_S:g}"]
    peer = case.peer.replace("{count}", str(units)).split()
    program, other = [str(binary), *common], [*peer, *common]
    address = lab.server.address
    if case.listens:
        return [*program, "-p", "0", f"--bind={address}"], [*other, address]
    cpu = f"--cpu={min(os.sched_getaffinity(0))}"
    program += [f"--log={log}", cpu, "-c", str(units), "-p", "{port}", address]
    other += [*([f"--log={peer_log}"] if case.program == "request" else []), cpu]
    return [*other, f"--bind={address}"], program


def stream_of(capture: Capture) -> bytes:
    """Return the bytes that the client sent, joined by sequence number up to the first gap."""
    table, rows = capture.table, capture.segments
    pieces: dict[int, bytes] = {}
    for row in rows.data("client"):
        i, size = int(row["packet"]), int(row["payload_bytes"])
        end = int(table.offset[i]) + int(row["wire_bytes"])
        pieces[int(row["seq"])] = table.data[end - size : end]
    stream = bytearray()
    for seq in sorted(pieces):
        if seq - 1 > len(stream):
            break
        stream[seq - 1 :] = pieces[seq]
    return bytes(stream)


# ---- the check of a repair -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CodeVerdict:
    """The result of a check of a learner's program."""

    program: str
    passed: bool | None  #: None if the program could not be judged
    message: str  #: the counts and the goal, or the reason for the verdict
    counts: Mapping[str, Any]  #: the row of the run, or empty if there was no complete run

    def __str__(self) -> str:
        titles = {True: "PASSED", False: "NOT YET", None: "NOT JUDGED"}
        return f"{self.program}: {titles[self.passed]}. {self.message}"


def copy(program: Program, folder: str | os.PathLike[str] = ".") -> Path:
    """Copy a program's source into a folder unless it is already there; return its path."""
    choice("program", program, PROGRAMS)
    path = Path(folder) / f"faulty_{program}.c"
    if not path.exists():
        shutil.copyfile(source_path(path.name), path)
    return path


def check(source: str | os.PathLike[str]) -> CodeVerdict:
    """Compile a changed program, run it in a lab, and check its traffic.

    A file that does not compile, fails, hangs or changes the data has not passed, and the message
    gives the reason. In any mode but "live", `passed` is None, and a notebook shows three recorded
    changes. The name of the file must contain the program's name ("faulty_request.c").
    """
    path = Path(source)
    which = _program_of(path)
    if not path.is_file():
        raise ParameterError(
            f"{path}: no such file; diagnosis.copy({which!r}) makes one to start from"
        )
    if why := why_not_live():
        announce((Path(__file__).parent / f"your_turn/{which}.md").read_text())
        message = f"The check needs a lab ({why}). Choose one of three recorded changes instead."
        return CodeVerdict(which, None, message, {})
    case = CASES[which]
    with temporary_folder() as directory:
        try:
            binary = compile_source(path, Path(directory))
        except ParameterError as error:
            return CodeVerdict(which, False, f"{error}.", {})
        with Lab() as lab:
            lab.link.update(**case.link)
            try:
                result, stream = record(case, path.name, binary, lab, case.link, snaplen=2048)
            except LabError as error:
                return CodeVerdict(which, False, f"It does not run to its end: {error}.", {})
    counts = result.rows()[0]
    complaint = result.changed_stream(stream) or result.complaint()
    return CodeVerdict(which, not complaint, complaint or case.success.format(**counts), counts)


def _program_of(path: Path) -> Program:
    for program in PROGRAMS:
        if program in path.stem:
            return program
    names = ", ".join(f"faulty_{program}.c" for program in PROGRAMS)
    raise ParameterError(
        f"{path.name}: no program is known by this name; call the file one of {names}"
    )
