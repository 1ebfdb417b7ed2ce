"""Run contests on a shared machine. Entrants alternate, and a disturbed run is repeated."""

import math
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Self

from tcplab.errors import LabError

TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")

#: A run is repeated if other processes had more than this share of the processors.
DISTURBED: Final = 0.03
KTHREADD: Final = 2


@dataclass(frozen=True, slots=True)
class Measured:
    """The result of one run of one entrant.

    Attributes:
        value: value in the contest's unit.
        bytes: payload moved, for the processor time per gigabyte; 0 if this is not reported.
        more: further numbers by name.
    """

    value: float
    bytes: int = 0
    more: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sample:
    """A measurement with its circumstances.

    Attributes:
        measured: the result.
        cpu_s: user and system time of the child processes that ended during the run.
        others: share of the processors' time that other processes took meanwhile, 0 to 1.
        runs: number of runs, of which the least disturbed one counts.
    """

    measured: Measured
    cpu_s: float
    others: float
    runs: int


@dataclass(frozen=True, slots=True)
class Rules:
    """The conditions of a contest.

    Attributes:
        rounds: number of samples of each entrant.
        repeats: maximum number of repetitions of a disturbed sample.
        seconds: duration of each sample.
        repeat_until: time (time.monotonic) after which no sample is repeated.
        short: measure each kind of thing once, and at a small size.
    """

    rounds: int = 5
    repeats: int = 3
    seconds: int = 1
    repeat_until: float = math.inf
    short: bool = False


Entrant = Callable[[], Measured]


def contest(
    entrants: Mapping[str, Entrant],
    rules: Rules,
    title: str = "",
    guests: Collection[str] = (),
) -> dict[str, list[Sample]]:
    """Run the entrants in turn, starting with a different one in each round.

    Args:
        entrants: entrants by name.
        rules: the conditions of the contest.
        title: title of the lines that report progress.
        guests: entrants whose failure is reported but does not end the contest.
    """
    names = list(entrants)
    samples: dict[str, list[Sample]] = {name: [] for name in names}
    for number in range(rules.rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            try:
                sample = undisturbed(entrants[name], rules)
            except (LabError, ValueError, KeyError) as error:
                if name not in guests:
                    raise
                say(f"{title}: {name} is out: {error}")
                names.remove(name)
                del samples[name]
                continue
            samples[name].append(sample)
            say(f"{title}: round {number + 1}: {name}: {sample.measured.value:.4g}", sample.others)
    return samples


def undisturbed(run: Entrant, rules: Rules) -> Sample:
    """Repeat a run while it is disturbed and the rules allow it; return the least disturbed one."""
    best = _sample(run)
    runs = 1
    while (
        best.others > DISTURBED and runs <= rules.repeats and time.monotonic() < rules.repeat_until
    ):
        again = _sample(run)
        best = again if again.others < best.others else best
        runs += 1
    return replace(best, runs=runs)


def _sample(run: Entrant) -> Sample:
    with Others() as others:
        before_s = _children_cpu_s()
        measured = run()
        cpu_s = _children_cpu_s() - before_s
    return Sample(measured, cpu_s, others.share, 1)


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def say(line: str, others: float | None = None) -> None:
    """Print a line of progress on standard error."""
    note = f"  [others: {100 * others:.0f} %]" if others is not None and others > DISTURBED else ""
    print(line + note, file=sys.stderr, flush=True)


def summary(samples: Sequence[Sample]) -> dict[str, Any]:
    """Return the median and the spread of an entrant's samples, and their circumstances."""
    values = [sample.measured.value for sample in samples]
    names = sorted({name for sample in samples for name in sample.measured.more})
    row: dict[str, Any] = {
        "median": statistics.median(values),
        "lowest": min(values),
        "highest": max(values),
        "rounds": len(values),
        "values": values,
        "repeated": sum(sample.runs - 1 for sample in samples),
        "others": statistics.median(sample.others for sample in samples),
    }
    if all(sample.measured.bytes for sample in samples):
        row["cpu_s_per_gb"] = statistics.median(
            1e9 * sample.cpu_s / sample.measured.bytes for sample in samples
        )
    for name in names:
        row[name] = statistics.median(sample.measured.more[name] for sample in samples)
    return row


class Others:
    """Measure the share of CPU time that other processes or a VM's host take during the block.

    The time of ended children counts for their parents, so that a compiler that runs for two
    milliseconds is not missed. Kernel threads do not count, since they may do our own work.
    """

    share: float = 0.0

    def __enter__(self) -> Self:
        self._start = time.monotonic(), _others_s()
        return self

    def __exit__(self, *_: object) -> None:
        took_s = time.monotonic() - self._start[0]
        others_s = max(0.0, _others_s() - self._start[1])
        self.share = others_s / (took_s * (os.cpu_count() or 1))


def _others_s() -> float:
    parents: dict[int, int] = {}
    used: dict[int, float] = {}
    for directory in Path("/proc").iterdir():
        if not directory.name.isdigit():
            continue
        try:
            fields = (directory / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # the process has ended
            continue
        pid = int(directory.name)
        parents[pid] = int(fields[1])
        used[pid] = sum(map(int, fields[11:15])) / TICKS_PER_S
    me = os.getpid()
    others = sum(s for pid, s in used.items() if not _descends(pid, {me, KTHREADD}, parents))
    return others + _stolen_s()


def _descends(pid: int, ancestors: set[int], parents: Mapping[int, int]) -> bool:
    while pid in parents:
        if pid in ancestors:
            return True
        pid = parents[pid]
    return False


def _stolen_s() -> float:
    """Return the time for which the virtual machine's host has withheld the processors."""
    return int(Path("/proc/stat").read_text().split("\n", 1)[0].split()[8]) / TICKS_PER_S
