"""Test the laboratory's hosts, the commands on them, their isolation, and complete removal."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.commands import completed
from tests.support.lifetime import in_sequence, processes_with, start_and_kill, until
from tests.support.needs import IPV6
from tests.support.nonempty import each

from tcplab import Host, Lab, LabError
from tcplab.errors import ParameterError
from tcplab.experiments import provenance
from tcplab.experiments.sockets import connection
from tcplab.lab import Pair
from tcplab.programs import tcp_bulk

pytestmark = pytest.mark.needs_lab


# ---- commands ----


def test_a_command_runs_as_the_same_user_on_a_host_with_its_own_name(lab: Lab) -> None:
    assert lab.client.run(["id", "-u"]).stdout.strip() == str(os.getuid())
    assert lab.client.run(["hostname"]).stdout.strip() == "client"
    assert lab.server.run(["hostname"]).stdout.strip() == "server"
    assert lab.client.run(["pwd", "-P"]).stdout.strip() == str(Path.cwd().resolve())


def test_the_names_client_and_server_resolve(lab: Lab) -> None:
    hosts = lab.client.run(["cat", "/etc/hosts"]).stdout
    assert f"{lab.server.address} server" in hosts
    assert f"{lab.client.address} client" in hosts


def test_a_host_has_loopback_and_one_interface_and_no_route_to_the_internet(lab: Lab) -> None:
    lines = lab.client.read("/proc/net/dev").splitlines()[2:]
    assert {line.split(":")[0].strip() for line in lines} == {"lo", "eth0"}
    with (
        lab.client.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe,
        pytest.raises(OSError, match="unreachable"),
    ):
        probe.connect(("192.0.2.1", 9))


def test_idle_laboratory_sends_no_packets() -> None:
    # There is no ARP and no IPv6 announcement, so a capture holds only the experiment.
    with Lab() as quiet:
        time.sleep(2)
        assert packets_in(quiet) == {"client->server": 0, "server->client": 0}
        with datagrams(quiet.server, quiet.client) as (there, here):
            here.send(b"the first")
            there.recv(16)
        assert packets_in(quiet) == {"client->server": 1, "server->client": 0}


def packets_in(lab: Lab) -> dict[str, int]:
    return {way: counters["packets_in"] for way, counters in lab.link.counters().items()}


#: A program that prints the congestion control of both ends of a connection.
BY_HAND = """
import socket, sys
listener = socket.create_server((sys.argv[1], 0))
client = socket.socket()
client.connect(listener.getsockname())
server, _ = listener.accept()
for end in (client, server):
    print(end.getsockopt(6, 13, 16).decode().strip(chr(0)))
"""


@pytest.mark.parametrize("congestion", ["cubic", "reno"])
def test_programs_started_by_hand_have_the_pinned_congestion_control(congestion: str) -> None:
    with Lab(congestion=congestion) as lab:
        own, default = lab.client.address, tcp_bulk(lab, count=1)
        assert default.source.options.congestion == congestion
        for address in (own, "127.0.0.1"):
            ran = lab.client.run([sys.executable, "-c", BY_HAND, address])
            assert ran.stdout.split() == [congestion] * 2, address
        with connection(lab) as (client, server):
            assert congestion_of(client) == congestion_of(server) == congestion
            # A program may choose another algorithm after connect().
            other = {"cubic": b"reno", "reno": b"cubic"}[congestion]
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, other)
            assert congestion_of(client) == other.decode()
        pair = lab.direct()
        assert tcp_bulk(pair, count=1).source.options.congestion == congestion
        assert provenance(lab)["congestion"] == congestion


def congestion_of(end: socket.socket) -> str:
    return end.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()


def test_initial_window_is_ten_segments_or_what_was_set() -> None:
    with Lab() as lab:
        for window in (10, 40):
            with connection(lab) as ends:
                infos = [end.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 84) for end in ends]
            assert [struct.unpack_from("I", info, 80)[0] for info in infos] == [window] * 2
            lab.set_initial_window(40)


def test_missing_congestion_control_names_the_available_ones() -> None:
    with pytest.raises(
        ParameterError, match=r"^congestion='vagas' is not one of .*reno.* modprobe"
    ):
        Lab(congestion="vagas")


def test_exit_status_and_signal_of_the_command_come_back(lab: Lab) -> None:
    assert lab.client.run(["sh", "-c", "exit 7"], check=False).returncode == 7
    killed = lab.client.run(["sh", "-c", "kill -KILL $$"], check=False)
    assert killed.returncode == -signal.SIGKILL


def test_failed_command_is_reported_with_its_last_line(lab: Lab) -> None:
    with pytest.raises(LabError, match=r"on client failed \(exit 3\): the reason$"):
        lab.client.run(["sh", "-c", "echo noise >&2; echo the reason >&2; exit 3"])


def test_an_unknown_command_is_named(lab: Lab) -> None:
    with pytest.raises(LabError, match="no-such-command"):
        lab.client.run(["no-such-command"])
    with pytest.raises(ParameterError, match="argv is empty"):
        lab.client.run([])


def test_a_command_that_does_not_end_is_ended(lab: Lab) -> None:
    mark = f"MARK={uuid.uuid4()}"
    with pytest.raises(LabError, match=r"sleep 300' on server did not end within timeout_s=0\.2"):
        lab.server.run(["env", mark, "sleep", "300"], timeout_s=0.2)
    until(lambda: not processes_with(mark))


def test_end_of_the_commands_output_is_seen_before_it_ends(lab: Lab) -> None:
    process = lab.client.start(
        ["sh", "-c", "exec >&-; sleep 300"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.read() == ""  # lab_exec holds no copy of the pipe
    process.kill()
    process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_signal_reaches_the_command(
    lab: Lab, number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = f"MARK={uuid.uuid4()}"
    monkeypatch.setenv(*mark.split("="))
    process = lab.client.start(["sleep", "300"])
    until(lambda: len(processes_with(mark)) == 3)  # lab_exec, its guard, sleep
    process.send_signal(number)
    assert process.wait(timeout=20) == -number
    until(lambda: not processes_with(mark))


# ---- settings ----


def test_sysctls_are_set_on_one_host_only(lab: Lab) -> None:
    before = lab.server.sysctl("net.ipv4.tcp_rmem")
    assert lab.client.sysctl("net.ipv4.tcp_rmem", "4096 8192 16384") == "4096 8192 16384"
    assert lab.server.sysctl("net.ipv4.tcp_rmem") == before
    with pytest.raises(LabError, match=r"sysctl net\.ipv4\.no_such on client: .*ENOENT"):
        lab.client.sysctl("net.ipv4.no_such")


@pytest.mark.parametrize("name", ["kernel.panic", "/etc/passwd", ""])
def test_sysctl_outside_net_is_refused(lab: Lab, name: str) -> None:
    with pytest.raises(LabError, match=r"a host has only those that begin with 'net\.'"):
        lab.client.sysctl(name, "0")


def test_offloads_are_off_unless_asked() -> None:
    from pyroute2.ethtool.ioctl import IoctlEthtool

    def is_on(lab: Lab, feature: str) -> bool:
        ethtool = IoctlEthtool()
        ethtool.close()
        ethtool.sock = lab.client.socket(socket.AF_INET, socket.SOCK_DGRAM)
        ethtool.change_ifname("eth0")
        with ethtool.sock:
            return bool(ethtool.get_offload_flags()[feature])

    for offload in (False, True):
        with Lab(offload=offload) as made:
            assert is_on(made, "generic-segmentation-offload") is offload
            assert is_on(made, "tx-checksumming") is offload


# ---- the wire ----


@contextlib.contextmanager
def datagrams(server: Host, client: Host) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Yield a UDP socket of the server, and a socket of the client that sends to it."""
    with (
        server.socket(socket.AF_INET, socket.SOCK_DGRAM) as there,
        client.socket(socket.AF_INET, socket.SOCK_DGRAM) as here,
    ):
        there.bind((server.address, 0))
        here.connect(there.getsockname())
        there.settimeout(60)
        here.settimeout(60)
        yield there, here


def round_trip_ms(lab: Lab | Pair) -> float:
    """Time one UDP round trip from within this process, so that no other process has to wake up."""
    with datagrams(lab.server, lab.client) as (there, here):
        start = time.monotonic()
        here.send(b"ping")
        _data, address = there.recvfrom(16)
        assert address[0] == lab.client.address
        there.sendto(b"pong", address)
        assert here.recv(16) == b"pong"
        return (time.monotonic() - start) * 1e3


def test_the_wire_is_never_faster_than_its_delay() -> None:
    with Lab(rtt_ms=40) as slow:
        assert round_trip_ms(slow) >= 40
        slow.link.update("client->server", delay_ms=90)
        slow.link.update("server->client", delay_ms=10)
        assert round_trip_ms(slow) >= 100


def test_clients_with_their_own_round_trip_times_share_a_managed_queue() -> None:
    """The exact delay of a cable is tested in tests/lab/wire/test_sides.py."""
    with Lab(rtt_ms=2, rate_mbit=10, clients=[0, 90, 0], aqm="codel", ecn=True) as dumbbell:
        assert [host.name for host in dumbbell.clients] == ["client", "client2", "client3"]
        assert dumbbell.client is dumbbell.clients[0]
        assert list(dumbbell.client_rtts_ms) == [0, 90, 0]
        assert round_trip_ms(Pair(dumbbell.clients[1], dumbbell.server)) >= 92
        # A transfer fills the queue. CoDel marks packets and drops none.
        sent = tcp_bulk(dumbbell, duration_s=1, sndbuf_bytes=None, rcvbuf_bytes=None).source
        counted = dumbbell.link.counters()["client->server"]
        assert counted["marked"] > 0
        assert sent.tcp_info["delivered_ce"] > 0
        assert counted["dropped"]["aqm"] == 0
        link = provenance(dumbbell)["link"]["client->server"]
        assert (link["aqm"], link["ecn"]) == ("codel", True)


@pytest.mark.skipif(not Path("/proc/net/if_inet6").exists(), reason=IPV6)
def test_the_link_treats_ipv6_like_ipv4() -> None:
    with Lab(rtt_ms=2, loss=0.1, congestion="cubic") as lab:
        too_low = "mtu=1279 must be at least 1280 bytes on a link that carries IPv6"
        lab.link.update("server->client", mtu=1279)
        with pytest.raises(ParameterError, match=too_low):
            lab.add_ipv6()
        lab.link.update(mtu=1280)
        lab.add_ipv6()
        with pytest.raises(ParameterError, match=too_low):
            lab.link.update(mtu=1279)
        with (
            lab.server.socket(socket.AF_INET6, socket.SOCK_STREAM) as listener,
            lab.client.socket(socket.AF_INET6, socket.SOCK_STREAM) as client,
        ):
            listener.bind(("fd00::2", 0))
            listener.listen()
            client.connect(listener.getsockname())
            with listener.accept()[0] as server:
                # Both ends know the path's MTU only after a message about a packet that is too big.
                server.send(bytes(1400))
                client.sendall(bytes(50_000))
                assert len(server.recv(50_000, socket.MSG_WAITALL)) == 50_000
                assert len(client.recv(1400, socket.MSG_WAITALL)) == 1400
                name = server.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
                assert name.rstrip(b"\0") == b"cubic"
        there, back = lab.link.counters().values()
    for way in (there, back):
        assert way["dropped"]["mtu"] >= 1
        assert way["icmp"] >= 1
    assert there["dropped"]["loss"] >= 1
    with Lab(mtu=1000) as narrow, pytest.raises(ParameterError, match="mtu=1000"):
        narrow.add_ipv6()


def test_a_direction_and_its_values_are_checked(lab: Lab) -> None:
    with pytest.raises(ParameterError, match="direction 'up' is not known; use one of both"):
        lab.link.update("up", loss=0.5)
    with pytest.raises(ParameterError, match="rtt_ms sets both directions"):
        lab.link.update("client->server", rtt_ms=5)
    with pytest.raises(ParameterError, match="loss=2 must be a number from 0 to 1"):
        lab.link.update(loss=2)
    with pytest.raises(LabError, match=r"the wire: .*no_such_key"):
        lab.link.update(no_such_key=1)


def test_killed_wire_ends_the_laboratory_with_an_error() -> None:
    with Lab() as broken:
        waiting = broken.server.start(["sleep", "300"])
        assert broken._wire is not None
        broken._wire.kill()
        until(lambda: waiting.poll() is not None)
        with pytest.raises(LabError, match="the wire was ended by SIGKILL"):
            broken.client.run(["true"])
        with pytest.raises(LabError, match="the wire has ended"):
            broken.link.counters()


def test_two_laboratories_do_not_see_each_other() -> None:
    with Lab() as one, Lab() as two, datagrams(one.server, two.client) as (there, outsider):
        outsider.send(b"hello")
        there.settimeout(0.3)
        with pytest.raises(TimeoutError):
            there.recv(16)


def test_a_direct_pair_does_not_pass_the_wire() -> None:
    with Lab(rtt_ms=4000) as lab:
        pair = lab.direct()
        with datagrams(pair.server, pair.client) as (there, here):
            here.send(b"over there")
            assert there.recvfrom(16) == (b"over there", here.getsockname())
        assert all(way["packets_in"] == 0 for way in each(lab.link.counters().values()))
        with pytest.raises(LabError, match=r"a direct pair .*: adding a veth pair: File exists"):
            lab.direct()


def test_a_laboratory_needs_no_package_that_is_slow_to_import() -> None:
    script = "import sys; from tcplab import Lab; Lab().close(); print(*sys.modules)"
    done = completed([sys.executable, "-c", script], check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert not loaded & {"numpy", "scapy", "matplotlib"}


# ---- lifetime ----


def test_closed_laboratory_kills_commands_and_refuses_new_ones() -> None:
    lab = Lab()
    commands = [host.start(["sleep", "300"]) for host in (lab.client, lab.server) for _ in range(5)]
    lab.close()
    lab.close()
    assert all(command.poll() is not None for command in commands)
    assert lab._wire is not None
    assert lab._wire.poll() is not None
    for use in (
        lambda: lab.client.run(["true"]),
        lambda: lab.client.sysctl("net.ipv4.tcp_rmem"),
        lambda: lab.client.socket(),
    ):
        with pytest.raises(LabError, match="the laboratory is closed"):
            use()


def test_laboratories_leave_no_descriptor_process_or_thread() -> None:
    counts = in_sequence(10)
    assert counts["after"] == counts["first"] == counts["before"]


def test_laboratories_whose_owner_is_sigkilled_leave_nothing() -> None:
    mark = f"MARK={uuid.uuid4()}"
    start_and_kill("Lab", 5, mark, processes=50)  # ten in each laboratory
    until(lambda: not processes_with(mark))


def test_a_laboratory_can_be_made_where_an_event_loop_is_running() -> None:
    async def as_in_a_notebook_cell() -> str:
        with Lab() as made:
            return made.client.run(["hostname"]).stdout.strip()

    assert asyncio.run(as_in_a_notebook_cell()) == "client"


# ---- where it is not allowed, and for whom it must be ----

MAKE_ONE = """
from tcplab import Lab, LabError
try:
    with Lab() as lab:
        print(lab.client.run(["id", "-u"]).stdout.strip())
        for privileged in (False, True):
            status = lab.client.run(["cat", "/proc/self/status"], privileged=privileged).stdout
            print(status.partition("CapEff:")[2].split()[0])
except LabError as error:
    print(error)
"""


def test_blocked_namespaces_give_one_clear_error() -> None:
    script = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$0" -c "$1"'
    shown = completed(
        ["unshare", "--user", "--map-root-user", "sh", "-c", script, sys.executable, MAKE_ONE]
    )
    assert shown.stdout.startswith("no laboratory on this machine: user.max_user_namespaces is 0")
    assert "sudo sysctl -w user.max_user_namespaces=" in shown.stdout
    assert len(shown.stdout.splitlines()) == 1
    assert shown.stderr == ""


def test_an_ordinary_user_can_make_a_laboratory(
    as_ordinary_user: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    shown = as_ordinary_user(["python", "-c", MAKE_ONE])
    own = as_ordinary_user(["id", "-u"]).stdout.strip()
    assert own != "0"
    assert shown.stderr == ""
    # A command has no capabilities or, on request, CAP_NET_ADMIN and CAP_NET_RAW.
    assert shown.stdout.split() == [own, f"{0:016x}", f"{1 << 12 | 1 << 13:016x}"]


def test_an_ordinary_user_can_run_the_flagship_experiment(
    as_ordinary_user: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    for mode in ("live", "loopback"):
        run = ["tcplab", "run", "small-writes", "--messages", "3", "--json"]
        shown = as_ordinary_user(["env", f"TCPLAB_MODE={mode}", *run])
        assert shown.stderr == ""
        assert len(json.loads(shown.stdout)["rows"]) == 4
