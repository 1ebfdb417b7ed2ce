"""Show the progress of a long measurement, and keep complete rounds on Ctrl-C."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from itertools import repeat
from typing import Any, ClassVar, TypeVar

from tqdm import tqdm

from tcplab.experiments.provenance import RUNNING, provenance
from tcplab.experiments.result import Result, V
from tcplab.lab import Lab, Network

K = TypeVar("K")
R = TypeVar("R")


class Rounds:
    """Count the rounds of an experiment, one for each iteration of a loop over this object.

    A Ctrl-C after the first complete round ends the ``with`` statement quietly. Before that there
    is no result, and KeyboardInterrupt propagates. A terminal shows a bar on stderr. A notebook
    shows a line below the cell, which is empty in the end. A log file shows nothing.

    A panel's worker sets `watch`, which is called with the numbers of rounds done and planned.
    """

    watch: ClassVar[Callable[[int, int], None] | None] = None

    def __init__(self, total: int, unit: str = "") -> None:
        self.total = total
        self.name = name = f"{RUNNING.get()}{unit}"
        self.done = 0
        self.interrupted = False
        # With disable=None, only a terminal shows the bar.
        self._bar = tqdm(total=total, desc=name, unit="round", leave=False, disable=None)
        self._line: Any = None

    def __enter__(self) -> Rounds:
        if self._bar.disable and _in_notebook():
            from IPython import display

            handle: Any = display.DisplayHandle  # display has no type annotations
            self._line = handle()
            self._line.display({"text/plain": f"{self.name} …"}, raw=True)
        return self

    def __iter__(self) -> Iterator[int]:
        for number in range(self.total):
            yield number
            self.done += 1
            self._bar.update()
            self._say(f"{self.name}: {self.done} of {self.total}")
            if Rounds.watch is not None:
                Rounds.watch(self.done, self.total)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        self._bar.close()
        self._say("")
        self.interrupted = kind is KeyboardInterrupt and self.done > 0
        return self.interrupted

    def _say(self, text: str) -> None:
        if self._line is not None:
            self._line.update({"text/plain": text}, raw=True)


def _in_notebook() -> bool:
    if "ipykernel" not in sys.modules or Rounds.watch is not None:
        return False
    from IPython import get_ipython

    shell = get_ipython()
    return getattr(shell, "kernel", None) is not None


def in_rounds(
    runs: int, variants: Sequence[K], measure: Callable[[K], R]
) -> tuple[dict[K, list[R]], dict[str, Any]]:
    """Measure every variant once per round, so that a disturbance affects all variants equally.

    Return the results of each variant, one per complete round, and a dict for the provenance with
    "runs" and "interrupted" (by Ctrl-C).
    """
    finished: list[list[R]] = []
    with Rounds(runs) as rounds:
        for _round in rounds:
            finished.append([measure(variant) for variant in variants])
    results = {variant: [done[n] for done in finished] for n, variant in enumerate(variants)}
    return results, {"runs": rounds.done, "interrupted": rounds.interrupted}


def one_by_one(variants: Sequence[K], measure: Callable[[K], R]) -> tuple[list[R], dict[str, Any]]:
    """Measure every variant once, or fewer on Ctrl-C. Return the results and their provenance."""
    results: list[R] = []
    with Rounds(len(variants)) as rounds:
        for number in rounds:
            results.append(measure(variants[number]))
    return results, {"runs": rounds.done, "interrupted": rounds.interrupted}


def case_by_case(
    network: Network, cases: Iterable[K], measure: Callable[[K], V], **details: Any
) -> Result[V]:
    """Measure every case once on this network, or fewer on Ctrl-C; `details` are provenance."""
    variants, done = one_by_one(list(cases), measure)
    return Result(variants, provenance(network, **details, **done))


def in_labs(
    seconds: float,
    cases: Sequence[K],
    parameters: Callable[[K], Mapping[str, Any]],
    measure: Callable[[Lab, K], R],
) -> tuple[list[R], dict[str, Any]]:
    """Measure all cases at the same time, because a case mostly waits for its link.

    Each case has its own laboratory, Lab(**parameters(case)), and its own thread, and takes about
    `seconds`. Return the results in the order of the cases, and the first laboratory's provenance.
    """
    with ExitStack() as stack:
        labs = [stack.enter_context(Lab(**parameters(case))) for case in cases]
        threads = stack.enter_context(ThreadPoolExecutor(len(cases)))
        running: list[Future[R]] = list(map(threads.submit, repeat(measure), labs, cases))
        with Rounds(int(seconds) + 1, ", seconds") as rounds:
            for _second in rounds:
                wait(running, timeout=1)
        results = [future.result() for future in running]
        return results, provenance(labs[0], duration_s=seconds)
