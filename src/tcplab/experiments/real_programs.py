"""Programs that people use, each with the few lines on which its speed depends."""

from __future__ import annotations

import os
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple, TypeAlias

from tcplab import machine
from tcplab.errors import LabError
from tcplab.experiments import Between, Result, computed, derived, experiment, provenance
from tcplab.experiments.any_command import FILES, HTTP_SERVER, Commands, Explained, run_command
from tcplab.experiments.progress import one_by_one
from tcplab.explain.joining import Conversation
from tcplab.lab import Lab
from tcplab.lab.scratch import temporary_folder
from tcplab.tables import Column
from tcplab.timeline import Timeline


class Pair(NamedTuple):
    """A client's and a server's command, and the files that they read."""

    client: Sequence[str]
    server: Sequence[str]
    files: Mapping[str, str]


def _compared(
    name: str, pairs: Mapping[str, Pair], rtt_ms: float, **details: float | str
) -> Commands:
    """Runs pairs by the name of their case, one after another, on the same two hosts."""
    with Lab(rtt_ms=rtt_ms) as lab:

        def run(case: str) -> Explained:
            return run_command(lab, case, *pairs[case])

        cases, done = one_by_one(name, list(pairs), run)
        return Commands(cases, provenance(lab, **done, **details))


# ---- Python's http.server and http.client --------------------------------------------------------

#: The client: the page as often as its first argument says, on one connection.
HTTP_CLIENT: Final = """\
import sys
from http.client import HTTPConnection

connection = HTTPConnection("server", 8000)
for _ in range(int(sys.argv[1])):
    connection.request("GET", "/page.txt")
    connection.getresponse().read()
"""

_AS_IT_COMES: Final = "as it comes"


@experiment("http-server")
def measure_http_server(
    lines: Sequence[str] = ("", "wbufsize = -1", "disable_nagle_algorithm = True"),
    requests: Annotated[int, Between(2, 1000)] = 12,
    rtt_ms: Annotated[float, Between(0, 1000, "ms")] = 0.0,
) -> Commands:
    """Python's http.server and http.client: a page several times, for each line of the handler.

    Args:
        lines: one line of Python each, added to the handler's class; none where it is empty.
        requests: on one connection.
        rtt_ms: round-trip time of the wire.
    """
    pairs = {
        line or _AS_IT_COMES: Pair(
            ["python3", "{folder}/client.py", str(requests)],
            ["python3", "{folder}/server.py"],
            {
                "server.py": HTTP_SERVER.replace("{line}", line or "pass"),
                "client.py": HTTP_CLIENT,
                "page.txt": FILES["page.txt"],
            },
        )
        for line in lines
    }
    return _compared("http-server", pairs, rtt_ms, requests=requests)


# ---- nginx ---------------------------------------------------------------------------------------

#: The configuration; the directives take the place of {directives}.
NGINX_CONF: Final = """\
daemon off;
master_process off;
pid {folder}/pid;
error_log stderr crit;
events {}
http {
    {directives}
    access_log off;
    root {folder};
    client_body_temp_path {folder}/1;
    proxy_temp_path {folder}/2;
    fastcgi_temp_path {folder}/3;
    uwsgi_temp_path {folder}/4;
    scgi_temp_path {folder}/5;
    server { listen 8080; }
}
"""

#: Of the three directives those that are on.
Directives = Literal[
    "none", "nopush", "sendfile", "sendfile+nodelay", "sendfile+nopush", "sendfile+nopush+nodelay"
]
_ORDER: Final = {"sendfile": "sendfile", "nopush": "tcp_nopush", "nodelay": "tcp_nodelay"}


def nginx_conf(directives: str) -> str:
    """The configuration with some of the three directives on, the others off."""
    on = directives.split("+")
    lines = (f"{name} {'on' if each in on else 'off'};" for each, name in _ORDER.items())
    user = "user root;\n" if os.getuid() == 0 else ""  # else it cannot read the folder
    return user + NGINX_CONF.replace("{directives}", " ".join(lines))


@experiment("nginx-directives", needs=("nginx", "curl"))
def measure_nginx(
    directives: Sequence[Directives] = (
        "none",
        "nopush",
        "sendfile",
        "sendfile+nodelay",
        "sendfile+nopush",
        "sendfile+nopush+nodelay",
    ),
    file_bytes: Annotated[int, Between(1, 1_000_000, "bytes")] = 200,
    requests: Annotated[int, Between(2, 200)] = 6,
    rtt_ms: Annotated[float, Between(0, 1000, "ms")] = 0.0,
) -> Commands:
    """nginx's sendfile, tcp_nopush and tcp_nodelay: header and file of each answer, in segments.

    Args:
        directives: those that are on in each run.
        file_bytes: size of the file that is asked for.
        requests: on one connection, by curl.
        rtt_ms: round-trip time of the wire.
    """
    asked = [
        word for _ in range(requests) for word in ("-o", os.devnull, "http://server:8080/file")
    ]
    start = ["-p", "{folder}", "-c", "{folder}/nginx.conf", "-e", "stderr"]
    pairs = {
        str(each): Pair(
            ["curl", "-s", *asked],
            ["nginx", *start],
            {"nginx.conf": nginx_conf(each), "file": file_bytes * "x"},
        )
        for each in directives
    }
    return _compared("nginx-directives", pairs, rtt_ms, requests=requests, file_bytes=file_bytes)


# ---- redis ---------------------------------------------------------------------------------------


class Pipelined(Explained, key="pipeline"):
    """redis-benchmark with a pipeline of one length."""

    columns = (
        Column("pipeline", "commands in a pipeline", "d"),
        Column("server_reads", "server: reads", "d"),
        Column("server_writes", "writes", "d"),
        Column("client_segments", "client: segments", "d"),
        Column("commands_per_s", "commands per second", ",.0f"),
        Column("model_per_s", "the model says", ",.0f"),
        Column("verdict", "what decides"),
    )

    pipeline: int  #: commands that are sent before an answer is awaited
    commands: int
    rtt_ms: float

    @cached_property
    def main(self) -> Conversation:
        """The connection that carries the commands."""
        return max(self.explanation.conversations, key=lambda one: len(one.rows))

    @derived()
    def server_reads(self) -> int:
        return sum(call.name == "read" for call in self.main.sockets["server"].calls)

    @derived()
    def server_writes(self) -> int:
        calls = self.main.sockets["server"].calls
        return sum(call.name != "read" and call.asked_bytes > 0 for call in calls)

    @derived()
    def commands_per_s(self) -> float:
        times_ns = self.main.rows[self.main.rows["payload_bytes"] > 0]["time_ns"]
        took_ms = (int(times_ns[-1]) - int(times_ns[0])) / 1e6
        return 1000 * self.commands / took_ms

    @derived()
    def model_per_s(self) -> float:
        """One pipeline per round trip."""
        sent = min(self.pipeline, self.commands)
        return 1000 * sent / self.rtt_ms if self.rtt_ms else float("inf")


Pipelines: TypeAlias = Result[Pipelined]


@experiment("redis-pipelining", needs=("redis-server", "redis-benchmark"))
def measure_redis(
    pipelines: Annotated[Sequence[int], Between(1, 1000)] = (1, 10, 100),
    commands: Annotated[int, Between(1, 10_000)] = 100,
    rtt_ms: Annotated[float, Between(0, 1000, "ms")] = 20.0,
) -> Pipelines:
    """redis-benchmark with pipelines of several lengths: round trips, calls, commands per second.

    Args:
        pipelines: commands that are sent before an answer is awaited.
        commands: in each run, on one connection.
        rtt_ms: round-trip time of the wire.
    """
    server = ["redis-server", "--protected-mode", "no", "--save", ""]
    with Lab(rtt_ms=rtt_ms) as lab:

        def run(pipeline: int) -> Pipelined:
            words = f"redis-benchmark -h server -n {commands} -c 1 -P {pipeline} -t get -q".split()
            found = run_command(lab, f"-P {pipeline}", words, server, {})
            return Pipelined(found.case, found.evidence, pipeline, commands, rtt_ms)

        runs, done = one_by_one("redis-pipelining", list(pipelines), run)
        return Pipelines(runs, provenance(lab, **done, commands=commands))


# ---- mosquitto -----------------------------------------------------------------------------------

#: The broker's configuration; the directive's value takes the place of {value}.
MOSQUITTO_CONF: Final = """\
listener 1883
allow_anonymous true
set_tcp_nodelay {value}
"""

#: A subscriber, and a sensor with a reading every so many seconds; its own writes never wait.
SENSOR: Final = """\
mosquitto_sub -h server -t sensor -C {count} > {folder}/readings &
sleep 0.5
seq {count} | while read -r reading; do echo "$reading"; sleep {pause_s}; done |
    mosquitto_pub -h server -t sensor -l --nodelay
wait
"""


class Delivered(Explained, key="nodelay"):
    """A sensor's readings on their way through the broker to a subscriber."""

    columns = (
        Column("case", "broker"),
        Column("broker_writes", "its writes to the subscriber", "d"),
        Column("broker_segments", "segments", "d"),
        Column("delay_ms", "a reading's way (ms), mean", ".1f"),
        Column("longest_ms", "longest", ".1f"),
        Column("held_ms", "held (ms)", ".0f"),
    )

    nodelay: bool  #: the broker's set_tcp_nodelay
    readings: int

    @cached_property
    def to_subscriber(self) -> Timeline:
        """Return the timeline of the connection on which the broker sends to the subscriber."""
        return max(self.timelines("server"), key=lambda each: len(each.writes))

    @cached_property
    def delays_ms(self) -> list[float]:
        """For each write of the broker, the time until its last byte arrives."""
        delays_ms = []
        for write in self.to_subscriber.writes:
            last = write.offset + write.bytes
            came_ns = [
                part.arrived_ns
                for part in self.to_subscriber.segments
                if part.offset < last <= part.end and part.arrived_ns is not None
            ]
            delays_ms += [(came_ns[0] - write.time_ns) / 1e6] if came_ns else []
        return delays_ms

    broker_writes = computed(lambda each: len(each.to_subscriber.writes))
    broker_segments = computed(lambda each: len(each.to_subscriber.segments))
    delay_ms = computed(lambda each: statistics.mean(each.delays_ms))
    longest_ms = computed(lambda each: max(each.delays_ms))


Deliveries: TypeAlias = Result[Delivered]


@experiment("mqtt-broker", needs=("mosquitto", "mosquitto_pub"))
def measure_mosquitto(
    readings: Annotated[int, Between(2, 1000)] = 50,
    pause_ms: Annotated[float, Between(1, 1000, "ms")] = 10.0,
    rtt_ms: Annotated[float, Between(0, 1000, "ms")] = 40.0,
) -> Deliveries:
    """An MQTT broker with set_tcp_nodelay off and on: a sensor's readings for one subscriber.

    Args:
        readings: that the sensor publishes, QoS 0.
        pause_ms: between two of them.
        rtt_ms: round-trip time of the wire.
    """
    script = SENSOR.replace("{count}", str(readings)).replace("{pause_s}", f"{pause_ms / 1000:g}")
    user = "user root\n" if os.getuid() == 0 else ""
    with Lab(rtt_ms=rtt_ms) as lab:

        def run(nodelay: bool) -> Delivered:
            value = str(nodelay).lower()
            conf = user + MOSQUITTO_CONF.replace("{value}", value)
            files = {"mosquitto.conf": conf, "sensor.sh": script}
            broker = ["mosquitto", "-c", "{folder}/mosquitto.conf"]
            case = f"set_tcp_nodelay {value}"
            found = run_command(lab, case, ["sh", "{folder}/sensor.sh"], broker, files)
            return Delivered(found.case, found.evidence, nodelay, readings)

        runs, done = one_by_one("mqtt-broker", [False, True], run)
        return Deliveries(runs, provenance(lab, **done, readings=readings, pause_ms=pause_ms))


# ---- Go ------------------------------------------------------------------------------------------

#: A server that answers each request with a header and a body, in two writes unless told otherwise.
GO_SERVER: Final = """\
package main

import ("bufio"; "io"; "net"; "os")

func main() {
	listener, _ := net.Listen("tcp", ":8080")
	for {
		c, _ := listener.Accept()
		if os.Args[1] == "delay" { c.(*net.TCPConn).SetNoDelay(false) }
		out := bufio.NewWriter(c)
		lines := bufio.NewReader(c)
		for {
			line, err := lines.ReadString('\\n')
			if err != nil { break }
			if line != "\\r\\n" { continue }
			var to io.Writer = c
			if os.Args[1] == "bufio" { to = out }
			io.WriteString(to, "HTTP/1.1 200 OK\\r\\nContent-Length: 5\\r\\n\\r\\n")
			io.WriteString(to, "hello")
			out.Flush()
		}
	}
}
"""

#: What the server does with its connections -> its argument.
_GO_CASES: Final = {"as it comes": "plain", "SetNoDelay(false)": "delay", "bufio.Writer": "bufio"}


@experiment("go-server", needs=("go", "curl"))
def measure_go(
    requests: Annotated[int, Between(2, 200)] = 6,
    rtt_ms: Annotated[float, Between(0, 1000, "ms")] = 0.0,
) -> Commands:
    """A server in Go, which writes header and body apart: as it comes, and with two changes.

    Args:
        requests: on one connection, by curl.
        rtt_ms: round-trip time of the wire.
    """
    asked = [word for _ in range(requests) for word in ("-o", os.devnull, "http://server:8080/")]
    with temporary_folder() as folder:
        server = _built(Path(folder))
        pairs = {
            case: Pair(["curl", "-s", *asked], [str(server), word], {})
            for case, word in _GO_CASES.items()
        }
        return _compared("go-server", pairs, rtt_ms, requests=requests)


def _built(folder: Path) -> Path:
    """The Go server, compiled into a folder, static."""
    source, made = folder / "server.go", folder / "server"
    source.write_text(GO_SERVER)
    go = machine.find("go")
    assert go is not None
    done = subprocess.run(
        [go, "build", "-o", made, source],
        env=os.environ | {"CGO_ENABLED": "0", "GO111MODULE": "off"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise LabError(f"go cannot build the server: {last}")
    return made
