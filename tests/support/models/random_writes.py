"""Compare the segments that the models predict for random writes with the kernel's segments.

    python -m tests.support.models.random_writes [--count 400] [--seed 1] [--rtts-ms 1 10 40]

The program plays patterns of writes in a laboratory and prints the share of correct predictions:

- *outright*: the one prediction from the calls (simulate);
- *within outcomes*: one of the outcomes that the models state for calls, ACKs and timers that come
  so close together that chance decides (outcomes).

A pattern whose own record says that the link was late is *disturbed*. It is counted separately,
and not included in the shares. The same seed makes the same patterns, but the kernel's timing
varies. docs/accuracy.md explains the remaining misses.
"""

import argparse
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tests.support.models.outcomes import outcomes
from tests.support.models.playground import LINK_LATE, SYSCTLS, Played, kernel_clock, play, to_text
from tests.support.undisturbed import undisturbed

from tcplab.lab import Lab
from tcplab.models import Call, NetworkPath, Peer
from tcplab.models.conversation import Kind, Simulation

OPTIONS: Final = ("default", "nodelay", "cork", "more", "writev")
RTTS_MS: Final = (1.0, 10.0, 40.0)
PEERS: Final = {
    "reads at once": Peer(),
    "delays ACKs": Peer(quickack="off"),
    "ACKs at once": Peer(quickack="always"),
    "answers": Peer(reply_every_bytes=1000, reply_bytes=100),
}
MSS: Final = 1448
CORNERS: Final = (1, 2, MSS - 1, MSS, MSS + 1, 2 * MSS, 2 * MSS + 1, 10 * MSS)
#: Delay from the handshake to the first call, after which both ends are idle.
SETTLE_MS: Final = 60.0
#: Number of patterns that run at a time, and the time between their starts.
AT_A_TIME: Final = 40
STAGGER_MS: Final = 30.0


@dataclass(frozen=True)
class Pattern:
    """The calls of one connection."""

    option: str
    rtt_ms: float
    peer: str
    calls: tuple[Call, ...]


def patterns(count: int, seed: int, rtts_ms: Sequence[float] = RTTS_MS) -> list[Pattern]:
    """Return patterns in which each option is as frequent as any other."""
    chance = random.Random(seed)
    options = [OPTIONS[number % len(OPTIONS)] for number in range(count)]
    return [_pattern(chance, option, rtts_ms) for option in options]


def _pattern(chance: random.Random, option: str, rtts_ms: Sequence[float]) -> Pattern:
    sizes = [_size(chance) for _ in range(chance.randint(1, 15))]
    gaps = [SETTLE_MS, *(_gap_ms(chance) for _ in sizes[1:])]
    calls = [Call("write", size, gap) for size, gap in zip(sizes, gaps, strict=True)]
    if option == "more":
        calls[:-1] = [Call("more", call.value, call.delay_ms) for call in calls[:-1]]
    elif option == "writev":
        calls = [Call("write", sum(sizes), SETTLE_MS)]
    elif option == "cork":
        calls[0] = Call("write", sizes[0])
        calls = [Call("cork", 1, SETTLE_MS), *calls, Call("cork", 0)]
    elif option == "nodelay":
        calls[0] = Call("write", sizes[0])
        calls = [Call("nodelay", 1, SETTLE_MS), *calls]
    # A harmless call comes long after the others, so that the shutdown does not affect them.
    calls.append(Call("quickack", 1, 700.0))
    return Pattern(option, chance.choice(rtts_ms), chance.choice(list(PEERS)), tuple(calls))


#: The kinds of calls in mixed(), each repeated in proportion to its frequency.
_KINDS: Final[tuple[Kind, ...]] = (*("write",) * 5, *("more",) * 2, *("cork",) * 2, "nodelay")
#: Kept small, because the model's window does not change.
_MOST_BYTES: Final = 7500
MIXED_RTT_MS: Final = 50.0
#: Lateness that tests allow in patterns of mixed(). A run is repeated if the link was later.
MIXED_LATE_MS: Final = 20.0
#: Longer than a round trip, a delayed ACK and a cork's timer together.
_LONG_MS: Final = 450.0


def mixed(count: int, seed: int) -> list[Pattern]:
    """Return patterns of writes, corks and options in any order, back to back or far apart."""
    chance = random.Random(seed)
    return [_mixed(chance, list(PEERS)[number % len(PEERS)]) for number in range(count)]


def _mixed(chance: random.Random, peer: str) -> Pattern:
    calls: list[Call] = []
    for number in range(chance.randint(2, 8)):
        gap_ms = _LONG_MS if chance.random() < 0.35 else 0.0
        kind = chance.choice(_KINDS) if number else "write"
        value = chance.randint(0, 1) if kind in ("cork", "nodelay") else _size(chance)
        value = min(value, _MOST_BYTES)
        calls.append(Call(kind, value, gap_ms if number else SETTLE_MS + MIXED_RTT_MS))
    return Pattern("mixed", MIXED_RTT_MS, peer, (*calls, Call("quickack", 1, _LONG_MS)))


def _size(chance: random.Random) -> int:
    kind = chance.random()
    if kind < 0.25:
        return chance.choice(CORNERS)
    if kind < 0.7:
        return chance.randint(1, 1000)
    return round(2 ** chance.uniform(0, 15))


def _gap_ms(chance: random.Random) -> float:
    """Return a gap before a write: none for half of the writes, else 0.03 to 100 ms."""
    return 0.0 if chance.random() < 0.5 else round(10 ** chance.uniform(-1.5, 2), 2)


@dataclass(frozen=True)
class Trial:
    """A pattern with its real and its predicted segments."""

    pattern: Pattern
    played: Played
    stated: tuple[Simulation, ...]
    #: Lateness of the machine and the link that the outcomes assume.
    late_ms: float

    @property
    def is_disturbed(self) -> bool:
        """True if a packet of the connection was later on the link than the outcomes assume."""
        return self.played.link_late_ms > self.late_ms

    @property
    def is_settled(self) -> bool:
        """Return whether no lateness that outcomes() tries changes the prediction."""
        return len(self.stated) == 1

    @property
    def outright(self) -> bool:
        return self.played.boundaries == self.stated[0].boundaries

    @property
    def within(self) -> bool:
        return self.played.boundaries in {outcome.boundaries for outcome in self.stated}

    def __str__(self) -> str:
        pattern = self.pattern
        return (
            f"{'DISTURBED ' * self.is_disturbed}{pattern.option}, {pattern.rtt_ms:g} ms,"
            f" {pattern.peer}, link late by {self.played.link_late_ms:.2f} ms:"
            f" {to_text(self.played.calls)}\n"
            f"    kernel     {self.played.boundaries}\n"
            f"    predicted  {self.stated[0].boundaries}, {len(self.stated)} outcomes"
            f"{'' if self.within else ', none of them this'}"
        )


def trials(wanted: Sequence[Pattern], late_ms: float = 2.0) -> Iterator[Trial]:
    """Play the patterns, grouped by path and peer; yield a trial of each.

    Args:
        wanted: the patterns to play.
        late_ms: the lateness that outcomes() assumes.
    """
    for rtt_ms in sorted({pattern.rtt_ms for pattern in wanted}):
        with Lab(rtt_ms=rtt_ms, sysctls=SYSCTLS) as lab:
            for peer in PEERS:
                same = [p for p in wanted if (p.rtt_ms, p.peer) == (rtt_ms, peer)]
                for start in range(0, len(same), AT_A_TIME):
                    batch = same[start : start + AT_A_TIME]
                    yield from _played(lab, batch, late_ms)


def _played(lab: Lab, batch: Sequence[Pattern], late_ms: float) -> Iterator[Trial]:
    peer, clock = PEERS[batch[0].peer], kernel_clock()
    latest: dict[int, Played] = {}

    def late() -> list[int]:
        return [n for n, played in latest.items() if played.link_late_ms > MIXED_LATE_MS]

    def play_late() -> None:
        """Play the patterns that a late link disturbed, at first all of them."""
        numbers = late() if latest else list(range(len(batch)))
        # The first connection of a laboratory meets cold caches, and its handshake is slow.
        schedules = [(Call("quickack", 1, 700.0),), *(batch[n].calls for n in numbers)]
        results = play(lab, schedules, peer, stagger_ms=STAGGER_MS)[1:]
        latest.update(zip(numbers, results, strict=True))

    undisturbed(play_late, lambda _result: LINK_LATE if late() else "")
    for number, pattern in enumerate(batch):
        played = latest[number]
        # The handshake shows how long the path is, to both ends and to us.
        path = NetworkPath(rtt_ms=played.handshake_ms, clock=clock)
        stated = outcomes(played.since_connect, path, peer, late_ms=late_ms)
        yield Trial(pattern, played, stated, late_ms)


def shares(results: Sequence[Trial]) -> dict[str, float]:
    """Return the percentage of right predictions of each kind, disturbed trials left out."""
    calm = [trial for trial in results if not trial.is_disturbed]
    if not calm:
        raise ValueError("the link was late in every trial: try again on a less busy machine")
    return {
        name: 100 * sum(getattr(trial, name) for trial in calm) / len(calm)
        for name in ("outright", "within")
    }


def report(results: Sequence[Trial]) -> str:
    """Return the table of docs/accuracy.md: a row per option, and one for all."""
    headings = ["%", "patterns", "disturbed", "as predicted", "one of the stated outcomes"]
    lines = [f"| {' | '.join(headings)} |", "|---" * len(headings) + "|"]
    for option in (*OPTIONS, "all"):
        selected = [trial for trial in results if option in (trial.pattern.option, "all")]
        counts = [len(selected), sum(trial.is_disturbed for trial in selected)]
        numbers = [
            option,
            *map(str, counts),
            *(f"{share:.1f}" for share in shares(selected).values()),
        ]
        lines.append(f"| {' | '.join(numbers)} |")
    stated = sum(len(trial.stated) for trial in results) / len(results)
    return "\n".join([*lines, f"{stated:.2f} outcomes stated per pattern"])


def misses(results: Iterable[Trial]) -> list[Trial]:
    """Return the trials in which the prediction is wrong."""
    return [trial for trial in results if not trial.outright]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=400, help="patterns (400)")
    parser.add_argument("--seed", type=int, default=1, help="of the patterns (1)")
    parser.add_argument(
        "--rtts-ms", type=float, nargs="+", default=RTTS_MS, help="of the paths (1 10 40)"
    )
    parser.add_argument("--list", action="store_true", help="name each miss")
    arguments = parser.parse_args()
    results = list(trials(patterns(arguments.count, arguments.seed, arguments.rtts_ms)))
    if arguments.list:
        print("\n".join(map(str, misses(results))))
    print(report(results))


if __name__ == "__main__":
    main()
