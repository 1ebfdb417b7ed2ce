"""Run common measuring tools (iperf3, nuttcp, qperf, …) on the same work as our programs.

A function such as iperf3_bulk() runs one tool once and returns what the tool measured. The tool's
server runs on the pair's server and its client on the pair's client, pinned to the given
processors. All tools get the same sizes and buffers where they can set them. The routes set cubic
as the congestion control (see `pin_cubic`), since not all tools can set it. `available` names the
tools that are not installed, with their packages.
"""

import itertools
import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from bench.rounds import Measured

from tcplab.errors import LabError
from tcplab.lab import Host, Pair

#: The Debian package of each program (netperf is in the section non-free).
PACKAGES: Final = {
    "iperf3": "iperf3",
    "nuttcp": "nuttcp",
    "qperf": "qperf",
    "sockperf": "sockperf",
    "netperf": "netperf",
}
UDP_BUFFER_BYTES: Final = 4_000_000
SOCKPERF_LEAST_BYTES: Final = 14
_ports = itertools.count(20_000)


class Setting(NamedTuple):
    """The hosts, processors and duration of one run of a tool."""

    pair: Pair
    source_cpu: int
    sink_cpu: int
    seconds: int


def available() -> dict[str, bool]:
    """Return whether each tool is installed, and print how to install the missing ones."""
    installed = {name: shutil.which(name) is not None for name in PACKAGES}
    for name, present in installed.items():
        if not present:
            print(f"skipped: {name} (apt install {PACKAGES[name]})", file=sys.stderr)
    return installed


def versions() -> dict[str, str]:
    """Return the version of each installed tool."""
    asks = {
        "iperf3": ["--version"],
        "nuttcp": ["-V"],
        "qperf": ["--version"],
        "sockperf": ["--version"],
        "netperf": ["-V"],
        "tcpdump": ["--version"],
        "tshark": ["--version"],
    }
    versions_ = {}
    for name, options in asks.items():
        if shutil.which(name):
            done = subprocess.run([name, *options], capture_output=True, text=True, check=False)
            number = re.search(r"\d+(\.\d+)+", re.sub(r"\x1b\[[\d;]*m", "", done.stdout))
            versions_[name] = number.group() if number else "?"
    return versions_


def pin_cubic(pair: Pair) -> None:
    """Make cubic the congestion control of all routes between the pair (ip-route(8)).

    Raises:
        LabError: the kernel has no cubic.
    """
    for host in {pair.client.name: pair.client, pair.server.name: pair.server}.values():
        for route in _routes(host):
            command = ["ip", "route", "replace", *route.split(), "congctl", "cubic"]
            host.run(command, privileged=True)


def _routes(host: Host) -> list[str]:
    if host.interface == "lo":
        local = "dev lo proto kernel scope host src 127.0.0.1 table local"
        return [f"local 127.0.0.0/8 {local}", f"local 127.0.0.1 {local}"]
    network = host.address.rpartition(".")[0] + ".0/24"
    return [f"{network} dev {host.interface} proto kernel scope link src {host.address}"]


# ---- running a tool ----


def _run(setting: Setting, server: Sequence[str], client: Sequence[str]) -> str:
    """Run a tool's server and client, and return the client's output.

    In their arguments, "PORT", "DATA" and "HOST" are replaced with two free ports and the server's
    address.
    """
    port = next(_ports)
    values = {"PORT": str(port), "DATA": str(port + 20_000), "HOST": setting.pair.server.address}
    server, client = ([values.get(word, word) for word in argv] for argv in (server, client))
    process = setting.pair.server.start(
        ["taskset", "-c", str(setting.sink_cpu), *server],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _await_listener(setting.pair.server, port, process)
        pinned = ["taskset", "-c", str(setting.source_cpu), *client]
        return setting.pair.client.run(pinned, timeout_s=30 + 5 * setting.seconds).stdout
    finally:
        process.terminate()
        process.wait(timeout=10)


def _await_listener(host: Host, port: int, process: subprocess.Popen[str]) -> None:
    listening = re.compile(rf":{port:04X} \S+ 0A ")
    end = time.monotonic() + 10
    while not any(listening.search(host.read(f"/proc/net/{table}")) for table in ("tcp", "tcp6")):
        if process.poll() is not None or time.monotonic() > end:
            raise LabError(f"{process.args!r} does not listen on port {port}")
        time.sleep(0.01)


def _number(text: str, name: str) -> float:
    match = re.search(rf"{name}\s*=\s*([\d.]+)", text)
    if match is None:
        raise LabError(f"no {name} in: {text.strip()[:200]}")
    return float(match.group(1))


def _throughput(bits_per_s: float, setting: Setting, **more: float) -> Measured:
    return Measured(bits_per_s / 1e9, round(bits_per_s / 8 * setting.seconds), more)


# ---- TCP in bulk, Gbit/s of payload ----


def iperf3_bulk(setting: Setting, write_bytes: int) -> Measured:
    """Measure a bulk transfer with `iperf3 -l`."""
    client = ["iperf3", "-c", "HOST", "-p", "PORT", "-t", str(setting.seconds), "-J"]
    text = _run(setting, ["iperf3", "-s", "-1", "-p", "PORT"], [*client, "-l", str(write_bytes)])
    return _throughput(json.loads(text)["end"]["sum_received"]["bits_per_second"], setting)


def nuttcp_bulk(setting: Setting, write_bytes: int) -> Measured:
    """Measure a bulk transfer with `nuttcp -l`."""
    text = _nuttcp(setting, f"-l{write_bytes}")
    return _throughput(_number(text, "rate_Mbps") * 1e6, setting)


def _nuttcp(setting: Setting, *options: str) -> str:
    client = ["nuttcp", "-P", "PORT", "-p", "DATA", f"-T{setting.seconds}", "-fparse", *options]
    return _run(setting, ["nuttcp", "-1", "--nofork", "-P", "PORT"], [*client, "HOST"])


def qperf_bulk(setting: Setting, write_bytes: int) -> Measured:
    """Measure a bulk transfer with qperf's tcp_bw test."""
    return _throughput(8 * _number(_qperf(setting, "tcp_bw", write_bytes), "bw"), setting)


def _qperf(setting: Setting, test: str, message_bytes: int, *options: str) -> str:
    client = ["qperf", "HOST", "-lp", "PORT", "-t", str(setting.seconds), "-uu"]
    return _run(
        setting, ["qperf", "-lp", "PORT"], [*client, "-m", str(message_bytes), *options, test]
    )


def netperf_bulk(setting: Setting, write_bytes: int) -> Measured:
    """Measure a bulk transfer with netperf's TCP_STREAM test."""
    text = _netperf(setting, "TCP_STREAM", "-m", str(write_bytes), "-k", "THROUGHPUT")
    return Measured(_number(text, "THROUGHPUT") / 1e3)  # netserver's child reports no CPU time


def _netperf(setting: Setting, test: str, *options: str) -> str:
    client = ["netperf", "-H", "HOST", "-p", "PORT", "-l", str(setting.seconds), "-t", test]
    server = ["netserver", "-D", "-L", setting.pair.server.address, "-p", "PORT"]
    return _run(setting, server, [*client, "--", *options])


BULK: Final[dict[str, Callable[[Setting, int], Measured]]] = {
    "iperf3": iperf3_bulk,
    "nuttcp": nuttcp_bulk,
    "qperf": qperf_bulk,
    "netperf": netperf_bulk,
}


# ---- request and response over TCP, exchanges per second ----


def qperf_exchange(setting: Setting, request_bytes: int, _response_bytes: int) -> Measured:
    """Measure exchanges with qperf's tcp_lat test, whose responses are as long as the requests."""
    latency_ns = _number(_qperf(setting, "tcp_lat", request_bytes), "latency")
    return Measured(1e9 / (2 * latency_ns))


def sockperf_exchange(setting: Setting, request_bytes: int, _response_bytes: int) -> Measured:
    """Measure `sockperf ping-pong`. Requests and responses have one size, at least 14 bytes."""
    size = str(max(request_bytes, SOCKPERF_LEAST_BYTES))
    address = ["--tcp", "-i", "HOST", "-p", "PORT"]
    client = ["sockperf", "ping-pong", *address, "-m", size, "-t", str(setting.seconds)]
    text = _run(setting, ["sockperf", "server", *address], client)
    valid = text[text.index("[Valid Duration]") :]
    return Measured(_number(valid, "ReceivedMessages") / _number(valid, "RunTime"))


def netperf_exchange(setting: Setting, request_bytes: int, response_bytes: int) -> Measured:
    """Measure exchanges with netperf's TCP_RR test."""
    sizes = f"{request_bytes},{response_bytes}"
    text = _netperf(setting, "TCP_RR", "-r", sizes, "-k", "TRANSACTION_RATE")
    return Measured(_number(text, "TRANSACTION_RATE"))


EXCHANGE: Final[dict[str, Callable[[Setting, int, int], Measured]]] = {
    "qperf": qperf_exchange,
    "sockperf": sockperf_exchange,
    "netperf": netperf_exchange,
}


# ---- UDP, Gbit/s of payload that arrived ----


def iperf3_udp(setting: Setting, datagram_bytes: int) -> Measured:
    """Measure UDP with `iperf3 -u -b 0`."""
    client = ["iperf3", "-c", "HOST", "-p", "PORT", "-u", "-b", "0", "-l", str(datagram_bytes)]
    client += ["-w", str(UDP_BUFFER_BYTES), "-t", str(setting.seconds), "-J"]
    text = _run(setting, ["iperf3", "-s", "-1", "-p", "PORT"], client)
    received = json.loads(text)["end"]["sum_received"]
    return _throughput(received["bits_per_second"], setting, lost_percent=received["lost_percent"])


def nuttcp_udp(setting: Setting, datagram_bytes: int) -> Measured:
    """Measure UDP with `nuttcp -u -Ru`."""
    kilobytes = f"-w{UDP_BUFFER_BYTES // 1024}"
    text = _nuttcp(setting, "-u", "-Ru", f"-l{datagram_bytes}", kilobytes)
    lost = _number(text, "data_loss")
    return _throughput(_number(text, "rate_Mbps") * 1e6, setting, lost_percent=lost)


def qperf_udp(setting: Setting, datagram_bytes: int) -> Measured:
    """Measure UDP with qperf's udp_bw test."""
    text = _qperf(setting, "udp_bw", datagram_bytes, "-sb", str(UDP_BUFFER_BYTES))
    sent, received = _number(text, "send_bw"), _number(text, "recv_bw")
    return _throughput(8 * received, setting, lost_percent=100 * (1 - received / sent))


def netperf_udp(setting: Setting, datagram_bytes: int) -> Measured:
    """Measure UDP with netperf's UDP_STREAM test."""
    buffers = ["-s", str(UDP_BUFFER_BYTES), "-S", str(UDP_BUFFER_BYTES)]
    rates = "LOCAL_SEND_THROUGHPUT,REMOTE_RECV_THROUGHPUT"
    text = _netperf(setting, "UDP_STREAM", "-m", str(datagram_bytes), *buffers, "-k", rates)
    sent = _number(text, "LOCAL_SEND_THROUGHPUT")
    received = _number(text, "REMOTE_RECV_THROUGHPUT")
    return Measured(received / 1e3, more={"lost_percent": 100 * (1 - received / sent)})


UDP: Final[dict[str, Callable[[Setting, int], Measured]]] = {
    "iperf3": iperf3_udp,
    "nuttcp": nuttcp_udp,
    "qperf": qperf_udp,
    "netperf": netperf_udp,
}
