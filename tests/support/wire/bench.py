"""A wire between interfaces without an IP stack, so that the test sends every frame on it."""

import itertools
import json
import os
import select
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from tests.support.lifetime import until
from tests.support.wire.model import Settings
from tests.support.wire.recording import Packet, packets

from tcplab import Lab
from tcplab.lab.interfaces import OFFLOADS, Interfaces

ETH_P_ALL = 3
SOL_PACKET, PACKET_AUXDATA, PACKET_IGNORE_OUTGOING = 263, 8, 23
TP_STATUS_VLAN_VALID = 0x10

_numbers = itertools.count()


class WireError(Exception):
    """The wire answered a command with an error."""


@contextmanager
def stopped_wire(lab: Lab) -> Iterator[None]:
    """Stop the wire's process while the body of a with statement runs."""
    assert lab._wire is not None
    pid = lab._wire.pid
    for _ in range(2):  # the wire is a grandchild of lab_exec, below its guard
        pid = int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])
    os.kill(pid, signal.SIGSTOP)
    try:
        until(lambda: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


class End:
    """The far end of one of the wire's interfaces, which stands in for a host."""

    def __init__(self, lab: Lab, name: str) -> None:
        self.name = name
        self._socket = lab.client.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self._socket.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        self._socket.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        self._socket.bind((name, ETH_P_ALL))

    def send(self, *frames: bytes) -> None:
        for frame in frames:
            self._socket.send(frame)

    def receive(self, count: int, seconds: float = 10.0) -> list[bytes]:
        """Return the next `count` frames, or fewer if they do not arrive in time.

        The kernel delivers VLAN tags separately; they are put back into the frames.
        """
        frames: list[bytes] = []
        deadline = time.monotonic() + seconds
        while len(frames) < count:
            left = max(0.0, deadline - time.monotonic())
            if not select.select([self._socket], [], [], left)[0]:
                break
            frame, control, *_ = self._socket.recvmsg(1 << 17, 256)
            status, *_, tag, kind = struct.unpack("IIIHHHH", control[0][2])
            if status & TP_STATUS_VLAN_VALID:
                frame = frame[:12] + struct.pack(">HH", kind, tag) + frame[12:]
            frames.append(frame)
        return frames

    def close(self) -> None:
        self._socket.close()


class Bench:
    """Another wire process, between veth pairs in the client's namespace.

    Args:
        lab: the laboratory, whose client's namespace holds the wire.
        sides: how many interfaces the link's sides a and b have.
        mtu: the MTU of all interfaces.
        offloads: leave TSO and checksum offload on.
        options: more arguments for the program.
        program: the executable; the package's own if not given.
        env: additional environment variables.
    """

    def __init__(
        self,
        lab: Lab,
        sides: tuple[int, int] = (1, 1),
        *,
        mtu: int = 1500,
        offloads: bool = False,
        options: Sequence[str] = (),
        program: str | Path = "wire",
        env: dict[str, str] | None = None,
    ) -> None:
        self._lab = lab
        self.ends: list[End] = []
        self.interfaces: list[str] = []
        names = [self._add_interface(mtu, offloads) for _ in range(sum(sides))]
        ends = ",".join(names[: sides[0]]) + ":" + ",".join(names[sides[0] :])
        self.process = lab.client.start(
            [program, *options, ends],
            privileged=True,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.ready: dict[str, Any] = self.answer()

    def _add_interface(self, mtu: int, offloads: bool) -> str:
        """Add a veth pair, with one end for the wire and the other in `self.ends`."""
        number = next(_numbers)
        ours, theirs = f"end{number}", f"wire{number}"

        def configure(ip: Any) -> None:
            ip.link("add", kind="veth", ifname=ours, mtu=mtu, peer={"ifname": theirs, "mtu": mtu})
            for name in (ours, theirs):
                ip.link("set", index=ip.link_lookup(ifname=name)[0], state="up")

        self.netlink(configure)
        if not offloads:
            with Interfaces(self._lab.client.socket) as client:
                client.set_offloads(theirs, OFFLOADS, on=False)
        self.ends.append(End(self._lab, ours))
        self.interfaces.append(theirs)
        return theirs

    def netlink(self, work: Callable[[Any], None]) -> None:
        """Run `work` on a pyroute2.IPRoute of the namespace."""
        from pyroute2 import IPRoute

        route = self._lab.client.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, 0)
        with route, IPRoute(fileno=route.detach()) as ip:
            work(ip)

    def set_link(self, name: str, **what: str | int) -> None:
        self.netlink(lambda ip: ip.link("set", index=ip.link_lookup(ifname=name)[0], **what))

    def delete(self, name: str) -> None:
        self.netlink(lambda ip: ip.link("del", index=ip.link_lookup(ifname=name)[0]))

    def command(self, line: str) -> dict[str, Any]:
        """Send a command; return the wire's answer.

        Raises:
            WireError: if the answer is an error, with its text.
        """
        self.write(line + "\n")
        return self.answer()

    def write(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text)
        self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """Return the wire's next answer; raise WireError if it is an error."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the wire ended with {self.process.wait(10)}: {self.last_words()}"
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise WireError(answer["error"])
        return answer

    def last_words(self) -> str:
        """Return what an ended wire wrote to standard error."""
        assert self.process.stderr is not None
        return str(self.process.stderr.read())

    def end_input(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def set(self, direction: str = "both", **values: object) -> None:
        settings = " ".join(f"{key}={value}" for key, value in values.items())
        self.command(f"set {direction} {settings}")

    def use(self, settings: Settings, direction: str = "both") -> None:
        """Set all parameters, restart the random sequence, and replace the script."""
        self.command(f"script {direction} clear")
        for action, every in (
            ("duplicate", settings.duplicate_every),
            ("hold", settings.hold_every),
        ):
            if every:
                self.command(f"script {direction} {action} any every={every}")
        self.set(direction, **settings.keys())

    def counters(self) -> dict[str, Any]:
        """Return the counters of both directions, "ab" and "ba"."""
        counted = self.command("counters")
        return {direction: counted[direction] for direction in ("ab", "ba")}

    def is_empty(self) -> bool:
        return all(
            way["queue_packets"] == way["line_packets"] == 0 for way in self.counters().values()
        )

    def wait_until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 20
        while not condition():
            assert time.monotonic() < deadline, self.command("counters")
            time.sleep(0.002)

    def arrived(self) -> int:
        """Count the frames since the last reset, including those dropped."""
        ways = self.counters().values()
        return sum(way["packets_in"] + way["dropped"]["ring"] for way in ways)

    def drain(self, count: int) -> None:
        """Wait until `count` frames have come in since the last reset, and all have left."""
        self.wait_until(lambda: self.arrived() >= count)
        self.wait_until(self.is_empty)

    def settle(self) -> None:
        """Wait until no more frames arrive and all have left. Their number may be unknown."""
        before = -1
        while (now := self.arrived()) != before:
            before = now
            time.sleep(0.05)
        self.wait_until(self.is_empty)

    def record(self, path: Path, work: Callable[[], int], snaplen: int = 128) -> list[Packet]:
        """Record while `work` sends frames and returns their number; return the packets."""
        self.command("reset")
        self.command(f"capture {snaplen} {path}")
        self.drain(work())
        answer = self.command("capture off")
        recorded = packets(path)
        assert len(recorded) == answer["packets"]
        return recorded

    def close(self) -> None:
        for end in self.ends:
            end.close()
        if self.process.poll() is None:
            self.end_input()
            self.process.wait(10)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
