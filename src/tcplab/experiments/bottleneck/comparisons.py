"""Compare queues, routers' buffers, congestion controls and round-trip times on one bottleneck.

Bufferbloat is measured as in lab exercises of Toronto, Washington, Stanford and others. The
defaults are those of Toronto's CSC458. Here all cases are measured at the same time, each in its
own laboratory. A ping is a UDP datagram that is echoed.

C. Villamizar and C. Song (CCR 24(5), 1994) found that one flow needs a bandwidth-delay product of
buffer. G. Appenzeller, I. Keslassy and N. McKeown (SIGCOMM 2004) found that n flows need 1/√n of
it, as long as their windows are not synchronised.

BBR is described by N. Cardwell and others, "BBR: congestion-based congestion control", ACM Queue
14(5), 2016. Its share of a link with competing flows is the subject of R. Ware and others,
"Modeling BBR's interactions with loss-based congestion control", IMC 2019.
"""

import itertools
import math
import statistics
from collections.abc import Sequence
from typing import Annotated, Final, Literal, TypeAlias

from tcplab.errors import LabError
from tcplab.experiments import Between, Result, experiment
from tcplab.experiments.bottleneck.sharing import Congestion, Shared, share_each
from tcplab.experiments.parameters import DurationS, QueuePackets, Queues, RateMbit, RttMs, RttsMs
from tcplab.experiments.quantities import Variant, column, computed, derived
from tcplab.experiments.sockets import MSS_BYTES
from tcplab.lab import congestion_controls
from tcplab.models import goodput_mbyte_s, jain_index, sawtooth_share, serialisation_ms

Aqm = Literal["tail_drop", "codel", "fq_codel", "pie"]
#: A kind of queue management. With "+ecn", it marks ECN-capable packets instead of dropping them.
Manager = Literal["tail_drop", "codel", "codel+ecn", "fq_codel", "pie"]


class Transferred(Variant):
    """Transfers through one queue."""

    run: Shared
    mbit = computed(lambda case: case.run.mbit, "Mbit/s", ".2f")
    median_queue = computed(lambda case: case.run.median_queue, "median queue (packets)", ".0f")
    drops = computed(lambda case: len(case.run.drops_s), "dropped", "d")


class Bloat(Transferred, key=("queue_packets", "congestion", "aqm"), heading="bottleneck"):
    """A long transfer through one queue, with pings and page fetches at the same time."""

    queue_packets: int
    congestion: str
    aqm: str  #: a Manager, such as "codel" or "codel+ecn"
    most_queue = computed(lambda bloat: max(length for _time, length in bloat.run.queue))
    marks = computed(lambda bloat: len(bloat.run.marks_s), "marked", "d")
    retransmissions = computed(lambda bloat: bloat.run.flows[0].retransmissions)

    @derived("median ping (ms)", ".0f")
    def probe_ms(self) -> float:
        half_s = self.run.flows[0].moments[-1].time_s / 2
        late_ms = [took_ms for time_s, took_ms in self.run.probes if time_s >= half_s]
        return statistics.median(late_ms or [math.nan])

    most_probe_ms = computed(
        lambda bloat: max((ms for _time, ms in bloat.run.probes), default=math.nan),
        "longest ping (ms)",
        ".0f",
    )
    page_s = computed(lambda bloat: statistics.fmean(bloat.run.page_s), "mean page load (s)", ".2f")
    pages = computed(lambda bloat: len(bloat.run.pages), "page loads", "d")

    @property
    def label(self) -> str:
        managed = "" if self.aqm == "tail_drop" else f"{self.aqm}, "
        return f"queue of {self.queue_packets}, {managed}{self.congestion}"


@experiment(
    "bufferbloat",
    figure=lambda figures, result: figures.bottleneck(result),
    finding="A ping takes {probe_ms.ratio} times as long behind the {probe_ms.most}, "
    "as behind the {probe_ms.least}",
)
def measure_bufferbloat(
    queues: Queues = (100, 20, 5),
    congestions: Annotated[Sequence[Congestion], "congestion controls of the transfer"] = ("reno",),
    aqms: Annotated[Sequence[Manager], "queue management; +ecn marks (RFC 3168)"] = ("tail_drop",),
    rate_mbit: Annotated[RateMbit, Between(1, 100, "Mbit/s")] = 10.0,
    rtt_ms: Annotated[RttMs, Between(0, 500, "ms")] = 4.0,
    duration_s: Annotated[DurationS, Between(2, 55, "s")] = 20.0,
) -> Result[Bloat]:
    """Measure bufferbloat, with a transfer, pings and a web page in queues of several lengths."""
    keys = [(packets, name, aqm) for name in congestions for packets in queues for aqm in aqms]
    link = {"rtt_ms": rtt_ms, "rate_mbit": rate_mbit}
    cases = []
    for packets, name, manager in keys:
        aqm, _plus, marks = manager.partition("+")
        queue = {"queue_packets": packets, "aqm": aqm, "ecn": bool(marks)}
        cases.append((link | queue, [name]))
    runs, origin = share_each(duration_s, cases, bystander=True)
    return Result([Bloat(run, *key) for key, run in zip(keys, runs, strict=True)], origin)


# ---- the size of a router's buffer ---------------------------------------------------------------

Bdps: TypeAlias = Annotated[Sequence[float], Between(0.01, 100, "BDP"), "sizes of the buffer"]
#: Range of the flows' round-trip times, as a share of their mean. With equal times, all flows would
#: lose packets at the same time.
_SPREAD: Final = 0.5


class RouterBuffer(Variant, key=("flows", "bdps")):
    """Flows that share a router buffer of one size."""

    flows: int = column("flows", "d")
    bdps: float = column("buffer (BDP)", ".2f")
    packets: int = column("buffer (packets)", "d")
    mbit: float = column("Mbit/s", ".2f")
    #: share of the link's goodput in use
    used_percent = computed(
        lambda case: 100 * case.mbit / (8 * goodput_mbyte_s(case.link["rate_mbit"])),
        "link used (%)",
        ".1f",
    )
    #: share that the sawtooth model predicts, for one flow or for flows that all lose packets at
    #: the same time
    model_percent = computed(
        lambda case: 100 * sawtooth_share(case.bdps), "model, synchronized (%)", ".1f"
    )
    jain: float = column("Jain's index", ".2f")
    median_queue: float = column("median queue (packets)", ".0f")
    #: median over the flows, including the queue's delay
    rtt_ms: float = column("median RTT (ms)", ".0f")

    @property
    def label(self) -> str:
        return f"{self.flows} flow{'s' * (self.flows > 1)}, {self.packets} packets"


@experiment(
    "router-buffers",
    figure=lambda figures, result: figures.draw_curves(
        result, "bdps", "used_percent", "model_percent", by="flows", log="x"
    ),
    finding="The link is used to {used_percent.low} % with {used_percent.least}, and "
    "to {used_percent.high} % with {used_percent.most}",
)
def measure_router_buffers(
    flows: Annotated[Sequence[int], Between(1, 20, "flows"), "numbers of flows"] = (1, 9),
    bdps: Bdps = (0.125, 0.333, 1),
    congestion: Annotated[Congestion, "congestion control; the model holds for reno"] = "reno",
    rate_mbit: Annotated[RateMbit, Between(1, 100, "Mbit/s")] = 20.0,
    rtt_ms: Annotated[float, Between(4, 500, "ms"), "mean round-trip time of the flows"] = 40.0,
    duration_s: Annotated[DurationS, Between(2, 55, "s")] = 8.0,
) -> Result[RouterBuffer]:
    """Measure how much of a link one or several flows use, depending on the size of its buffer.

    The round-trip times of several flows are between three quarters and five quarters of rtt_ms.
    """
    full_ms = serialisation_ms(MSS_BYTES, rate_mbit)
    keys = [
        (count, size, max(round(size * rtt_ms / full_ms), 1)) for count in flows for size in bdps
    ]
    cases = []
    for count, _size, packets in keys:
        link = {"rate_mbit": rate_mbit, "queue_packets": packets}
        cases.append((link | {"clients": _rtts_ms(count, rtt_ms)}, [congestion] * count))
    runs, origin = share_each(duration_s, cases)
    buffers = []
    for key, run in zip(keys, runs, strict=True):
        jain, queue = jain_index(run.rates_mbit), run.median_queue
        rtt_now_ms = statistics.median(flow.median_rtt_ms for flow in run.flows)
        buffers.append(RouterBuffer(*key, run.mbit, jain, queue, rtt_now_ms))
    return Result(buffers, origin)


def _rtts_ms(count: int, mean_ms: float) -> list[float]:
    steps = max(count - 1, 1)
    return [mean_ms * (1 + _SPREAD * (n / steps - 0.5) * (count > 1)) for n in range(count)]


# ---- congestion controls -------------------------------------------------------------------------


class Contest(Transferred, key=("controls", "queue_packets"), heading="flows"):
    """One transfer, or two with different congestion controls, through one queue."""

    controls: str  #: "cubic", or "cubic, bbr" for two transfers
    queue_packets: int
    first_mbit = computed(lambda contest: contest.run.rates_mbit[0], "first flow", ".2f")
    second_mbit = computed(
        lambda contest: contest.run.rates_mbit[1] if len(contest.run.flows) > 1 else None,
        "second flow",
        ".2f",
    )
    #: Median RTT of the first transfer in the second half of the run.
    rtt_ms = computed(lambda contest: contest.run.flows[0].median_rtt_ms, "median RTT (ms)", ".0f")

    @property
    def label(self) -> str:
        return f"{self.controls.replace(', ', ' against ')}, queue of {self.queue_packets}"

    @property
    def first_share(self) -> float:
        return float(self.first_mbit / self.mbit)


@experiment(
    "congestion-controls",
    figure=("first_mbit", "second_mbit"),
    finding="Of {first_mbit.least}, the first flow gets only {first_mbit.low} Mbit/s",
)
def measure_controls(
    queues: Queues = (16, 320),
    congestions: Annotated[Sequence[Congestion], "congestion controls"] = ("cubic", "reno", "bbr"),
    rate_mbit: Annotated[RateMbit, Between(1, 100, "Mbit/s")] = 10.0,
    rtt_ms: Annotated[RttMs, Between(1, 500, "ms")] = 40.0,
    duration_s: Annotated[DurationS, Between(2, 55, "s")] = 8.0,
) -> Result[Contest]:
    """Run each congestion control alone, and each pair of them against each other.

    The table names the controls that this kernel does not offer.
    """
    offered = congestion_controls()
    names = [name for name in congestions if name in offered]
    missing = [name for name in congestions if name not in offered]
    fix = "root may load more: sudo modprobe -a " + " ".join(f"tcp_{name}" for name in missing)
    if not names:
        raise LabError(f"this kernel offers {', '.join(offered)}; {fix}")
    groups = [[name] for name in names] + [list(pair) for pair in itertools.combinations(names, 2)]
    keys = [(group, packets) for packets in queues for group in groups]
    cases = []
    for group, packets in keys:
        link = {"rate_mbit": rate_mbit, "queue_packets": packets}
        cases.append((link | {"clients": [rtt_ms] * len(group)}, group))
    runs, origin = share_each(duration_s, cases)
    if missing:
        origin["left_out"] = f"Not offered by this kernel: {', '.join(missing)}; {fix}."
    pairs = zip(keys, runs, strict=True)
    contests = [Contest(run, ", ".join(group), packets) for (group, packets), run in pairs]
    return Result(contests, origin)


# ---- flows with different round-trip times -----------------------------------------------------


class Race(Transferred, key=("congestion", "aqm"), heading="congestion control"):
    """Flows with the same congestion control and different round-trip times."""

    congestion: str
    aqm: str
    near_mbit = computed(lambda race: race.run.nearest.mbit, "shortest RTT (Mbit/s)", ".2f")
    far_mbit = computed(lambda race: race.run.farthest.mbit, "longest RTT (Mbit/s)", ".2f")

    @derived("ratio of rates", ".1f")
    def ratio(self) -> float:
        return float(self.near_mbit / self.far_mbit) if self.far_mbit else float("inf")

    @derived("ratio of RTTs", ".1f")
    def model_ratio(self) -> float:
        """The ratio of Reno's rates according to Mathis, with RTTs that include the queue."""
        return self.run.farthest.median_rtt_ms / self.run.nearest.median_rtt_ms

    jain = computed(lambda race: jain_index(race.run.rates_mbit), "Jain's index", ".3f")

    @property
    def label(self) -> str:
        return self.congestion if self.aqm == "tail_drop" else f"{self.congestion}, {self.aqm}"


@experiment("rtt-fairness", figure=lambda figures, result: figures.bottleneck(result))
def measure_rtt_fairness(
    rtts_ms: Annotated[RttsMs, Between(0, 1000, "ms")] = (10, 40, 80),
    congestions: Annotated[Sequence[Congestion], "congestion controls"] = ("reno", "cubic"),
    aqms: Annotated[Sequence[Aqm], "kinds of queue management"] = ("tail_drop",),
    rate_mbit: Annotated[RateMbit, Between(1, 100, "Mbit/s")] = 10.0,
    queue_packets: QueuePackets = 50,
    duration_s: Annotated[DurationS, Between(2, 55, "s")] = 40.0,
) -> Result[Race]:
    """Let flows with different round-trip times share a bottleneck."""
    keys = [(name, aqm) for aqm in aqms for name in congestions]
    link = {"rate_mbit": rate_mbit, "queue_packets": queue_packets, "clients": list(rtts_ms)}
    cases = [(link | {"aqm": aqm}, [name] * len(rtts_ms)) for name, aqm in keys]
    runs, origin = share_each(duration_s, cases)
    return Result([Race(run, *key) for key, run in zip(keys, runs, strict=True)], origin)
