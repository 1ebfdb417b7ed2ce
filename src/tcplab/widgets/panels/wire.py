"""Panel on the link: a live transfer while the user changes delay, rate, queue and loss."""

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tcplab.errors import LabError
from tcplab.experiments import provenance
from tcplab.experiments.mode import mode
from tcplab.figures import Picture
from tcplab.lab import Lab, why_no_lab
from tcplab.models import mathis_mbit
from tcplab.programs import RunOptions, tcp_transfer
from tcplab.programs.bulk import Transfer
from tcplab.tables import Table, digits
from tcplab.widgets.controls import Control, say_all
from tcplab.widgets.spec import Job, Shown, Values
from tcplab.widgets.strip import strips

#: Time between two readings.
PERIOD_S: Final = 0.1
MSS_BYTES: Final = 1448

LANES: Final = {
    "throughput_mbit": "Throughput (Mbit/s)",
    "cwnd_segments": "Congestion window (segments)",
    "rtt_ms": "RTT as TCP sees it (ms)",
    "queue_packets": "Queue of the link (packets)",
}

#: Settings that are fixed when a transfer starts.
AT_START: Final = ("seconds", "congestion")

#: The lanes' quantities at the time "t" in seconds since the transfer's start.
_Reading = Mapping[str, float]
#: Settings, and the readings until the next change.
_Stretch = tuple[Values, list[_Reading]]


@dataclass(frozen=True, slots=True)
class LiveTransfer:
    """The measurement of a live panel, a transfer over a link that follows the controls.

    Args:
        link: converts the controls' values to the link's parameters (Link.update).
        headline: the lane whose mean at the end of the run represents the run.
        sysctls: settings of the hosts' kernel, by name.
    """

    link: Callable[[Values], dict[str, Any]]
    headline: str = "throughput_mbit"
    sysctls: Mapping[str, str] = field(default_factory=dict)

    def run(self, job: Job) -> Shown:
        """Transfer data until the time is up or Stop is pressed; return the result to show."""
        if (now := mode()) != "live":
            why = why_no_lab() or f"TCPLAB_MODE={now} forbids it"
            raise LabError(f"the link needs a laboratory, and there is none here: {why}")
        job.stage("connecting")
        stretches: list[_Stretch] = []
        congestion = job.values["congestion"]
        with job.lab(**self.link(job.values), sysctls=self.sysctls) as lab:
            with tcp_transfer(lab, run=RunOptions(congestion=congestion)) as transfer:
                job.stage("transferring", 0.0)
                for values, reading in _watch(lab, transfer, job, self.link):
                    if not stretches or values != stretches[-1][0]:
                        stretches.append((values, []))
                    stretches[-1][1].append(reading)
                    job.sample(reading)
            late = lab.link.lateness().get("wire_late", "")
            details = {"congestion": congestion, "changes": len(stretches) - 1, "disturbed": late}
            origin = provenance(lab, **details)
        job.stage("drawing")
        if sum(len(readings) for _values, readings in stretches) < 2:
            raise LabError("stopped before there was anything to see; let it run for a second")
        # Only the last quarter counts, because a transfer has to settle after a change.
        _values, readings = stretches[-1]
        last = readings[3 * len(readings) // 4 :]
        settled = statistics.mean(reading[self.headline] for reading in last)
        numbers = _table(stretches, job.spec.controls)
        return Shown.of(settled, _draw(stretches, numbers), [numbers], origin)

    def code(self, values: Values) -> str:
        """Return the code of a transfer of the same length without sliders."""
        wire = ", ".join(f"{name}={value!r}" for name, value in self.link(values).items())
        return (
            "from tcplab import Lab, programs\n\n"
            f"with Lab({wire}) as lab:\n"
            "    result = programs.tcp_bulk(\n"
            "        lab, write_bytes=16384, sndbuf_bytes=None, rcvbuf_bytes=None,\n"
            f"        duration_s={values['seconds']!r}, interval_ms=100,\n"
            f"        run=programs.RunOptions(congestion={values['congestion']!r}),\n    )\n"
            "    # Meanwhile, in another thread: lab.link.update(rtt_ms=80)\n"
            "for sample in result.samples[::5]:\n"
            "    print(sample['sample_s'], sample['snd_cwnd'], sample['rtt_us'])\n"
        )


def _wire(values: Values) -> dict[str, Any]:
    same = {name: values[name] for name in ("rtt_ms", "rate_mbit", "queue_packets")}
    return same | {"loss": values["loss_percent"] / 100}


def _watch(
    lab: Lab, transfer: Transfer, job: Job, link: Callable[[Values], dict[str, Any]]
) -> Iterator[tuple[Values, _Reading]]:
    """Yield the settings and a reading every PERIOD_S, and apply the user's changes."""
    values, seconds = job.values, job.values["seconds"]
    start = due = time.monotonic()
    before_s, before_bytes = start, 0
    while not job.stop_asked and time.monotonic() < start + seconds:
        # After a late reading, wait for half a period or more, so that the next rate is exact.
        due = max(due, time.monotonic() - PERIOD_S / 2) + PERIOD_S
        time.sleep(max(0.0, due - time.monotonic()))
        for values in job.changes():
            lab.link.update(**link(values))
        transfer.check()
        counted = lab.link.counters()["client->server"]
        now_s, now_bytes = time.monotonic(), counted["bytes_out"]
        yield (
            values,
            {
                "t": now_s - start,
                "throughput_mbit": (now_bytes - before_bytes) * 8e-6 / (now_s - before_s),
                "cwnd_segments": transfer.latest.get("snd_cwnd", 0),
                "rtt_ms": transfer.latest.get("rtt_us", 0) / 1e3,
                "queue_packets": counted["queue_packets"],
            },
        )
        before_s, before_bytes = now_s, now_bytes
        job.stage("transferring", min(1.0, (now_s - start) / seconds))


def _table(stretches: Sequence[_Stretch], controls: Sequence[Control]) -> Table:
    acting = [control for control in controls if control.name not in AT_START]
    rows = [
        (
            f"{readings[0]['t']:.1f} to {readings[-1]['t']:.1f} s: " + say_all(acting, values),
            *(statistics.median(reading[key] for reading in readings) for key in LANES),
        )
        for values, readings in stretches
        if len(readings) >= 3
    ]
    return Table.of(["settings", *(f"{label}, median" for label in LANES.values())], rows)


def _draw(stretches: Sequence[_Stretch], table: Table) -> Picture:
    readings = [reading for _values, part in stretches for reading in part]
    mbit = statistics.mean(reading["throughput_mbit"] for reading in readings)
    waits = [reading["rtt_ms"] for reading in readings]
    finding = f"{mbit:.3g} Mbit/s, with an RTT of up to {digits(max(waits))} ms"
    packets = max(reading["queue_packets"] for reading in readings)
    note = f"least RTT {digits(min(waits))} ms · at most {packets} packets in the queue"
    marks = [part[0]["t"] for _values, part in stretches[1:]]
    return strips(LANES, readings, finding, table, note=note, marks=marks)


def forecast(values: Values) -> float:
    """Return the throughput in Mbit/s that the link or, by the Mathis formula, the loss allows."""
    limits = [values["rate_mbit"]]
    if values["loss_percent"] and values["rtt_ms"]:
        limits.append(
            mathis_mbit(MSS_BYTES, values["rtt_ms"], values["loss_percent"] / 100, "random")
        )
    return float(min(limits))


MEASUREMENT: Final = LiveTransfer(_wire)
