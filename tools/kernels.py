"""Measure what lessons, models and claims assume about Linux's TCP on this kernel.

    python -m tools.kernels [--json]         the facts of this kernel
    python -m tools.kernels --page           docs/kernels.md, from tests/data/kernels

The facts are counts, sizes and sequences. A time is given only if a kernel timer determines it,
rounded to tens of milliseconds. Every rule is measured three times.
"""

import argparse
import contextlib
import json
import os
import platform
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from tests.support.commands import completed
from tests.support.models.playground import Played, play
from tests.support.paths import ROOT

from tcplab.experiments.quantities import plus
from tcplab.experiments.short_transfer import flights
from tcplab.experiments.sockets import connection, read_all, sending
from tcplab.lab import Lab
from tcplab.models import Call, Peer
from tcplab.segments import SegmentArray
from tcplab.timeline.sockets import read_tcp_info

MSS: Final = 1448
UDP_SEGMENT: Final = 103
RUNS: Final = 3  #: measurements of each rule
TIMER: Final = "(ms, rounded to tens)"  #: end of the name of a timer's rule
LOSS_AT: Final = "after a loss at a cwnd of 70"  #: an ACK more or less moves the result by one

Measure = Callable[[], str]
FACTS: dict[str, tuple[str, str, Measure]] = {}  #: group, history and measurement of each rule


def fact(group: str, rule: str, history: str = "") -> Callable[[Measure], Measure]:
    """Add the decorated measurement of a rule; `history` names the versions that changed it."""

    def add(measure: Measure) -> Measure:
        FACTS[rule] = (group, history, measure)
        return measure

    return add


def several(group: str, rules: Sequence[str], measure: Callable[[str], str]) -> None:
    """Add rules, given as "name" or "name | history", which `measure` measures by name."""
    for rule in rules:
        name, _, history = rule.partition(" | ")
        FACTS[name] = (group, history, partial(measure, name))


# ---- connections ---------------------------------------------------------------------------------


def played(*calls: Call, peer: Peer | None = None, rtt_ms: float = 20) -> Played:
    """Play calls on a new connection that stays open until the kernel's timers have fired."""
    end = Call("quickack", 1, 1500.0)
    first, *rest = calls
    settled = replace(first, delay_ms=first.delay_ms + 60)
    with Lab(rtt_ms=rtt_ms, sysctls={"net.ipv4.tcp_autocorking": "0"}) as lab:
        # The first connection of a lab meets cold caches, so its result is ignored.
        return play(lab, [(end,), (settled, *rest, end)], peer or Peer(), stagger_ms=50)[1]


def small_then(*sizes: int) -> Played:
    """Play the writes of one message whose receiver delays its ACKs."""
    return played(*(Call("write", size) for size in sizes), peer=Peer(quickack="off"))


def waits(run: Played) -> str:
    """Describe whether the last segment waited for a delayed ACK."""
    # An ACK at once takes the RTT of 20 ms, and a delayed ACK takes 40 ms more.
    return "waits for the ACK" if run.data[-1].time_ms - run.data[0].time_ms > 45 else "at once"


def transfer(
    lab: Lab, size: int, *, before: int | None = None, after: int | None = None
) -> SegmentArray:
    """Return the segments of a transfer to a reader that reads at once."""
    with (
        lab.client.capture(snaplen=128) as recorded,
        connection(lab, before=before, after=after) as (sender, receiver),
    ):
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * size)
        with sending(sender, size, end=False):
            read_all(receiver, size)
    return recorded.segments


def window_bytes(segments: SegmentArray) -> int:
    """Return the largest window that the server offered."""
    return int(segments.acks("server")["window"].max())


# ---- the facts -----------------------------------------------------------------------------------

SYN = "Opening"


def first_syn() -> SegmentArray:
    """Return a short transfer, which begins with the SYN."""
    with Lab() as lab:
        return transfer(lab, 1000)


@fact(SYN, "options of a SYN")
def _options() -> str:
    syn = first_syn()[0]
    names = {
        "MSS": syn["mss"] > 0,
        "SACK": syn["sack_permitted"],
        "timestamps": syn["has_timestamps"],
    }
    return ", ".join(name for name, is_set in names.items() if is_set) + f", scale {syn['wscale']}"


@fact(SYN, "window in a SYN (bytes)")
def _syn_window() -> str:
    return str(first_syn()[0]["window"])


@fact(
    SYN,
    "an unanswered SYN is sent again after (s)",
    "linear at first since 6.5 (tcp_syn_linear_timeouts)",
)
def _syn_again() -> str:
    with Lab() as lab, lab.client.capture() as recorded, lab.client.socket() as sender:
        lab.link.update(loss=1.0)
        sender.settimeout(8)
        with contextlib.suppress(OSError):
            sender.connect((lab.server.address, 9))
    times = recorded.segments["time_ns"] / 1e9
    return ", ".join(f"{gap:.0f}" for gap in (times[1:] - times[:-1])[:3])


@fact(SYN, "segments that leave before the first ACK")
def _initial_window() -> str:
    with Lab(rtt_ms=60, rate_mbit=100, congestion="reno") as lab:
        return str(flights(transfer(lab, 69 * MSS), 60)[0].segments)


ACKS = "Acknowledgements"
LONGER: Final = "no change, emulation makes the times longer"  #: history of a timer's rule


@fact(ACKS, f"delay of a delayed ACK {TIMER}", LONGER)
def _delayed_ack() -> str:
    run = small_then(4, 100)
    return f"{round(run.data[1].time_ms - run.data[0].time_ms - 20, -1):.0f}"


@fact(
    ACKS,
    f"longest delay of an ACK without a reply, at an RTT of 100 ms {TIMER}",
)
def _longest_delay() -> str:
    with Lab(rtt_ms=100) as lab:
        with lab.server.capture(snaplen=128) as recorded, connection(lab) as (sender, _receiver):
            sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for _ in range(24):
                sender.send(bytes(100))
                # A pause of more than an RTO would bring back quick ACKs.
                while read_tcp_info(sender)["unacked"]:
                    time.sleep(0.002)
        sent, acks = recorded.segments.data("client"), recorded.segments.acks("server")
    delays = [(int(acks[acks["ack"] > row["seq"]]["time_ns"][0] - row["time_ns"])) for row in sent]
    return f"{round(max(delays) / 1e6, -1):.0f}"


@fact(ACKS, "small segments of a new connection that are acknowledged at once")
def _quick_acks() -> str:
    writes = [Call("write", 10, 15.0) for _ in range(24)]
    run = played(Call("nodelay", 1), *writes, peer=Peer(reads=False), rtt_ms=4)
    acked = {upto for _when, upto, _window in run.acks}
    count = next(count for count in range(25) if 10 * (count + 1) not in acked)
    return f"{count}"


@fact(
    ACKS,
    "replies before the receiver delays its ACKs",
    "three from 5.1 (4a41f453bedf) to 5.18, one before and since 5.19 (4d8f24eeedc5)",
)
def _pingpong() -> str:
    with Lab() as lab, connection(lab) as (sender, receiver):
        for replies in range(8):
            start = time.monotonic()
            for piece in (b"x", b"y" * 10):
                sender.send(piece)
            got = 0
            while got < 11:
                got += len(receiver.recv(100))
            if time.monotonic() - start > 0.03:
                return str(replies)
            receiver.send(b"reply")
            sender.recv(100)
    return "more than 7"


@fact(ACKS, "the 100 of 1449 + 100 bytes")
def _more_than_one() -> str:
    return waits(small_then(1449, 100))


NAGLE = "Nagle's algorithm and corks"
several(
    NAGLE,
    ["the 100 of 4 + 100 bytes", "the 100 of 1448 + 100 bytes", "the 100 of 2896 + 100 bytes"],
    lambda name: waits(small_then(*(int(word) for word in name.split()[3:6:2]))),
)


@fact(NAGLE, "a small write after TCP_NODELAY and a cork")
def _cork_over_nodelay() -> str:
    run = played(Call("nodelay", 1), Call("cork", 1), Call("write", 100), Call("cork", 0, 80.0))
    return "waits for the cork" if run.data[0].time_ms > 60 else "at once"


@fact(NAGLE, "setting TCP_NODELAY on a corked socket")
def _nodelay_flushes() -> str:
    run = played(Call("cork", 1), Call("write", 100), Call("nodelay", 1, 60.0), Call("write", 100))
    early = [segment for segment in run.data if segment.time_ms < 90]
    return (
        "sends the held data, and leaves the cork in place" if len(early) == 1 else "something else"
    )


@fact(NAGLE, "a full segment in a cork")
def _full_in_cork() -> str:
    run = played(Call("cork", 1), Call("write", 2000), Call("cork", 0, 80.0))
    return "at once" if run.data[0].time_ms < 40 and run.data[1].time_ms > 60 else "waits"


@fact(NAGLE, "pieces of 20 bytes by sendfile() in a cork, of which the first segment has")
def _fragments() -> str:
    with Lab() as lab, tempfile.TemporaryFile() as file:
        file.write(bytes(30 * 4096))
        file.flush()
        with lab.client.capture(snaplen=128) as recorded, connection(lab) as (sender, _receiver):
            sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
            for piece in range(30):
                os.sendfile(sender.fileno(), file.fileno(), piece * 4096, 20)
        return str(int(recorded.segments.data("client")["payload_bytes"][0]) // 20)


@fact(NAGLE, "pulling the cork while a small segment is unacknowledged")
def _uncork_and_nagle() -> str:
    run = played(
        Call("write", 10), Call("cork", 1), Call("write", 20), Call("cork", 0, 5.0), rtt_ms=60
    )
    return "Nagle's algorithm holds it until the ACK" if run.data[1].time_ms > 50 else "at once"


@fact(NAGLE, "an ACK releases data that MSG_MORE held")
def _more_and_ack() -> str:
    run = played(Call("write", 10), Call("more", 20))
    return "yes" if run.data[1].time_ms < 100 else "no"


@fact(NAGLE, "an ACK releases data that a cork holds")
def _cork_and_ack() -> str:
    run = played(Call("write", 10), Call("cork", 1), Call("write", 20))
    return "yes" if run.data[1].time_ms < 100 else "no"


def forgotten(name: str) -> str:
    """Return the time in ms after which a forgotten cork releases its data, rounded to tens."""
    rtt_ms = float(name.split("RTT of ")[1].split()[0])
    run = played(Call("cork", 1), Call("write", 100), rtt_ms=rtt_ms)
    return f"{round(run.data[0].time_ms, -1):.0f}"


several(
    NAGLE,
    [
        f"a forgotten cork at an RTT of {rtt_ms} ms releases its data after {TIMER}"
        + (f" | {LONGER}" if rtt_ms > 10 else "")
        for rtt_ms in (10, 50, 150)
    ],
    forgotten,
)

BUFFERS = "Buffers and windows"


def granted(option: int, size: int) -> str:
    """Return the buffer size that getsockopt() reports after setsockopt()."""
    with Lab() as lab, lab.client.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, option, size)
        return str(one.getsockopt(socket.SOL_SOCKET, option))


for size, rule in ((65536, "getsockopt() after {} 65536"), (1, "the minimum {} (bytes)")):
    for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        name = "SO_RCVBUF" if option == socket.SO_RCVBUF else "SO_SNDBUF"
        FACTS[rule.format(name)] = (BUFFERS, "", partial(granted, option, size))


@fact(
    BUFFERS,
    "the window's share of the receive buffer",
    "half by tcp_adv_win_scale until 6.5, measured since 6.6 (dfa2f0483360)",
)
def _share() -> str:
    with Lab(rtt_ms=12) as lab:
        return f"{window_bytes(transfer(lab, 400_000, before=65536)) / 131072:.2f}"


def largest(before: int | None, after: int | None) -> str:
    """Return the largest window, with the buffer set before connecting, afterwards, or both."""
    with Lab(rtt_ms=12) as lab:
        return str(window_bytes(transfer(lab, 2_000_000, before=before, after=after)))


FROM_THE_START: Final = "until 6.5 the window's limit was fixed at the start of the connection"
FACTS["largest window of 16 KiB before listen() and 256 KiB after accept()"] = (
    BUFFERS,
    FROM_THE_START,
    lambda: largest(16384, 262144),
)
FACTS["largest window of 256 KiB after accept() only"] = (
    BUFFERS,
    f"{FROM_THE_START}, and on 6.12 it stays at half (version of the change not known)",
    lambda: largest(None, 262144),
)


@fact(
    BUFFERS,
    "largest window of 256 KiB after the first data",
    "the call raises the window's limit since a version after 6.18 (b025461303d8), share as above",
)
def _after_data() -> str:
    with Lab(rtt_ms=12) as lab:
        with lab.client.capture(snaplen=128) as recorded, connection(lab) as (sender, receiver):
            sender.sendall(bytes(20_000))
            time.sleep(0.1)
            receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 262_144)
            with sending(sender, 2_000_000, end=False):
                read_all(receiver, 2_020_000)
        return str(window_bytes(recorded.segments))


@fact(BUFFERS, "a buffer that is not set grows automatically")
def _autotuning() -> str:
    with Lab(rtt_ms=12) as lab:
        return "yes" if window_bytes(transfer(lab, 4_000_000)) > 200_000 else "no"


@fact(BUFFERS, "smallest window after a closed one, reading byte by byte")
def _silly() -> str:
    from tcplab.experiments import buffers

    return str(min(buffers.measure_zero_window(300, read_bytes=1, rtt_ms=0).openings()))


LOSS = "Congestion and loss"


@fact(LOSS, "flights of slow start (segments)")
def _flights() -> str:
    with Lab(rtt_ms=60, rate_mbit=100, congestion="reno") as lab:
        return plus([flight.segments for flight in flights(transfer(lab, 69 * MSS), 60)])


def after_pause(name: str) -> str:
    """Return the number of segments in the first flight after a pause."""
    pause_ms = float(name.split("pause of ")[1].split()[0])
    with Lab(rtt_ms=40, rate_mbit=100, congestion="reno") as lab:
        # The window of a default buffer may still be 81,920 bytes, which only 56 segments fill.
        with (
            lab.client.capture(snaplen=128) as recorded,
            connection(lab, before=200_000) as (sender, receiver),
        ):
            sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 400_000)
            sender.sendall(bytes(70 * MSS))
            read_all(receiver, 70 * MSS)
            time.sleep(0.04)
            time.sleep(pause_ms / 1e3)
            sender.sendall(bytes(70 * MSS))
            read_all(receiver, 70 * MSS)
        times = recorded.segments.data("client", retransmissions=False)["time_ns"]
        start = (times[1:] - times[:-1]).argmax() + 1
        first = times[start:]
        return str(int((first < first[0] + 20_000_000).sum()))


several(
    LOSS,
    [
        f"segments at once after a pause of {pause} ms (cwnd 80, RTO 244 ms)"
        for pause in (100, 300, 600, 1000)
    ],
    after_pause,
)


def loss(dropped: str, congestion: str = "reno", more: bool = False) -> tuple[SegmentArray, int]:
    """Send 70 segments, then one more if `more`, and drop some; return all segments and cwnd."""
    with (
        Lab(rtt_ms=40, rate_mbit=50, congestion=congestion) as lab,
        lab.client.capture(snaplen=128) as recorded,
        connection(lab) as (sender, receiver),
    ):
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 400_000)
        lab.link.script("client->server", f"drop data nth={dropped}")
        sender.sendall(bytes(70 * MSS))
        read_all(receiver, 70 * MSS)
        time.sleep(0.08)
        if more:
            sender.sendall(bytes(MSS))
            read_all(receiver, MSS)
            time.sleep(0.08)
        cwnd = read_tcp_info(sender)["snd_cwnd"]
    return recorded.segments, cwnd


@fact(LOSS, "segments sent again after one of 70 was lost")
def _sent_again() -> str:
    return str(int(loss("40")[0].data("client")["is_retransmission"].sum()))


@fact(LOSS, "retransmission of a lost last segment")
def _tail() -> str:
    data = loss("70")[0].data("client")
    gap_ms = (data["time_ns"][-1] - data["time_ns"][-2]) / 1e6
    return (
        "a loss probe after two round trips or more" if 80 <= gap_ms < 400 else f"{gap_ms:.0f} ms"
    )


@fact(LOSS, "retransmission of a lost segment that was alone in flight, at an RTT of 100 ms")
def _alone() -> str:
    with Lab(rtt_ms=100) as lab:
        with lab.client.capture(snaplen=128) as recorded, connection(lab) as (sender, receiver):
            for number in range(20):  # the variance of the RTT shrinks
                if number == 19:
                    lab.link.script("client->server", "drop data nth=1")
                sender.sendall(bytes(MSS))
                read_all(receiver, MSS)
                time.sleep(0.15)
        times = recorded.segments.data("client")["time_ns"]
    gap_ms = int(times[-1] - times[-2]) / 1e6
    return "after a timeout (RTT + 200 ms)" if 290 <= gap_ms < 380 else f"{gap_ms:.0f} ms"


several(
    LOSS,
    [f"cwnd of {name} {LOSS_AT}" for name in ("reno", "cubic")],
    lambda name: str(loss("60", name.split()[2])[1]),
)
several(
    LOSS,
    [
        f"cwnd of {name} after a tail loss probe, before and after new data is acknowledged"
        for name in ("reno", "cubic")
    ],
    lambda name: ", ".join(str(loss("70", name.split()[2], more)[1]) for more in (False, True)),
)


def setting(name: str) -> str:
    """Return a setting's default in a new network namespace, or a dash if it does not exist."""
    key = name.split()[0]
    path = Path("/proc/sys/net", *key.split("."))
    command = ["unshare", "--user", "--map-root-user", "--net", "cat", str(path)]
    ran = completed(command)
    return " ".join(ran.stdout.split()) if ran.returncode == 0 else "–"


several(
    "Settings of a new network namespace",
    [
        "ipv4.tcp_rmem | 32 MB since 6.16 (572be9bf9d0d)",
        "ipv4.tcp_wmem",
        "ipv4.tcp_congestion_control | set by the kernel's build or by the machine",
        "ipv4.tcp_ecn | AccECN adds 3 to 5 in 6.18",
        "ipv4.tcp_sack",
        "ipv4.tcp_timestamps",
        "ipv4.tcp_window_scaling",
        "ipv4.tcp_recovery",
        "ipv4.tcp_early_retrans",
        "ipv4.tcp_slow_start_after_idle",
        "ipv4.tcp_no_metrics_save",
        "ipv4.tcp_moderate_rcvbuf",
        "ipv4.tcp_adv_win_scale | without effect since 6.6",
        "ipv4.tcp_autocorking",
        "ipv4.tcp_notsent_lowat",
        "ipv4.tcp_mtu_probing",
        "ipv4.tcp_min_tso_segs",
        "ipv4.tcp_tso_rtt_log | since 5.18 (65466904b015)",
        "ipv4.tcp_syn_linear_timeouts | since 6.5",
        "ipv4.tcp_shrink_window | since 6.5, and in Debian's 6.1",
        "ipv4.tcp_pingpong_thresh | since 6.7",
        "ipv4.tcp_backlog_ack_defer | since 6.7",
        "ipv4.tcp_rto_min_us | since 6.11",
        "ipv4.tcp_rto_max_ms | since 6.15",
        "core.wmem_default | 6.1 does not show it in a namespace",
        "core.rmem_default | 6.1 does not show it in a namespace",
        "core.wmem_max | 212992 until 6.17, 4 MiB since 6.18 (a6d4f25888b8)",
        "core.rmem_max | 212992 until 6.17, 4 MiB since 6.18 (a6d4f25888b8)",
    ],
    setting,
)

SIZES = "Sizes"


@fact(SIZES, "the MSS that lo announces")
def _lo() -> str:
    with Lab() as lab, lab.client.capture(interface="lo") as recorded:
        listener, sender = lab.client.socket(), lab.client.socket()
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        sender.connect(listener.getsockname())
        time.sleep(0.05)
    return str(recorded.segments[0]["mss"])


@fact(SIZES, "TCP_MAXSEG before connect()")
def _maxseg() -> str:
    with Lab() as lab, lab.client.socket() as one:
        return str(one.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG))


@fact(
    SIZES,
    "maximum datagrams per UDP_SEGMENT send",
    "64 until 6.8; until 6.10 only with checksum offload, which is off here",
)
def _udp_segments() -> str:
    with Lab() as lab, lab.client.socket(kind=socket.SOCK_DGRAM) as one:
        for count in (128, 64):
            try:
                one.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, 100)
                one.sendto(bytes(100 * count), (lab.server.address, 9))
            except OSError:
                continue
            return str(count)
    return "none"


# ---- the page ------------------------------------------------------------------------------------

INTRO: Final = """# Rules by kernel

Each row is a rule that a lesson, a model or a claim relies on. The command
`.venv/bin/python -m tools.kernels` measures every rule on the kernel that it runs on, as an
ordinary user, and prints the results. It does not compare them with this page.

The columns come from Debian's kernels in virtual machines (6.1 from bookworm, 6.12 from trixie, 7.2
from sid), and from the machine that made the recordings (6.18). Where kernels differ, the last
column gives the version of the change. Otherwise it says that this version is not known, or that
the difference comes from emulation. Times appear only where a kernel timer determines them. The
virtual machines are emulated, so their times are too long, here by up to 20 ms.

The command measures each rule three times. If the results differ, as they may on a busy machine,
the command gives the range of a timer or a window, and each result of any other rule with its
number of runs. The column 6.18 was made this way. In the other columns, only rules whose first
result looked disturbed were measured again, and "about" marks a window rounded to tens. An empty
cell was not measured. A dash means that the kernel has no such setting.
"""


def agreed(rule: str, results: Sequence[str]) -> str:
    """Return the common result of several measurements, their range, or each with its count."""
    counts = Counter(results).most_common()
    if len(counts) == 1:
        return results[0]
    if rule.endswith((TIMER, LOSS_AT)):
        return f"{min(results, key=float)}–{max(results, key=float)}"
    return ", ".join(f"{result} ({count} of {len(results)} runs)" for result, count in counts)


def measured() -> dict[str, str]:
    """Measure all facts of this kernel, and report each on standard error."""
    result = {}
    for rule, (_group, _history, measure) in FACTS.items():
        result[rule] = agreed(rule, [measure() for _ in range(RUNS)])
        print(f"{rule}: {result[rule]}", file=sys.stderr, flush=True)
    return result


def shipped() -> list[dict[str, str]]:
    """Return the facts of the measured kernels, the oldest first."""
    paths = (ROOT / "tests/data/kernels").glob("*.json")
    names = sorted(paths, key=lambda path: [int(part) for part in path.stem.split(".")])
    return [json.loads(path.read_text()) for path in names]


def page(kernels: Sequence[dict[str, str]]) -> str:
    """Return the text of docs/kernels.md."""
    parts, group = [INTRO.strip()], ""
    for rule, (its_group, history, _measure) in FACTS.items():
        if its_group != group:
            group = its_group
            heading = ["rule", *(kernel["kernel"] for kernel in kernels), "changed"]
            parts.append(f"## {group}\n\n| {' | '.join(heading)} |\n|{'---|' * len(heading)}")
        cells = [rule, *(kernel.get(rule, "") for kernel in kernels), history]
        parts[-1] += f"\n| {' | '.join(cells)} |"
    return "\n\n".join(parts) + "\n"


def main() -> int:
    """Print this kernel's facts, or docs/kernels.md."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--page", action="store_true", help="print docs/kernels.md")
    arguments = parser.parse_args()
    if arguments.page:
        print(page(shipped()), end="")
    elif arguments.json:
        print(json.dumps({"kernel": platform.release()} | measured(), indent=1))
    else:
        measured()
    return 0


if __name__ == "__main__":
    sys.exit(main())
