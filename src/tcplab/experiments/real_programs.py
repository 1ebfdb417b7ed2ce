"""Run widely used programs with and without the few lines on which their speed depends."""

import os
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple, get_args

from tcplab import machine
from tcplab.errors import LabError
from tcplab.experiments import Between, Result, computed, derived, experiment, provenance
from tcplab.experiments.any_command import (
    FILES,
    HTTP_SERVER,
    TEXTS,
    Commands,
    Explained,
    run_command,
)
from tcplab.experiments.parameters import RttMs
from tcplab.experiments.progress import case_by_case, one_by_one
from tcplab.explain.joining import Conversation
from tcplab.lab import Lab
from tcplab.lab.scratch import temporary_folder
from tcplab.tables import Column
from tcplab.timeline import Timeline

GO_SERVER: Final = TEXTS["GO_SERVER"]
HTTP_CLIENT: Final = TEXTS["HTTP_CLIENT"]


class Programs(NamedTuple):
    """The commands of a client and a server, and the files that they use."""

    client: Sequence[str]
    server: Sequence[str]
    files: Mapping[str, str]


def _compared(pairs: Mapping[str, Programs], rtt_ms: float, **details: float | str) -> Commands:
    with Lab(rtt_ms=rtt_ms) as lab:
        cases, done = one_by_one(list(pairs), lambda case: run_command(lab, case, *pairs[case]))
        return Commands(cases, provenance(lab, **done, **details))


# ---- Python's http.server and http.client --------------------------------------------------------

_LINES: Final = ("", "wbufsize = -1", "disable_nagle_algorithm = True")
_PAGES: Final = 12  # requests on one connection
#: The finding of each experiment that compares the time per answer.
_SLOWEST: Final = "Per answer, '{most}' takes {ratio} times as long as '{least}'"


@experiment("http-server", figure=("ms_per_message",), finding=_SLOWEST)
def measure_http_server(
    lines: Annotated[Sequence[str], "lines of Python for the handler; empty for none"] = _LINES,
) -> Commands:
    """Fetch a page from Python's http.server several times, with each line added to the handler."""
    pairs = {
        line or "as it comes": Programs(
            ["python3", "{folder}/client.py", str(_PAGES)],
            ["python3", "{folder}/server.py"],
            {
                "server.py": HTTP_SERVER.replace("{line}", line or "pass"),
                "client.py": HTTP_CLIENT,
                "page.txt": FILES["page.txt"],
            },
        )
        for line in lines
    }
    return _compared(pairs, 0.0, requests=_PAGES)


# ---- nginx ---------------------------------------------------------------------------------------

Directives = Literal[
    "none", "nopush", "sendfile", "sendfile+nodelay", "sendfile+nopush", "sendfile+nopush+nodelay"
]
_REQUESTS: Final = 6  # requests of curl on one connection
_ORDER: Final = {"sendfile": "sendfile", "nopush": "tcp_nopush", "nodelay": "tcp_nodelay"}


def nginx_conf(directives: str) -> str:
    """Return a configuration in which the named directives are on and the others off."""
    on = directives.split("+")
    lines = (f"{name} {'on' if short in on else 'off'};" for short, name in _ORDER.items())
    user = "user root;\n" if os.getuid() == 0 else ""  # nginx must be able to read the folder
    return user + TEXTS["NGINX_CONF"].replace("{directives}", " ".join(lines))


@experiment(
    "nginx-directives", needs=("nginx", "curl"), figure=("ms_per_message",), finding=_SLOWEST
)
def measure_nginx(
    directives: Annotated[Sequence[Directives], "combinations to compare"] = get_args(Directives),
    file_bytes: Annotated[int, Between(1, 1_000_000, "bytes"), "size of the file"] = 200,
    rtt_ms: Annotated[RttMs, Between(0, 1000, "ms")] = 0.0,
) -> Commands:
    """Count the segments of nginx's answers with sendfile, tcp_nopush and tcp_nodelay on or off."""
    asked = [
        word for _ in range(_REQUESTS) for word in ("-o", os.devnull, "http://server:8080/file")
    ]
    start = ["-p", "{folder}", "-c", "{folder}/nginx.conf", "-e", "stderr"]
    pairs = {
        str(names): Programs(
            ["curl", "-s", *asked],
            ["nginx", *start],
            {"nginx.conf": nginx_conf(names), "file": file_bytes * "x"},
        )
        for names in directives
    }
    return _compared(pairs, rtt_ms, requests=_REQUESTS, file_bytes=file_bytes)


# ---- redis ---------------------------------------------------------------------------------------

_RTT_MS: Final = 20.0


class Pipelined(Explained, key="pipeline"):
    """A run of redis-benchmark with a given pipeline length."""

    columns = (
        Column("pipeline", "commands per pipeline", "d"),
        Column("server_reads", "server's reads", "d"),
        Column("server_writes", "server's writes", "d"),
        Column("client_segments", "client's segments", "d"),
        Column("commands_per_s", "commands/s", ",.0f"),
        Column("model_per_s", "model (commands/s)", ",.0f"),
        Column("verdict", "verdict"),
    )

    pipeline: int  #: number of commands sent before the client waits for an answer
    commands: int

    @cached_property
    def main(self) -> Conversation:
        return max(self.explanation.conversations, key=lambda conversation: len(conversation.rows))

    @derived()
    def client_segments(self) -> int:
        return sum(len(timeline.segments) for timeline in self.timelines("client"))

    server_reads = computed(
        lambda case: sum(call.name == "read" for call in case.main.sockets["server"].calls)
    )

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
        sent = min(self.pipeline, self.commands)
        return 1000 * sent / _RTT_MS


@experiment(
    "redis-pipelining",
    needs=("redis-server", "redis-benchmark"),
    figure=lambda figures, result: figures.draw_curves(
        result, "pipeline", "commands_per_s", "model_per_s", log="xy"
    ),
    finding="With {commands_per_s.most} commands per pipeline, Redis answers "
    "{commands_per_s.ratio} times as many per second as with {commands_per_s.least}",
)
def measure_redis(
    pipelines: Annotated[Sequence[int], Between(1, 1000), "commands per pipeline"] = (1, 10, 100),
    commands: Annotated[int, Between(1, 10_000), "commands on one connection"] = 100,
) -> Result[Pipelined]:
    """Run redis-benchmark with pipelines of several lengths, and compare it with the model."""
    server = ["redis-server", "--protected-mode", "no", "--save", ""]
    with Lab(rtt_ms=_RTT_MS) as lab:

        def measure(pipeline: int) -> Pipelined:
            words = f"redis-benchmark -h server -n {commands} -c 1 -P {pipeline} -t get -q".split()
            run = run_command(lab, f"-P {pipeline}", words, server, {})
            return Pipelined(run.case, run.evidence, pipeline, commands)

        return case_by_case(lab, pipelines, measure, commands=commands)


# ---- mosquitto -----------------------------------------------------------------------------------


class Delivered(Explained, key="nodelay"):
    """A run in which an MQTT broker forwards a sensor's readings to a subscriber."""

    columns = (
        Column("case", "broker"),
        Column("broker_writes", "writes to the subscriber", "d"),
        Column("broker_segments", "segments", "d"),
        Column("delay_ms", "mean delay (ms)", ".1f"),
        Column("longest_ms", "longest delay (ms)", ".1f"),
        Column("held_ms", "held (ms)", ".0f"),
    )

    nodelay: bool  #: the broker's set_tcp_nodelay
    readings: int

    @cached_property
    def to_subscriber(self) -> Timeline:
        return max(self.timelines("server"), key=lambda timeline: len(timeline.writes))

    @cached_property
    def delays_ms(self) -> list[float]:
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

    broker_writes = computed(lambda run: len(run.to_subscriber.writes))
    broker_segments = computed(lambda run: len(run.to_subscriber.segments))
    delay_ms = computed(lambda run: statistics.mean(run.delays_ms))
    longest_ms = computed(lambda run: max(run.delays_ms))


@experiment(
    "mqtt-broker",
    needs=("mosquitto", "mosquitto_pub"),
    figure=("delay_ms", "broker_segments"),
    finding="With Nagle's algorithm, messages arrive {delay_ms[False/True]} times as "
    "late as with TCP_NODELAY",
)
def measure_mosquitto(
    readings: Annotated[int, Between(2, 1000), "readings that are published with QoS 0"] = 50,
    pause_ms: Annotated[float, Between(1, 1000, "ms"), "pause between two readings"] = 10.0,
    rtt_ms: Annotated[RttMs, Between(0, 1000, "ms")] = 40.0,
) -> Result[Delivered]:
    """Forward a sensor's readings through an MQTT broker with set_tcp_nodelay off and on."""
    script = TEXTS["SENSOR"].replace("{count}", str(readings))
    script = script.replace("{pause_s}", f"{pause_ms / 1000:g}")
    user = "user root\n" if os.getuid() == 0 else ""
    with Lab(rtt_ms=rtt_ms) as lab:

        def measure(nodelay: bool) -> Delivered:
            value = str(nodelay).lower()
            conf = user + TEXTS["MOSQUITTO_CONF"].replace("{value}", value)
            files = {"mosquitto.conf": conf, "sensor.sh": script}
            broker = ["mosquitto", "-c", "{folder}/mosquitto.conf"]
            case = f"set_tcp_nodelay {value}"
            run = run_command(lab, case, ["sh", "{folder}/sensor.sh"], broker, files)
            return Delivered(run.case, run.evidence, nodelay, readings)

        return case_by_case(lab, [False, True], measure, readings=readings, pause_ms=pause_ms)


# ---- Go ------------------------------------------------------------------------------------------

_GO_CASES: Final = {"as it comes": "plain", "SetNoDelay(false)": "delay", "bufio.Writer": "bufio"}


@experiment("go-server", needs=("go", "curl"), figure=("ms_per_message",), finding=_SLOWEST)
def measure_go(
    requests: Annotated[int, Between(2, 200), "requests of curl on one connection"] = 6,
    rtt_ms: Annotated[RttMs, Between(0, 1000, "ms")] = 0.0,
) -> Commands:
    """Run a server in Go that writes header and body separately, unchanged and with two changes."""
    asked = [word for _ in range(requests) for word in ("-o", os.devnull, "http://server:8080/")]
    with temporary_folder() as folder:
        server = _built(Path(folder))
        pairs = {
            case: Programs(["curl", "-s", *asked], [str(server), word], {})
            for case, word in _GO_CASES.items()
        }
        return _compared(pairs, rtt_ms, requests=requests)


def _built(folder: Path) -> Path:
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
