"""Two hosts and the wire between them, on one Linux machine, without root.

A :class:`Lab` makes Linux namespaces (user, network, mount, PID, IPC, UTS: namespaces(7)) in which
an ordinary user rules, two hosts joined by veth(4) pairs, and a wire: a C program that forwards
each frame after the delay, at the rate and through the queue that were asked for.
:class:`Loopback` offers the same interface on plain 127.0.0.1, and refuses by name what it cannot
do.

The module knows nothing of TCP: it creates hosts, runs commands on them and tears them down.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import socket
import subprocess
import sysconfig
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Self

from tcplab.lab.interfaces import Interfaces, import_early

if TYPE_CHECKING:
    from tcplab.capture import Recording, WireRecording

__all__ = [
    "Host",
    "Lab",
    "LabError",
    "Link",
    "Loopback",
    "Pair",
    "ParameterError",
    "has_net_raw",
    "program_path",
    "why_no_lab",
]

Command = Sequence[str | os.PathLike[str]]

DEFAULT_QUEUE_PACKETS: Final = 1000
MAX_DELAY_MS: Final = 2000.0

#: What a laboratory sets on each host, because results depend on it (ip-sysctl.rst). The buffer
#: limits are pinned since distributions differ; the metrics cache would let one run change the
#: next.
PINNED_SYSCTLS: Final[Mapping[str, str]] = {
    "net.ipv4.tcp_rmem": "4096 131072 6291456",
    "net.ipv4.tcp_wmem": "4096 16384 4194304",
    "net.ipv4.tcp_no_metrics_save": "1",
    "net.ipv4.tcp_slow_start_after_idle": "1",
    "net.ipv4.tcp_autocorking": "1",
}


class LabError(Exception):
    """Something the laboratory could not do; the message is one line and says how to mend it."""


class ParameterError(LabError, ValueError):
    """A value that was out of range: the message names it, its limits and the fix."""


def program_path(name: str) -> Path:
    """The executable of one of the course's C programs.

    Raises:
        LabError: the program is not built.
    """
    for directory in _program_directories():
        if os.access(path := directory / name, os.X_OK):
            return path
    raise LabError(
        f"the program '{name}' is not built; run 'make setup' in the course's directory"
        " (or reinstall the tcplab package)"
    )


def _program_directories() -> Iterator[Path]:
    # The second is where an editable install puts what CMake built; TCPLAB_BIN is for sanitizer
    # builds.
    if override := os.environ.get("TCPLAB_BIN"):
        yield Path(override)
    yield Path(__file__).parent.parent / "bin"
    yield Path(sysconfig.get_path("platlib")) / "tcplab" / "bin"


def _environment(extra: Mapping[str, str] | None) -> dict[str, str]:
    """The caller's environment with the course's programs first on PATH."""
    path = os.pathsep.join([*map(str, _program_directories()), os.environ.get("PATH", os.defpath)])
    return {**os.environ, "PATH": path, **(extra or {})}


def _number(name: str, value: float, low: float, high: float, unit: str = "") -> float:
    """The value itself when it is a number in range; a LabError that says the range otherwise."""
    good = isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high
    if not good:
        raise ParameterError(f"{name}={value!r} must be a number from {low:g} to {high:g}{unit}")
    return value


# ---- why namespaces may be blocked ---------------------------------------------------------------


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def why_no_lab() -> str | None:
    """None when a laboratory can be made here; otherwise the reason and the cure, in one line."""
    try:
        trial = _Namespaces()
    except LabError as error:
        return str(error)
    trial.close()
    trial.wait()
    return None


def _explain_blocked(symptom: str) -> str:
    """One line: why unprivileged namespaces fail on this machine, and what would allow them.

    Sources: user_namespaces(7); Ubuntu 23.10+ restricts them through AppArmor; Docker's default
    seccomp profile refuses unshare(2) without CAP_SYS_ADMIN.
    """
    if _read("/proc/sys/user/max_user_namespaces") == "0":
        why, fix = "user.max_user_namespaces is 0", "sudo sysctl -w user.max_user_namespaces=15000"
    elif _read("/proc/sys/kernel/unprivileged_userns_clone") == "0":
        why = "kernel.unprivileged_userns_clone is 0"
        fix = "sudo sysctl -w kernel.unprivileged_userns_clone=1"
    elif _read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1":
        why = "AppArmor restricts unprivileged user namespaces (Ubuntu 23.10 and later)"
        fix = "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
    elif _in_container():
        why = "the container's seccomp profile forbids unshare(2)"
        fix = "docker run --security-opt seccomp=unconfined --security-opt systempaths=unconfined …"
    else:
        why, fix = "the kernel refused a user namespace", "tcplab doctor"
    return f"no laboratory on this machine: {why} [{symptom}]; to allow it: {fix}"


def _in_container() -> bool:
    if Path("/.dockerenv").exists() or Path("/run/.containerenv").exists():
        return True
    return "Seccomp:\t2" in _read("/proc/self/status")


# ---- namespaces ----------------------------------------------------------------------------------


class _Namespaces:
    """The laboratory's process 1 and the descriptors that it hands out (see lab_init.c).

    Raises:
        LabError: namespaces are blocked; the message says by what, and the command that allows
        them.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        argv = [str(program_path("lab_init")), str(theirs.fileno()), str(os.getpid())]
        with theirs:
            self._process = subprocess.Popen(
                argv,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        text, fds = self._receive()
        if text != "ready":
            raise LabError(_explain_blocked(self._last_words()))
        self.user_fd, self.pid_fd, self.mnt_fd = fds
        self._fds = list(fds)
        self._hosts = 0

    def _receive(self) -> tuple[str, list[int]]:
        text, fds, _flags, _address = socket.recv_fds(self._control, 4096, 3)
        return text.decode(errors="replace"), list(fds)

    def _last_words(self) -> str:
        assert self._process.stderr is not None
        self._control.close()
        words = self._process.stderr.read().decode(errors="replace").strip()
        self._process.stderr.close()
        self._process.wait()
        return words.removeprefix("lab_init: ") or "lab_init said nothing"

    def ask(self, request: str) -> list[int]:
        """Sends a request to process 1; the descriptors of its answer."""
        with self._lock:
            try:
                self._control.send(request.encode())
                text, fds = self._receive()
            except OSError:
                text, fds = "", []
        if text == "":
            raise LabError("the laboratory is closed; make a new Lab()")
        if text != "ok":
            _error, name, what = text.split(" ", 2)
            raise LabError(f"{what}: {name} (in the laboratory, '{request[:60]}')")
        return fds

    def add_host(self, name: str) -> tuple[int, int, int]:
        """Index, network namespace and UTS namespace of a new host."""
        net_fd, uts_fd = self.ask(f"host {name}")
        self._fds += [net_fd, uts_fd]
        self._hosts += 1
        return self._hosts - 1, net_fd, uts_fd

    def close(self) -> None:
        """Ends process 1, and so everything in the laboratory. May be called again.

        Returns when all has been told to end; :meth:`wait` returns when the kernel has let go of
        it.
        """
        with self._lock:
            fds, self._fds = self._fds, []
        if not fds:
            return
        self._control.close()
        for fd in fds:
            os.close(fd)

    def wait(self) -> None:
        """Reaps process 1 of a closed laboratory, when everything in it is gone."""
        self._process.wait()
        if self._process.stderr:
            self._process.stderr.close()


# ---- hosts ---------------------------------------------------------------------------------------


class Host:
    """One end of the wire: run commands on it, open sockets on it, read and set its sysctls.

    Attributes:
        name: "client" or "server"; a name that both hosts can resolve (not on Loopback).
        address: its IPv4 address.
        interface: the network interface that leads to the wire.
    """

    def __init__(self, place: Lab | Loopback, name: str, address: str, interface: str) -> None:
        self._place = place
        self.name = name
        self.address = address
        self.interface = interface

    def __repr__(self) -> str:
        return f"<Host {self.name} {self.address} of {self._place!r}>"

    def start(
        self,
        argv: Command,
        *,
        privileged: bool | None = None,
        env: Mapping[str, str] | None = None,
        text: bool = True,
        **popen: Any,
    ) -> subprocess.Popen[Any]:
        """Starts a command on this host, as the ordinary user that runs Python.

        Args:
            argv: the command; its name is looked up among the course's programs, then on PATH.
            privileged: keep CAP_NET_RAW and CAP_NET_ADMIN over the laboratory's network. Unless
                said, the course's own programs do in a Lab: where the system allows ordinary users
                only some congestion controls (tcp_allowed_congestion_control), to choose another
                takes CAP_NET_ADMIN.
            env: added to the environment.
            text: text streams (UTF-8); False for bytes.
            **popen: as for subprocess.Popen; stdin is /dev/null unless given.

        Raises:
            LabError: the laboratory is closed or broken, or the command does not exist.
        """
        words = [os.fspath(word) for word in argv]
        if not words:
            raise ParameterError("argv is empty; give a command such as ['hostname']")
        environment = _environment(env)
        words[0] = _find(words[0], environment["PATH"])
        if privileged is None:
            privileged = isinstance(self._place, Lab) and _is_ours(words[0])
        popen.setdefault("stdin", subprocess.DEVNULL)
        prefix, fds = self._place._entrance(self, privileged)
        pass_fds = (*popen.pop("pass_fds", ()), *fds)
        process = subprocess.Popen(
            [*prefix, *words],
            env=environment,
            text=text,
            encoding="utf-8" if text else None,
            pass_fds=pass_fds,
            start_new_session=True,
            **popen,
        )
        self._place._register(process)
        return process

    def run(
        self,
        argv: Command,
        *,
        timeout_s: float = 60.0,
        check: bool = True,
        stdin: str | None = None,
        privileged: bool | None = None,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command on this host and waits for it; stdout and stderr are captured.

        Raises:
            LabError: it took longer than timeout_s, or (with check) it failed; the message carries
                the last line that the command wrote to standard error.
        """
        process = self.start(
            argv,
            privileged=privileged,
            env=env,
            stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        shown = " ".join(os.fspath(word) for word in argv)
        with process:
            try:
                out, err = process.communicate(stdin, timeout=timeout_s)
            except subprocess.TimeoutExpired:
                raise LabError(
                    f"'{shown}' on {self.name} did not end within timeout_s={timeout_s:g}"
                ) from None
            finally:
                if process.poll() is None:  # a timeout, or the user's Ctrl-C
                    process.kill()
        self._place._check()
        if check and process.returncode != 0:
            raise LabError(f"'{shown}' on {self.name} {_ending(process.returncode, err)}")
        return subprocess.CompletedProcess(list(argv), process.returncode, out, err)

    def socket(
        self, family: int = socket.AF_INET, kind: int = socket.SOCK_STREAM, proto: int = 0
    ) -> socket.socket:
        """A socket opened inside this host's network namespace, for use in this very process.

        AF_PACKET and AF_NETLINK work too: the user rules the laboratory's network.
        """
        return self._place._socket(self, family, kind, proto)

    def read(self, path: str) -> str:
        """The text of a file as seen on this host, such as /proc/net/netstat."""
        with self._place._open(self, path, os.O_RDONLY) as file:
            return file.read().decode(errors="replace")

    def sysctl(self, name: str, value: str | None = None) -> str:
        """Reads a sysctl of this host ("net.ipv4.tcp_rmem"), or sets it; the value now in force.

        Raises:
            LabError: no such sysctl, it cannot be set here, or the kernel refuses the value.
        """
        path = "/proc/sys/" + name.replace(".", "/")
        if not path.startswith("/proc/sys/net/") or ".." in path:
            raise LabError(f"sysctl {name!r}: a host has only those that begin with 'net.'")
        try:
            if value is not None:
                with self._place._open(self, path, os.O_WRONLY) as file:
                    file.write(value.encode() + b"\n")
            return " ".join(self.read(path).split())
        except (OSError, LabError) as error:
            wish = name if value is None else f"{name} = {value!r}"
            raise LabError(f"sysctl {wish} on {self.name}: {error}") from None

    def capture(self, **options: Any) -> Recording:
        """Records the packets on this host's interface: see tcplab.capture.record."""
        from tcplab.capture import record

        return record(self, **options)


def _find(command: str, path: str) -> str:
    import shutil

    found = shutil.which(command, path=path)
    if found is None:
        raise LabError(f"no command '{command}': neither a program of the course nor on PATH")
    return str(Path(found).absolute())


def _is_ours(path: str) -> bool:
    return any(Path(path).parent == directory.absolute() for directory in _program_directories())


def _ending(code: int, stderr: str) -> str:
    how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"failed (exit {code})"
    lines = stderr.strip().splitlines()
    return f"{how}: {lines[-1]}" if lines else how


# ---- the wire ------------------------------------------------------------------------------------


class Link:
    """The wire between the hosts: its parameters, counters and recording (see wire.c).

    A direction is "client->server", "server->client" or "both".
    """

    DIRECTIONS: Final = {"both": "both", "client->server": "ab", "server->client": "ba"}

    def __init__(self, process: subprocess.Popen[str], index: int = 0) -> None:
        self._process = process
        self._index = index
        self._lock = threading.Lock()
        self.parameters: dict[str, dict[str, Any]] = {"client->server": {}, "server->client": {}}

    def command(self, words: str) -> dict[str, Any]:
        """Sends one command to the wire and returns its answer.

        Raises:
            LabError: the wire refused it, or has ended.
        """
        with self._lock:
            try:
                assert self._process.stdin is not None
                assert self._process.stdout is not None
                self._process.stdin.write(words + "\n")
                self._process.stdin.flush()
                line = self._process.stdout.readline()
            except (OSError, ValueError):
                line = ""
        if not line:
            raise LabError("the wire has ended; make a new Lab()")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise LabError(f"the wire: {answer['error']}")
        return answer

    def update(
        self,
        direction: str = "both",
        *,
        rtt_ms: float | None = None,
        delay_ms: float | None = None,
        rate_mbit: float | None = None,
        queue_packets: int | None = None,
        loss: float | None = None,
        **wire_options: str | float | int,
    ) -> None:
        """Changes parameters, also while packets are under way; what is not named stays.

        Args:
            direction: which way ("both" unless given).
            rtt_ms: sets the one-way delay of both directions to half of it.
            delay_ms: one-way delay, 0 to 2000 ms.
            rate_mbit: 10^6 bits per second; 0 for as fast as the machine can.
            queue_packets: length of the tail-drop queue before the rate limiter.
            loss: probability that a packet is dropped, 0 to 1.
            **wire_options: any other key of wire.c's `set` command (`wire --help` lists them).

        Raises:
            ParameterError: a value is out of range; nothing was changed.
        """
        way = self._way(direction)
        if rtt_ms is not None:
            if delay_ms is not None or direction != "both":
                raise ParameterError("rtt_ms sets both directions; give delay_ms for one of them")
            delay_ms = _number("rtt_ms", rtt_ms, 0, 2 * MAX_DELAY_MS, " ms") / 2
        values = _wire_values(delay_ms, rate_mbit, queue_packets, loss) | {
            key: str(value) for key, value in wire_options.items()
        }
        if values:
            words = " ".join(f"{key}={value}" for key, value in values.items())
            self.command(f"set {self._index} {way} {words}")
        named = {
            "delay_ms": delay_ms,
            "rate_mbit": rate_mbit,
            "queue_packets": queue_packets,
            "loss": loss,
            **wire_options,
        }
        for name, known in self.parameters.items():
            if direction in ("both", name):
                known.update({key: value for key, value in named.items() if value is not None})

    def counters(self) -> dict[str, dict[str, Any]]:
        """What each direction received, forwarded and dropped, by reason, since the start.

        Returns:
            For "client->server" and "server->client": packets_in, bytes_in, packets_out, bytes_out,
            dropped (by reason), queue_packets_max, late_ns (percentiles of how much later than it
            should have a packet left) and more; see `wire --help`.
        """
        counted = self.command("counters")["links"][self._index]
        return {way: counted[key] for way, key in self.DIRECTIONS.items() if key in counted}

    def script(self, direction: str, rule: str) -> None:
        """Drops, duplicates or holds chosen packets, such as "drop data nth=3"; "clear" ends it.

        Args:
            direction: "client->server", "server->client" or "both".
            rule: ACTION WHAT [CONDITION]...; `wire --help` lists them.

        Raises:
            ParameterError: no such direction.
            LabError: the wire does not understand the rule.
        """
        self.command(f"script {self._index} {self._way(direction)} {rule}")

    def capture(self, **options: Any) -> WireRecording:
        """Records at the wire itself what entered, left and was dropped, with the reason.

        Lossless up to the rate that the wire forwards. See tcplab.capture.record_wire.
        """
        from tcplab.capture import record_wire

        return record_wire(self, **options)

    def _way(self, direction: str) -> str:
        if direction not in self.DIRECTIONS:
            known = ", ".join(self.DIRECTIONS)
            raise ParameterError(f"direction={direction!r} must be one of {known}")
        return self.DIRECTIONS[direction]


def _wire_values(
    delay_ms: float | None,
    rate_mbit: float | None,
    queue_packets: int | None,
    loss: float | None,
) -> dict[str, str]:
    """The wire's own keys and units."""
    values: dict[str, str] = {}
    if delay_ms is not None:
        delay = _number("delay_ms", delay_ms, 0, MAX_DELAY_MS, " ms")
        values["delay_ns"] = str(round(delay * 1e6))
    if rate_mbit is not None:
        values["rate_bps"] = str(
            round(_number("rate_mbit", rate_mbit, 0, 100_000, " Mbit/s") * 1e6)
        )
        if rate_mbit and int(values["rate_bps"]) < 1000:
            raise ParameterError(f"rate_mbit={rate_mbit!r} must be 0 (no limit) or at least 0.001")
    if queue_packets is not None:
        if queue_packets != int(_number("queue_packets", queue_packets, 1, 1_000_000)):
            raise ParameterError(f"queue_packets={queue_packets!r} must be a whole number")
        values["queue_packets"] = str(int(queue_packets))
    if loss is not None:
        values["loss"] = repr(float(_number("loss", loss, 0, 1)))
    return values


# ---- the laboratory ------------------------------------------------------------------------------


class _Place:
    """What Lab and Loopback share: the commands they started, and their end."""

    client: Host
    server: Host
    #: Congestion control that experiments pin here, whatever the machine's default is.
    congestion: str = "cubic"

    def __init__(self) -> None:
        self._processes: set[subprocess.Popen[Any]] = set()
        self._failure: str | None = None
        self._closed = False

    def _register(self, process: subprocess.Popen[Any]) -> None:
        # Kept until it has ended, so that one whose handle was dropped is ended and reaped too.
        ended = {each for each in self._processes if each.poll() is not None}
        self._processes = (self._processes - ended) | {process}

    def _kill_commands(self) -> None:
        running = [process for process in self._processes if process.poll() is None]
        for process in running:
            process.kill()
        for process in running:
            process.wait()

    def _check(self) -> None:
        if self._closed:
            raise LabError("the laboratory is closed; make a new Lab()")
        if self._failure:
            raise LabError(self._failure)

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class Pair:
    """A client and a server that talk over another way than the wire: see :meth:`Lab.direct`.

    The programs take it as they take a Lab.

    Attributes:
        client: as seen over that way.
        server: the same.
        congestion: congestion control that experiments pin.
    """

    client: Host
    server: Host
    congestion: str = "cubic"


class Lab(_Place):
    """Two hosts, `client` and `server`, and the wire between them.

    Usable in a with statement, or over many notebook cells until :meth:`close`; the end of the
    Python process, by SIGKILL too, ends everything in it.

    Args:
        rtt_ms: round-trip time of the wire, half in each direction, 0 to 4000 ms.
        rate_mbit: rate of each direction in 10^6 bit/s; None for as fast as the machine can.
        queue_packets: tail-drop queue of each direction, in packets.
        loss: probability that the wire drops a packet, 0 to 1 (seeded: see wire.c).
        mtu: of every interface, in bytes, 68 to 65535.
        clients: how many share the wire to the server, 1 to 100; `client` is the first of them.
        offload: leave segmentation and checksum offloads on; off, each frame is at most the MTU.
        sysctls: set on each host after PINNED_SYSCTLS.

    Raises:
        ParameterError: a parameter is out of range.
        LabError: namespaces are blocked here (the message says by
            what, and the command that allows them).
    """

    def __init__(
        self,
        rtt_ms: float = 0.0,
        rate_mbit: float | None = None,
        queue_packets: int = DEFAULT_QUEUE_PACKETS,
        loss: float = 0.0,
        mtu: int = 1500,
        offload: bool = False,
        sysctls: Mapping[str, str] | None = None,
        clients: int = 1,
    ) -> None:
        super().__init__()
        if clients != int(_number("clients", clients, 1, 100)):
            raise ParameterError(f"clients={clients!r} must be a whole number")
        _number("rtt_ms", rtt_ms, 0, 2 * MAX_DELAY_MS, " ms")
        _wire_values(None, rate_mbit, queue_packets, loss)
        self.mtu = int(_number("mtu", mtu, 68, 65535, " bytes"))
        self.rtt_ms = rtt_ms
        self.offload = offload
        self.clients = [
            Host(self, "client", "10.0.0.1", "eth0"),
            *(Host(self, f"client{n}", f"10.0.0.{n + 1}", "eth0") for n in range(2, clients + 1)),
        ]
        self.client = self.clients[0]
        self.server = Host(self, "server", "10.0.0.2", "eth0")
        self._wire: subprocess.Popen[str] | None = None
        import_early()
        self._namespaces = _Namespaces()
        self._entrances: dict[str, tuple[int, int, int]] = {}
        atexit.register(self.close)
        try:
            for name in (*(host.name for host in self._hosts), "wire"):
                self._entrances[name] = self._namespaces.add_host(name)
            self._name_hosts()
            self._keep_ipv6_quiet()
            for host in self._hosts:
                for key, value in {**PINNED_SYSCTLS, **(sysctls or {})}.items():
                    host.sysctl(key, value)
            try:
                self._configure()
            except OSError as error:
                raise LabError(f"making the laboratory's network: {error.strerror}") from None
            self._wire, self.link = self._start_wire()
            self.link.update(
                rtt_ms=rtt_ms, rate_mbit=rate_mbit or 0, queue_packets=queue_packets, loss=loss
            )
        except BaseException:
            self.close()
            raise
        threading.Thread(target=self._watch_wire, args=(self._wire,), daemon=True).start()

    def __repr__(self) -> str:
        state = "closed" if self._closed else self._failure or f"rtt_ms={self.rtt_ms:g}"
        return f"<Lab {state}>"

    def direct(self, *, offload: bool = False) -> Pair:
        """Joins client and server by one more veth pair, which does not pass the wire.

        To compare the wire with: with none at all, or with a queueing discipline of tc(8) on the
        pair's ends. May be called once.

        Args:
            offload: leave segmentation and checksum offloads on.

        Returns:
            The hosts as seen over it: addresses 10.0.1.1 and 10.0.1.2, interface "direct0".

        Raises:
            LabError: the laboratory is closed, or there is such a pair already.
        """
        self._check()
        pair = Pair(
            Host(self, "client", "10.0.1.1", "direct0"), Host(self, "server", "10.0.1.2", "direct0")
        )
        try:
            self._configure_direct(pair, offload)
        except OSError as error:
            raise LabError(f"a direct pair from client to server: {error.strerror}") from None
        return pair

    def close(self) -> None:
        """Ends every command on the hosts, the wire and the namespaces. May be called again.

        When it returns, the kernel has killed all that lived in the laboratory. It takes some 50 ms
        more to free the wire's rings (a grace period of RCU each), for which nobody has to wait.
        """
        if self._closed:
            return
        self._closed = True
        atexit.unregister(self.close)
        self._namespaces.close()
        # Each ends when the kernel has killed its part in the laboratory, and so everything else.
        for process in [self._wire, *self._processes]:
            if process is not None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=10)
        self._kill_commands()
        try:
            threading.Thread(target=self._reap, name="tcplab-reap", daemon=True).start()
        except RuntimeError:  # the interpreter is ending and has no more threads to give
            self._reap()

    def _reap(self) -> None:
        if self._wire is not None:
            for stream in (self._wire.stdin, self._wire.stdout, self._wire.stderr):
                if stream is not None:
                    with contextlib.suppress(OSError):
                        stream.close()
        self._namespaces.wait()

    @property
    def _hosts(self) -> list[Host]:
        return [*self.clients, self.server]

    # -- making it --

    def _name_hosts(self) -> None:
        lines = ["127.0.0.1 localhost"]
        lines += [f"{host.address} {host.name}" for host in self._hosts]
        self._namespaces.ask("hosts " + "\n".join(lines) + "\n")

    def _keep_ipv6_quiet(self) -> None:
        """Before there are interfaces: each would announce itself, in the middle of a capture."""
        for host in (*self._hosts, Host(self, "wire", "", "")):
            for scope in ("all", "default"):
                # A kernel without IPv6 has nothing to be kept quiet.
                with contextlib.suppress(LabError):
                    host.sysctl(f"net.ipv6.conf.{scope}.disable_ipv6", "1")

    def _configure(self) -> None:
        """Interfaces, addresses, neighbours and offloads, over sockets of each namespace."""
        with self._interfaces("wire") as wire:
            for host in self._hosts:
                wire.add_veth(
                    host.name,
                    host.interface,
                    mtu=self.mtu,
                    peer_net_fd=self._entrances[host.name][1],
                    peer_mac=_mac(host),
                )
                wire.set_up(host.name)
                if not self.offload:
                    wire.switch_offloads_off(host.name)
        for host in self._hosts:
            with self._interfaces(host.name) as own:
                self._configure_host(own, host)

    def _configure_host(self, own: Interfaces, host: Host) -> None:
        own.add_address(host.interface, host.address)
        own.set_up(host.interface)
        own.set_up("lo")
        if not self.offload:
            own.switch_offloads_off(host.interface)
        # Fixed neighbours, so that no ARP request is the first packet of an experiment.
        for other in self._hosts:
            if other is not host:
                own.add_neighbour(host.interface, other.address, _mac(other))

    def _configure_direct(self, pair: Pair, offload: bool) -> None:
        with self._interfaces("client") as own:
            own.add_veth(
                pair.client.interface,
                pair.server.interface,
                mtu=self.mtu,
                peer_net_fd=self._entrances["server"][1],
            )
        for host in (pair.client, pair.server):
            with self._interfaces(host.name) as own:
                own.add_address(host.interface, host.address)
                own.set_up(host.interface)
                if not offload:
                    own.switch_offloads_off(host.interface)

    def _interfaces(self, name: str) -> Interfaces:
        return Interfaces(partial(self._open_socket, name))

    def _start_wire(self) -> tuple[subprocess.Popen[str], Link]:
        prefix, fds = self._entrance_of("wire", privileged=True)
        flags = ["--offload"] if self.offload else []
        clients = ",".join(host.name for host in self.clients)
        process = subprocess.Popen(
            [*prefix, str(program_path("wire")), *flags, f"{clients}:{self.server.name}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            pass_fds=fds,
            start_new_session=True,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        if not process.stdout.readline():
            raise LabError(f"the wire did not start: {process.stderr.read().strip()}")
        return process, Link(process)

    def _watch_wire(self, process: subprocess.Popen[str]) -> None:
        """A wire that ends on its own must not look like a network that lost everything."""
        code = process.wait()
        if self._closed:
            return
        assert process.stderr is not None
        try:
            words = process.stderr.read()
        except (OSError, ValueError):
            words = ""
        self._failure = f"the wire {_ending(code, words)}; make a new Lab()"
        self._kill_commands()

    # -- what Host needs --

    def _entrance(self, host: Host, privileged: bool) -> tuple[list[str], tuple[int, ...]]:
        self._check()
        return self._entrance_of(host.name, privileged)

    def _entrance_of(self, name: str, privileged: bool) -> tuple[list[str], tuple[int, ...]]:
        _index, net_fd, uts_fd = self._entrances[name]
        spaces = self._namespaces
        fds = (spaces.user_fd, spaces.mnt_fd, spaces.pid_fd, net_fd, uts_fd)
        flags = ["--net-admin"] if privileged else []
        owner = str(os.getpid())
        return [str(program_path("lab_exec")), *flags, owner, *map(str, fds), "--"], fds

    def _socket(self, host: Host, family: int, kind: int, proto: int) -> socket.socket:
        self._check()
        return self._open_socket(host.name, family, kind, proto)

    def _open_socket(self, name: str, family: int, kind: int, proto: int) -> socket.socket:
        request = f"socket {self._entrances[name][0]} {int(family)} {int(kind)} {int(proto)}"
        return socket.socket(fileno=self._namespaces.ask(request)[0])

    def _open(self, host: Host, path: str, flags: int) -> IO[bytes]:
        self._check()
        (fd,) = self._namespaces.ask(f"open {self._entrances[host.name][0]} {flags} {path}")
        return os.fdopen(fd, "wb" if flags & os.O_WRONLY else "rb", buffering=0)


def _mac(host: Host) -> str:
    """A locally administered address that ends like the IPv4 address."""
    return f"02:00:00:00:00:{int(host.address.rpartition('.')[2]):02x}"


# ---- plain loopback ------------------------------------------------------------------------------


class Loopback(_Place):
    """The interface of :class:`Lab` on the machine's own 127.0.0.1, for where namespaces are
    blocked.

    Both hosts are the same machine, and the wire is the loopback interface: no delay, rate, queue
    or loss can be set, and sysctls only read.
    """

    def __init__(self) -> None:
        super().__init__()
        self.client = Host(self, "client", "127.0.0.1", "lo")
        self.server = Host(self, "server", "127.0.0.1", "lo")
        self.rtt_ms = 0.0
        self.offload = True
        self.mtu = int(_read("/sys/class/net/lo/mtu") or 65536)
        allowed = _read("/proc/sys/net/ipv4/tcp_allowed_congestion_control").split()
        if "cubic" not in allowed and os.getuid() != 0:
            self.congestion = "reno"  # which the kernel allows everybody, always
        atexit.register(self.close)

    def __repr__(self) -> str:
        return "<Loopback closed>" if self._closed else "<Loopback>"

    @property
    def link(self) -> Link:
        """Loopback has none: asking for it raises LabError."""
        raise LabError("Loopback has no wire: delay, rate, queue and loss need Lab()")

    def close(self) -> None:
        """Ends every command that was started. May be called again."""
        if self._closed:
            return
        self._closed = True
        atexit.unregister(self.close)
        self._kill_commands()

    def _entrance(self, _host: Host, privileged: bool) -> tuple[list[str], tuple[int, ...]]:
        self._check()
        if privileged and not has_net_raw():
            raise LabError(
                "Loopback cannot record packets or open raw sockets: that needs CAP_NET_RAW on the"
                " real machine; use Lab(), where you have it"
            )
        return [str(program_path("lab_exec")), str(os.getpid()), "--"], ()

    def _socket(self, _host: Host, family: int, kind: int, proto: int) -> socket.socket:
        self._check()
        try:
            return socket.socket(family, kind, proto)
        except PermissionError:
            raise LabError(
                "Loopback cannot open raw sockets: that needs CAP_NET_RAW on the real machine;"
                " use Lab(), where you have it"
            ) from None

    def _open(self, _host: Host, path: str, flags: int) -> IO[bytes]:
        self._check()
        if flags & os.O_WRONLY:
            raise LabError(f"Loopback does not change the real machine's {path}; use Lab()")
        try:
            return Path(path).open("rb", buffering=0)
        except OSError as error:
            raise LabError(f"{path}: {error.strerror}") from None


def has_net_raw() -> bool:
    """Whether this process may open raw sockets on the real machine (CAP_NET_RAW)."""
    status = _read("/proc/self/status")
    effective = status.partition("CapEff:\t")[2].split("\n", 1)[0]
    cap_net_raw = 13
    return bool(int(effective or "0", 16) >> cap_net_raw & 1)
