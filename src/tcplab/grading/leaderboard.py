"""`tcplab leaderboard`: who sends the most over hidden paths and lets the least wait.

Opt-in: whoever likes hands in one of two files, in a folder of the entry's name::

    ENTRIES/ada/setting.toml     # what of the path and the sender is to be chosen: see KEYS
    ENTRIES/bob/sender.c         # a C program; `tcplab leaderboard --starter FOLDER` has one

An entry runs over paths whose rate changes as a radio link's does, the same for all and drawn
from the course's secret. It is measured by what arrived per second and by the 95th percentile of
the time from when a segment first left its host to when it arrived. Beside each run, at the same
moment and over a path of its own with the same changes, runs a reference: cubic, 256 packets, tail
drop. The score is the ratio of both quotients,

    (rate / delay) / (reference's rate / reference's delay),

its geometric mean over the paths: the *power* of Kleinrock (1979), which no larger buffer and no
smaller window alone makes best. What a busy machine does to one it does to the other.
"""

from __future__ import annotations

import json
import math
import random
import shutil
import statistics
import tomllib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from tcplab.checks import choice, whole
from tcplab.errors import ParameterError
from tcplab.grading.neutral import one_line, page_of, unfit_id
from tcplab.grading.sandbox import Limits
from tcplab.grading.sandbox_runner import read_files
from tcplab.grading.submission import LabRun, Submission
from tcplab.segments import FROM_CLIENT, SegmentArray

SENDER: Final = Path(__file__).with_name("sender.c")
_TEMPLATE: Final = Path(__file__).with_name("leaderboard.html.j2")

SETTING_FILE, SENDER_FILE = "setting.toml", "sender.c"
SECONDS: Final = 6
PATHS: Final = 3
#: Of which a percentile can be told.
LEAST_SEGMENTS: Final = 100
MOST_PACKETS: Final = 10_000
MOST_SNDBUF_BYTES: Final = 4 << 20
#: How long a path keeps a rate, and between which it changes.
_STEP_MS, _LEAST_MBIT, _MOST_MBIT = 250, 2.0, 12.0
_PACKET_BITS: Final = 8 * 1500

STARTER: Final = """\
# An entry for the leaderboard. Leave out what is to stay as it is: these are the reference's.
aqm = "tail_drop"        # "codel", "fq_codel" or "pie": which packets the router drops
queue_packets = 256      # room in its queue
ecn = false              # the router marks in place of dropping; not with tail_drop
congestion = "cubic"     # or "reno", or "bbr" where the kernel has it
sndbuf_bytes = 0         # SO_SNDBUF: bounds what is in flight; 0 leaves it to the kernel
"""


@dataclass(frozen=True, slots=True)
class Setting:
    """Choices for a path and its sender."""

    aqm: str = "tail_drop"
    queue_packets: int = 256
    ecn: bool = False
    congestion: str = "cubic"
    sndbuf_bytes: int = 0

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Setting:
        """The setting with these values, the reference's for all others.

        Raises:
            ParameterError: one is unknown or out of range.
        """
        if unknown := sorted(set(values) - set(KEYS)):
            raise ParameterError(f"no setting {unknown[0]!r}; there are {', '.join(KEYS)}")
        setting = cls(**values)
        choice("aqm", setting.aqm, ("tail_drop", "codel", "fq_codel", "pie"))
        whole("queue_packets", setting.queue_packets, 1, MOST_PACKETS)
        if not isinstance(setting.ecn, bool):
            raise ParameterError(f"ecn={setting.ecn!r} must be true or false")
        choice("congestion", setting.congestion, ("cubic", "reno", "bbr"))
        whole("sndbuf_bytes", setting.sndbuf_bytes, 0, MOST_SNDBUF_BYTES)
        if setting.ecn and setting.aqm == "tail_drop":
            raise ParameterError("ecn = true needs an aqm that marks: codel, fq_codel or pie")
        return setting

    def wire(self) -> dict[str, Any]:
        """The parameters of the laboratory."""
        values = asdict(self)
        del values["sndbuf_bytes"]
        return values


KEYS: Final = tuple(Setting.__dataclass_fields__)
REFERENCE: Final = Setting()


@dataclass(frozen=True, slots=True)
class Entry:
    """A setting or a program, and whose it is."""

    name: str
    setting: Setting = REFERENCE
    program: bytes | None = None  #: C source; None for the course's own sender

    @property
    def kind(self) -> str:
        """The entry in a few words."""
        if self.program is not None:
            return SENDER_FILE
        changed = {
            key: value for key, value in asdict(self.setting).items() if value != _DEFAULTS[key]
        }
        return ", ".join(f"{key} = {value}" for key, value in changed.items()) or "the reference"


_DEFAULTS: Final = asdict(REFERENCE)


@dataclass(frozen=True, slots=True)
class HiddenPath:
    """A hidden path: its round-trip time and the trace that its rate follows."""

    rtt_ms: int
    trace: Sequence[int]  #: ms at which 1500 bytes may leave, over and over


@dataclass(frozen=True, slots=True)
class Measured:
    """One run over one path."""

    mbit: float  #: payload that arrived within SECONDS, none of it counted twice, in 10^6 bit/s
    delay_ms: float  #: from a segment's first departure to its arrival, 95th percentile
    wire_late_p99_ms: float = 0.0  #: how late a packet left the wire, the error of delay_ms
    wire_late: str = ""  #: why not to conclude from the run, when the wire was too late

    @property
    def power(self) -> float:
        """Rate over delay."""
        return self.mbit / self.delay_ms


@dataclass(frozen=True, slots=True)
class Score:
    """An entry's runs, each with that of the reference beside it."""

    entry: Entry
    runs: Sequence[tuple[Measured, Measured]]  #: of the entry, and of the reference

    @property
    def scores(self) -> list[float]:
        """The ratio of both powers on each path."""
        return [own.power / reference.power for own, reference in self.runs]

    @property
    def score(self) -> float:
        """Their geometric mean."""
        return statistics.geometric_mean(self.scores)

    def row(self, rank: int) -> dict[str, Any]:
        """Plain data for the table, the page and JSON."""
        return {
            "rank": rank,
            "entry": self.entry.name,
            "what": self.entry.kind,
            "score": round(self.score, 3),
            "least": round(min(self.scores), 3),
            "most": round(max(self.scores), 3),
            "mbit": round(statistics.mean(own.mbit for own, _ in self.runs), 3),
            "delay_ms": round(statistics.mean(own.delay_ms for own, _ in self.runs), 1),
            "wire_late_p99_ms": round(max(run.wire_late_p99_ms for run in self._all_runs), 2),
            "wire_late": next((run.wire_late for run in self._all_runs if run.wire_late), ""),
        }

    @property
    def _all_runs(self) -> list[Measured]:
        return [run for pair in self.runs for run in pair]


@dataclass(slots=True)
class Board:
    """The outcome: scores, best first, and what could not be scored."""

    scores: list[Score] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)  #: name -> why

    def rows(self) -> list[dict[str, Any]]:
        """One per score."""
        return [each.row(rank) for rank, each in enumerate(self.scores, start=1)]

    def save(self, folder: Path) -> Path:
        """Writes leaderboard.html and leaderboard.json; the page's path."""
        folder.mkdir(parents=True, exist_ok=True)
        data = {"entries": self.rows(), "left_out": self.left_out}
        (folder / "leaderboard.json").write_text(json.dumps(data, indent=1) + "\n")
        page = folder / "leaderboard.html"
        page.write_text(page_of(_TEMPLATE, rows=self.rows(), left_out=self.left_out, paths=PATHS))
        return page


# ---- entries -------------------------------------------------------------------------------------


def read_entries(folder: Path) -> tuple[list[Entry], dict[str, str]]:
    """The entries in a folder, in the order of their names; and why others are none.

    Raises:
        ParameterError: there is no such folder, or nothing is in it.
    """
    if not folder.is_dir():
        raise ParameterError(f"{folder}: no such folder; it holds a folder for each entry")
    found, refused = [], {}
    for place in sorted(each for each in folder.iterdir() if each.is_dir()):
        try:
            found.append(read_entry(place))
        except ParameterError as error:
            refused[place.name] = str(error)
    if not found and not refused:
        raise ParameterError(f"{folder} holds no entry, such as {folder / 'ada' / SETTING_FILE}")
    return found, refused


def read_entry(place: Path) -> Entry:
    """The entry in a folder.

    Raises:
        ParameterError: it holds not just one of the two files, or what is in it is no setting.
    """
    if reason := unfit_id(place.name):
        raise ParameterError(f"this name {reason}")
    files = read_files(place, (SETTING_FILE, SENDER_FILE))
    if len(files) != 1:
        both = "both, and one counts" if files else "neither of them"
        raise ParameterError(f"{SETTING_FILE} or {SENDER_FILE} is to be there; it has {both}")
    if SENDER_FILE in files:
        return Entry(place.name, program=files[SENDER_FILE])
    try:
        values = tomllib.loads(files[SETTING_FILE].decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise ParameterError(f"{SETTING_FILE} cannot be read: {error}") from None
    return Entry(place.name, Setting.of(values))


def write_starter(folder: Path) -> None:
    """Writes both files, to be handed out.

    Raises:
        ParameterError: one is there already.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in (SETTING_FILE, SENDER_FILE):
        if (folder / name).exists():
            raise ParameterError(f"{folder / name} exists already; choose another folder")
    (folder / SETTING_FILE).write_text(STARTER)
    shutil.copyfile(SENDER, folder / SENDER_FILE)


# ---- paths ---------------------------------------------------------------------------------------


def hidden_paths(rng: random.Random) -> list[HiddenPath]:
    """Paths that are always the same for the same source of chance."""
    rtts_ms = rng.sample(range(20, 81), PATHS)
    return [HiddenPath(rtt_ms, _trace(rng)) for rtt_ms in rtts_ms]


def _trace(rng: random.Random) -> list[int]:
    """Opportunities to send over SECONDS; each step changes the rate by a factor of up to 1.6."""
    times: list[int] = []
    mbit, due_bits = rng.uniform(_LEAST_MBIT, _MOST_MBIT), 0.0
    for ms in range(1, SECONDS * 1000 + 1):
        if ms % _STEP_MS == 0:
            wandered = mbit * math.exp(rng.uniform(-1, 1) * math.log(1.6))
            mbit = min(max(wandered, _LEAST_MBIT), _MOST_MBIT)
        due_bits += mbit * 1000
        while due_bits >= _PACKET_BITS:
            times.append(ms)
            due_bits -= _PACKET_BITS
    return times


# ---- runs ----------------------------------------------------------------------------------------


def score_entry(entry: Entry, paths: Sequence[HiddenPath]) -> Score:
    """Runs an entry over all paths at once, each with the reference beside it.

    Raises:
        ParameterError: its program does not compile or fails, or hardly anything arrived.
        LabError: no laboratory or sandbox can be made here.
    """
    pairs = [(each, path) for path in paths for each in (entry, Entry("the reference"))]
    with ThreadPoolExecutor(len(pairs)) as threads:
        running = [threads.submit(_measure, each, path) for each, path in pairs]
        runs = [each.result() for each in running]
    return Score(entry, list(zip(runs[::2], runs[1::2], strict=True)))


def _measure(entry: Entry, path: HiddenPath) -> Measured:
    source = SENDER.read_bytes() if entry.program is None else entry.program
    lab = {"rtt_ms": path.rtt_ms, **entry.setting.wire()}
    with Submission(entry.name, {}, {}, {SENDER_FILE: source}) as work:
        built = work.compile(SENDER_FILE)
        if built.binary is None:
            raise ParameterError(f"{SENDER_FILE} does not compile: {built.first_error}")
        link = work.lab(**lab).link
        link.follow(path.trace)
        run = work.run_in_lab(
            built,
            ["10.0.0.2", "{port}", str(SECONDS), str(entry.setting.sndbuf_bytes)],
            peer=["tcpsink", "--json", "--port", "0", "-b", "auto"],
            lab=lab,
            limits=Limits(wall_s=SECONDS + 4, cpu_s=SECONDS, processes=8),
        )
        late = link.lateness()
    return replace(
        measured(run),
        wire_late_p99_ms=late["wire_late_p99_ms"],
        wire_late=late.get("wire_late", ""),
    )


def measured(run: LabRun) -> Measured:
    """Rate and delay of a run.

    Raises:
        ParameterError: the program failed, or too little arrived to say anything.
    """
    if not run.outcome.ok:
        raise ParameterError(f"{SENDER_FILE} {run.outcome.how_it_ended()}")
    left, came = (_first_seen(rows) for rows in (run.client_segments, run.server_segments))
    if not came:
        raise ParameterError(f"no data arrived in {SECONDS} s")
    end_ns = int(run.server_segments["time_ns"][0]) + SECONDS * 1_000_000_000
    arrived = {seq: each for seq, each in came.items() if each[0] <= end_ns}
    delays_ms = [(at_ns - left[seq][0]) / 1e6 for seq, (at_ns, _) in arrived.items() if seq in left]
    if len(delays_ms) < LEAST_SEGMENTS:
        raise ParameterError(
            f"{len(delays_ms)} segments arrived in {SECONDS} s; {LEAST_SEGMENTS} are the least"
        )
    mbit = 8 * sum(size for _, size in arrived.values()) / SECONDS / 1e6
    return Measured(mbit, statistics.quantiles(delays_ms, n=20)[-1])


def _first_seen(rows: SegmentArray) -> dict[int, tuple[int, int]]:
    """Time in ns and size of the client's data segments when seen first, by sequence number."""
    found: dict[int, tuple[int, int]] = {}
    for row in rows[(rows["direction"] == FROM_CLIENT) & (rows["payload_bytes"] > 0)]:
        found.setdefault(int(row["seq"]), (int(row["time_ns"]), int(row["payload_bytes"])))
    return found


def leaderboard(
    folder: Path, rng: random.Random, tell: Callable[[str], None] = lambda _line: None
) -> Board:
    """Scores all entries in a folder, one after the other, best first.

    Args:
        folder: with a folder for each entry.
        rng: of the hidden paths.
        tell: gets a line per entry.

    Raises:
        ParameterError: there is no entry.
        LabError: no laboratory or sandbox can be made here.
    """
    entries, left_out = read_entries(folder)
    paths = hidden_paths(rng)
    board = Board(left_out=left_out)
    for number, entry in enumerate(entries, start=1):
        try:
            board.scores.append(score_entry(entry, paths))
            tell(f"{number}/{len(entries)} {one_line(entry.name)}: {board.scores[-1].score:.2f}")
        except ParameterError as error:
            left_out[entry.name] = str(error)
    board.scores.sort(key=lambda each: -each.score)
    return board
