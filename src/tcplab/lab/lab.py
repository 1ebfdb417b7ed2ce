"""Create the laboratory, with hosts in separate namespaces and a link between them."""

import atexit
import contextlib
import os
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any, Final

from tcplab.checks import number, whole
from tcplab.errors import LabError, ParameterError
from tcplab.lab.binaries import program_path
from tcplab.lab.host import Host, Network, Pair, ending
from tcplab.lab.interfaces import OFFLOADS, Interfaces
from tcplab.lab.link import MAX_DELAY_MS, Link, wire_values
from tcplab.lab.namespaces import Namespaces

DEFAULT_QUEUE_PACKETS: Final = 1000

#: Sysctls that a laboratory sets on each host because results depend on them (ip-sysctl.rst). The
#: buffer limits are pinned because distributions differ. The metrics cache is off because it would
#: let one run influence the next.
PINNED_SYSCTLS: Final[Mapping[str, str]] = {
    "net.ipv4.tcp_rmem": "4096 131072 6291456",
    "net.ipv4.tcp_wmem": "4096 16384 4194304",
    "net.ipv4.tcp_no_metrics_save": "1",
    "net.ipv4.tcp_slow_start_after_idle": "1",
    "net.ipv4.tcp_autocorking": "1",
}

#: Sysctls that enable IPv6 again, without automatic addresses and router solicitations.
_IPV6_SYSCTLS: Final[Mapping[str, str]] = {
    "net.ipv6.conf.{interface}.accept_ra": "0",
    "net.ipv6.conf.{interface}.addr_gen_mode": "1",
    "net.ipv6.conf.lo.disable_ipv6": "0",
    "net.ipv6.conf.{interface}.disable_ipv6": "0",
}

#: Adding this offset to the last octet of a host's address gives an address that no kernel owns.
#: There are at most 101 hosts.
_SPARE: Final = 128


def congestion_controls() -> list[str]:
    """Return the names of the congestion controls that this kernel offers, sorted (tcp(7))."""
    path = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
    return sorted(path.read_text().split())


class Lab(Network):
    """Two hosts, `client` and `server`, and the link between them.

    Use it in a with statement, or across notebook cells until :meth:`close`. The end of the Python
    process, even by SIGKILL, ends everything in the laboratory.

    Args:
        rtt_ms: round-trip time of the link, half in each direction, 0 to 4000 ms
        rate_mbit: rate of each direction in 10^6 bit/s, or None for no limit
        queue_packets: length of the queue in each direction, in packets
        loss: probability that the link drops a packet, 0 to 1 (seeded, see wire.c)
        mtu: MTU of every interface, in bytes, 68 to 65535
        clients: number of clients that share the link to the server, 1 to 100; `client` is the
            first of them. Alternatively, one round-trip time in ms per client, for a separate cable
            in front of the shared link (a dumbbell), in addition to rtt_ms
        offload: leave segmentation and checksum offloads on; if off, each frame is at most the MTU
        sysctls: sysctls to set on each host after PINNED_SYSCTLS
        congestion: congestion control of every connection that does not choose one, even in
            programs started by hand, whatever the machine's default
        **wire: other parameters of :meth:`Link.update` for both directions, such as aqm="codel" or
            ecn=True (which also makes the hosts' TCP request ECN)
    """

    grants_privileges = True

    def __init__(
        self,
        rtt_ms: float = 0.0,
        rate_mbit: float | None = None,
        queue_packets: int = DEFAULT_QUEUE_PACKETS,
        loss: float = 0.0,
        mtu: int = 1500,
        offload: bool = False,
        sysctls: Mapping[str, str] | None = None,
        clients: int | Sequence[float] = 1,
        congestion: str = "cubic",
        **wire: Any,
    ) -> None:
        super().__init__()
        self.client_rtts_ms = _client_rtts_ms(clients)
        number("rtt_ms", rtt_ms, 0, 2 * MAX_DELAY_MS, unit=" ms")
        link: dict[str, Any] = {"rtt_ms": rtt_ms, "rate_mbit": rate_mbit or 0, "loss": loss, **wire}
        link["queue_packets"] = queue_packets
        wire_values(link)  # an impossible link is refused before anything is created
        self.mtu = whole("mtu", mtu, 68, 65535, unit=" bytes")
        self.rtt_ms = rtt_ms
        self.offload = offload
        self.congestion = congestion
        self._metrics: dict[str, str | int] = {}
        self.client = Host(self, "client", "10.0.0.1", "eth0")
        numbers = range(2, len(self.client_rtts_ms) + 1)
        others = [Host(self, f"client{n}", f"10.0.0.{n + 1}", "eth0") for n in numbers]
        self.clients = [self.client, *others]
        self.server = Host(self, "server", "10.0.0.2", "eth0")
        self._wire: subprocess.Popen[str] | None = None
        self._namespaces = Namespaces()
        self._entrances: dict[str, tuple[int, int, int]] = {}
        self._spare: set[str] = set()
        atexit.register(self.close)
        try:
            for name in (*(host.name for host in self._hosts), "wire"):
                self._entrances[name] = self._namespaces.add_host(name)
            self._name_hosts()
            self._keep_ipv6_quiet()
            # with 2, TCP accepts ECN if the peer requests it
            ecn = {"net.ipv4.tcp_ecn": "1" if wire.get("ecn") else "2"}
            for host in self._hosts:
                for key, value in {**PINNED_SYSCTLS, **ecn, **(sysctls or {})}.items():
                    host.sysctl(key, value)
            if not self._choose_congestion():
                self._metrics["RTAX_CC_ALGO"] = congestion
            self._make_interfaces()
            self._wire, self.link = self._start_wire()
            self.link.update(**link)
            for host, cable_ms in zip(self.clients, self.client_rtts_ms, strict=True):
                self.link.command(f"access {host.name} {round(cable_ms / 2 * 1e6)}")
        except BaseException:
            self.close()
            raise
        threading.Thread(target=self._watch_wire, args=(self._wire,), daemon=True).start()

    def __repr__(self) -> str:
        state = "closed" if self._closed else self._failure or f"rtt_ms={self.rtt_ms:g}"
        return f"<Lab {state}>"

    def direct(self, *, offload: bool = False) -> Pair:
        """Connect client and server by another veth pair, which bypasses the link.

        The pair serves to compare the link with no emulation at all, or with a queueing discipline
        of tc(8). The method may be called once. The interfaces are "direct0", with addresses
        10.0.1.1 and 10.0.1.2. `offload` leaves segmentation and checksum offloads on.
        """
        self.check()
        client = Host(self, "client", "10.0.1.1", "direct0")
        server = Host(self, "server", "10.0.1.2", "direct0")
        peer_net_fd = self._entrances["server"][1]
        with _explained("a direct pair from client to server"):
            with self._interfaces("client") as own:
                own.add_veth("direct0", "direct0", mtu=self.mtu, peer_net_fd=peer_net_fd)
            for host in (client, server):
                self._configure(host, offload)
        return Pair(client, server, self.congestion)

    def add_ipv6(self) -> None:
        """Add an IPv6 address to each host: fd00::1 with the name client6 for 10.0.0.1, and so on.

        The link treats IPv6 like IPv4, with one difference: its `mtu` must be at least 1280. IPv6
        is not on by default, because a host with IPv6 announces itself now and then, even during
        captures.
        """
        self.check()
        self.link.carry_ipv6(self.mtu)
        for host in self._hosts:
            for key, value in _IPV6_SYSCTLS.items():
                host.sysctl(key.format(interface=host.interface), value)
        with _explained("adding IPv6 addresses"):
            for host in self._hosts:
                with self._interfaces(host.name) as own:
                    own.add_address(host.interface, _ipv6(host))
                    if self._metrics:
                        own.route_metrics(host.interface, _ipv6(host), self._metrics)
                    self._add_neighbours(own, host, _ipv6)

    def set_initial_window(self, segments: int) -> None:
        """Let hosts send this many segments before the first ACK (initcwnd in ip-route(8))."""
        self.check()
        whole("segments", segments, 1, 1000)
        self._metrics["RTAX_INITCWND"] = segments
        for host in self._hosts:
            with self._interfaces(host.name) as own:
                own.route_metrics(host.interface, host.address, self._metrics)

    def close(self) -> None:
        """End everything in the laboratory. Closing it again has no effect.

        When this returns, the kernel has killed every process in the laboratory. A thread waits
        until the link's rings are freed (about 50 ms, one RCU grace period per ring).
        """
        if self._closed:
            return
        self._closed = True
        atexit.unregister(self.close)
        with contextlib.suppress(AttributeError, LabError):  # the link was never made, or failed
            self.link.ended.append(self.link.lateness())
        self._namespaces.close()
        # A process here ends when the kernel has killed the process that it started in the
        # laboratory.
        for process in [self._wire, *self._processes]:
            if process is not None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=10)
        self._kill_commands()
        try:
            threading.Thread(target=self._reap, name="tcplab-reap", daemon=True).start()
        except RuntimeError:  # the interpreter is shutting down and cannot start threads
            self._reap()

    def _reap(self) -> None:
        if self._wire is not None:
            with contextlib.suppress(OSError), self._wire:  # closes its pipes
                pass
        self._namespaces.wait()

    @property
    def _hosts(self) -> list[Host]:
        return [*self.clients, self.server]

    # -- setting up --

    def _name_hosts(self) -> None:
        lines = ["127.0.0.1 localhost"]
        lines += [f"{host.address} {host.name}" for host in self._hosts]
        lines += [f"{_ipv6(host)} {host.name}6" for host in self._hosts]
        self._namespaces.ask("hosts " + "\n".join(lines) + "\n")

    def _keep_ipv6_quiet(self) -> None:
        """Disable IPv6 before interfaces exist, so that none announces itself in a capture."""
        for host in (*self._hosts, Host(self, "wire", "", "")):
            for scope in ("all", "default"):
                # A kernel without IPv6 has no such sysctl.
                with contextlib.suppress(LabError):
                    host.sysctl(f"net.ipv6.conf.{scope}.disable_ipv6", "1")

    def _choose_congestion(self) -> bool:
        """Set the hosts' default congestion control; return False if it requires real root."""
        offered = congestion_controls()
        if self.congestion not in offered:
            raise ParameterError(
                f"congestion={self.congestion!r} is not one of {', '.join(offered)}, which this"
                f" kernel offers; root can load more: sudo modprobe tcp_{self.congestion}"
            )
        for host in self._hosts:
            try:
                host.sysctl("net.ipv4.tcp_congestion_control", self.congestion)
            except LabError:
                return False  # not in net.ipv4.tcp_allowed_congestion_control
        return True

    def _make_interfaces(self) -> None:
        with _explained("making the laboratory's network"):
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
                        wire.set_offloads(host.name, OFFLOADS, on=False)
            for host in self._hosts:
                self._configure(host, self.offload)
                with self._interfaces(host.name) as own:
                    own.set_up("lo")
                    if self._metrics:
                        own.route_metrics("lo", "127.0.0.1", self._metrics)
                    self._add_neighbours(own, host, lambda other: other.address)

    def _configure(self, host: Host, offload: bool) -> None:
        with self._interfaces(host.name) as own:
            own.add_address(host.interface, host.address)
            own.set_up(host.interface)
            if not offload:
                own.set_offloads(host.interface, OFFLOADS, on=False)
            if self._metrics:
                own.route_metrics(host.interface, host.address, self._metrics)

    def _add_neighbours(
        self, own: Interfaces, host: Host, address_of: Callable[[Host], str]
    ) -> None:
        # Without permanent neighbour entries, an experiment would begin with ARP requests.
        for other in self._hosts:
            if other is not host:
                own.add_neighbour(host.interface, address_of(other), _mac(other))

    def _interfaces(self, name: str) -> Interfaces:
        return Interfaces(partial(self._socket, name))

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
        """Record an unexpected end of the link, which would otherwise look like a lossy network."""
        code = process.wait()
        if self._closed:
            return
        assert process.stderr is not None
        try:
            errors = process.stderr.read()
        except (OSError, ValueError):
            errors = ""
        self._failure = f"the wire {ending(code, errors)}; make a new Lab()"
        self._kill_commands()

    # -- for Host --

    def entrance(self, host: Host, privileged: bool) -> tuple[list[str], tuple[int, ...]]:
        self.check()
        return self._entrance_of(host.name, privileged)

    def _entrance_of(self, name: str, privileged: bool) -> tuple[list[str], tuple[int, ...]]:
        _index, net_fd, uts_fd = self._entrances[name]
        spaces = self._namespaces
        fds = (spaces.user_fd, spaces.mnt_fd, spaces.pid_fd, net_fd, uts_fd)
        flags = ["--net-admin"] if privileged else []
        owner = str(os.getpid())
        return [str(program_path("lab_exec")), *flags, owner, *map(str, fds), "--"], fds

    def open_socket(self, host: Host, family: int, kind: int, proto: int) -> socket.socket:
        self.check()
        return self._socket(host.name, family, kind, proto)

    def _socket(self, name: str, family: int, kind: int, proto: int) -> socket.socket:
        request = f"socket {self._entrances[name][0]} {int(family)} {int(kind)} {int(proto)}"
        return socket.socket(fileno=self._namespaces.ask(request)[0])

    def spare_address(self, host: Host) -> str:
        self.check()
        if host.interface != "eth0":
            raise LabError(f"custom packets cannot use {host.interface}; use lab.{host.name}")
        address = f"10.0.0.{_number(host) + _SPARE}"
        if host.name not in self._spare:
            for other in self._hosts:
                if other.name != host.name:
                    with self._interfaces(other.name) as interfaces:
                        interfaces.add_neighbour(other.interface, address, _mac(host))
            self._spare.add(host.name)
        return address

    def open_file(self, host: Host, path: str, flags: int) -> IO[bytes]:
        self.check()
        (fd,) = self._namespaces.ask(f"open {self._entrances[host.name][0]} {flags} {path}")
        return os.fdopen(fd, "wb" if flags & os.O_WRONLY else "rb", buffering=0)


@contextlib.contextmanager
def _explained(what: str) -> Iterator[None]:
    """Raise LabError, beginning with what was being done, if the kernel refuses a request."""
    try:
        yield
    except OSError as error:
        raise LabError(f"{what}: {error.strerror}") from None


def _client_rtts_ms(clients: int | Sequence[float]) -> tuple[float, ...]:
    if not isinstance(clients, Sequence):
        return (0.0,) * whole("clients", clients, 1, 100)
    whole("number of clients", len(clients), 1, 100)
    return tuple(number("clients", rtt_ms, 0, 2 * MAX_DELAY_MS, unit=" ms") for rtt_ms in clients)


def _mac(host: Host) -> str:
    """Return a locally administered MAC address that ends with the IPv4 address's last octet."""
    return f"02:00:00:00:00:{_number(host):02x}"


def _ipv6(host: Host) -> str:
    """Return a unique local address (RFC 4193) that ends with the IPv4 address's last octet."""
    return f"fd00::{_number(host):x}"


def _number(host: Host) -> int:
    return int(host.address.rpartition(".")[2])
