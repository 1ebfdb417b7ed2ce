"""A recording reports its start, counts any loss, and leaves nothing behind."""

import contextlib
import fcntl
import gc
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest
from tests.support.commands import completed
from tests.support.lifetime import descendants, until
from tests.support.nonempty import each
from tests.support.ordinary_user import Run
from tests.support.segments.captures import SINK

from tcplab import Host, Lab, LabError
from tcplab.capture import open_capture, record
from tcplab.errors import CaptureError
from tcplab.lab import program_path
from tcplab.segments.pcap import CaptureLossWarning

pytestmark = pytest.mark.needs_lab

SIOCSIFFLAGS, SIOCSIFMTU = 0x8914, 0x8922


def send(host: Host, count: int, *, size: int = 58, port: int = 9, to: str = "10.0.0.2") -> None:
    """Send datagrams to a port without a listener; their first 4 bytes number them."""
    with host.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 0)
        for number in range(count):
            # A returned "port unreachable" message makes a send fail only on a connected socket.
            s.sendto(struct.pack(">I", number) + bytes(size - 4), (to, port))


@contextlib.contextmanager
def arrival(lab: Lab, count: int) -> Iterator[None]:
    """Wait at the end of the with statement until the server has received `count` datagrams."""
    with lab.server.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind((lab.server.address, 9))
        yield
        for _ in range(count):
            s.recv(2000)


def opened(stream: IO[Any] | None) -> IO[Any]:
    assert stream is not None
    return stream


def recording(lab: Lab) -> subprocess.Popen[bytes]:
    """Start the recorder's program on the client, with a pipe for each of its streams."""
    pipes: dict[str, Any] = dict.fromkeys(["stdin", "stdout", "stderr"], subprocess.PIPE)
    return lab.client.start(["capture", "eth0"], privileged=True, text=False, **pipes)


# ---- nothing is missing ----


def test_it_listens_before_the_body_starts_and_has_all_at_its_end(lab: Lab) -> None:
    for _ in range(5):
        with record(lab.client) as capture:
            send(lab.client, 50)
        sent = capture.segments[capture.segments["dst_port"] == 9]
        assert len(sent) == 50
        assert capture.drops == 0
        assert capture.table.interfaces[0].received == len(capture)


def test_a_burst_is_recorded_completely_and_in_order(lab: Lab) -> None:
    with record(lab.client) as capture:
        send(lab.client, 20_000)
    rows = capture.segments[capture.segments["dst_port"] == 9]
    assert len(rows) == 20_000
    table = capture.table
    at = table.offset[rows["packet"]] + 14 + 20 + 8
    numbers = [struct.unpack_from(">I", table.data, place)[0] for place in at.tolist()]
    assert numbers == list(range(20_000))
    assert (np.diff(rows["time_ns"]) >= 0).all()


def test_loopback_packets_are_counted_once(lab: Lab) -> None:
    with record(lab.client, interface="lo") as capture:
        send(lab.client, 300, to="127.0.0.1")
    rows = capture.segments
    assert (rows["dst_port"] == 9).sum() == 300
    assert set(rows["outbound"].tolist()) == {1}


def test_each_packet_knows_which_way_it_went(lab: Lab) -> None:
    with record(lab.client) as left, record(lab.server) as right, arrival(lab, 10):
        send(lab.client, 10)
    assert left.segments["outbound"].tolist() == [1] * 10
    assert right.segments["outbound"].tolist() == [0] * 10
    assert left.table.interfaces[0].name == "eth0"


def test_the_snaplen_cuts_the_packet_and_keeps_its_length(lab: Lab) -> None:
    with lab.client.capture(snaplen=60) as capture:
        send(lab.client, 1, size=1000)
    (row,) = capture.segments[capture.segments["dst_port"] == 9]
    assert row["wire_bytes"] == 1042
    assert row["payload_bytes"] == 1000
    assert capture.table.captured_bytes[row["packet"]] == 60
    assert capture.packets()[int(row["packet"])].wirelen == 1042


def test_super_segments_are_kept_whole() -> None:
    with Lab() as lab:
        with lab.client.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            fcntl.ioctl(s, SIOCSIFMTU, struct.pack("16si20x", b"lo", 1500))
        server = lab.client.start([sys.executable, "-c", SINK], stdout=subprocess.PIPE)
        opened(server.stdout).readline()
        with record(lab.client, interface="lo", snaplen=262144) as capture:
            talk = "import socket; s = socket.create_connection(('127.0.0.1', 7000))\n"
            talk += "s.sendall(bytes(2_000_000)); s.shutdown(1); s.recv(1)"
            lab.client.run([sys.executable, "-c", talk])
        server.kill()
        server.communicate()
    data = capture.segments.data(retransmissions=False)
    assert int(data["payload_bytes"].sum()) == 2_000_000
    longest = data[data["payload_bytes"].argmax()]
    assert longest["wire_bytes"] > 1514
    assert longest["gso_count"] == -(-int(longest["payload_bytes"]) // 1448)
    captured = capture.table.captured_bytes[longest["packet"]]
    assert captured == longest["wire_bytes"]


def test_packets_that_the_recorder_lost_are_counted_and_reported(lab: Lab) -> None:
    recording = record(lab.client, snaplen=1500, ring_mib=1)
    capture = recording.__enter__()
    (pid,) = recorders()
    os.kill(pid, signal.SIGSTOP)
    send(lab.client, 3000, size=1000)
    os.kill(pid, signal.SIGCONT)
    with pytest.warns(CaptureLossWarning, match=r"^\d+ packets are missing from the capture"):
        recording.__exit__(None, None, None)
    assert capture.drops is not None
    assert 0 < capture.drops < 3000
    received = capture.table.interfaces[0].received
    assert received == len(capture) + capture.drops >= 3000
    assert f"drops: {capture.drops}" in repr(capture)
    copy = capture.save(Path(tempfile.mkdtemp()) / "lossy.pcapng")
    with pytest.warns(CaptureLossWarning):
        open_capture(copy)
    copy.unlink()
    copy.parent.rmdir()


def recorders() -> list[int]:
    """Return the PIDs of this process's recorders, which are a few generations below it."""
    found = []
    for pid in descendants(os.getpid()):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # the process has ended
            if Path(f"/proc/{pid}/comm").read_text().strip() == "capture":
                found.append(pid)
    return found


# ---- beginnings and ends ----


def test_a_recording_holds_no_packets_before_its_end(lab: Lab) -> None:
    with record(lab.client) as capture:
        with pytest.raises(CaptureError, match="the recording is still running"):
            len(capture)
        with pytest.raises(CaptureError, match="the recording is still running"):
            capture.save("nowhere")
        assert "still running" in repr(capture)
        send(lab.client, 3)
    assert len(capture.segments) == 3


def test_an_error_in_the_body_is_not_hidden_and_ends_the_recording(lab: Lab) -> None:
    with pytest.raises(ZeroDivisionError), record(lab.client) as capture:
        _ = 1 // 0
    assert recorders() == []
    assert len(capture.segments) == 0


def test_no_file_is_left_even_while_recording(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as directory:
        monkeypatch.setattr(tempfile, "tempdir", directory)
        with record(lab.client) as capture:
            send(lab.client, 3)
            assert list(Path(directory).iterdir()) == []
        path = capture.path
        assert len(open_capture(path)) == len(capture)
        gone = weakref.ref(capture)
        del capture
        gc.collect()
        assert gone() is None
        assert not path.exists()


def test_a_laboratory_closed_meanwhile_is_an_error_in_one_line() -> None:
    lab = Lab()
    with (
        pytest.raises(CaptureError, match="the recording failed: ended by signal 9") as caught,
        record(lab.client),
    ):
        lab.close()
    assert "\n" not in str(caught.value)


def test_an_interface_that_goes_down_is_reported_and_the_file_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "down.pcapng"
    with Lab() as lab:
        recorder = start_capture(lab, path, "eth0")
        send(lab.client, 5)
        with lab.client.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            fcntl.ioctl(s, SIOCSIFFLAGS, struct.pack("16sH22x", b"eth0", 0))
        last, failure = recorder.communicate(timeout=20)[1].splitlines()
    assert recorder.returncode == 1
    packets = json.loads(last)["packets"]
    assert f"eth0: the interface went down after {packets} packets; the file holds them" in failure
    capture = open_capture(path)
    assert len(capture) == packets
    assert len(capture.segments) == 5


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_recorder_ends_by_a_signal_as_by_the_end_of_its_input(
    lab: Lab, tmp_path: Path, number: signal.Signals
) -> None:
    path = tmp_path / "x.pcapng"
    recorder = start_capture(lab, path, "eth0")
    send(lab.client, 100)
    recorder.send_signal(number)
    _, last = recorder.communicate(timeout=20)
    assert recorder.returncode == 0
    capture = open_capture(path)
    count = len(capture)
    assert json.loads(last) == {"packets": count, "received": count, "drops": 0}
    assert len(capture.segments) == 100


def start_capture(lab: Lab, path: Path, *arguments: str) -> subprocess.Popen[str]:
    with path.open("wb") as file:
        recorder = lab.client.start(
            ["capture", *arguments],
            privileged=True,
            stdin=subprocess.PIPE,
            stdout=file,
            stderr=subprocess.PIPE,
        )
    assert json.loads(opened(recorder.stderr).readline()) == {"listening": True}
    return recorder


def test_the_file_grows_while_it_records(lab: Lab, tmp_path: Path) -> None:
    path = tmp_path / "x.pcapng"
    recorder = start_capture(lab, path, "--snaplen=100", "eth0")
    send(lab.client, 1)
    assert until(lambda: len(open_capture(path).segments)) == 1
    recorder.communicate("", timeout=20)


# ---- what can't be done ----


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"snaplen": 0}, "--snaplen: 0 is outside 1 to 262144"),
        ({"snaplen": 262145}, "--snaplen: 262145 is outside 1 to 262144"),
        ({"ring_mib": 4096}, "--ring-mib: 4096 is outside 1 to 1024"),
        ({"interface": "eth9"}, "interface eth9: ENODEV"),
    ],
)
def test_a_mistake_is_one_line(lab: Lab, options: dict[str, object], message: str) -> None:
    with (
        pytest.raises(CaptureError, match=message) as caught,
        record(lab.client, **options),  # type: ignore[arg-type]
    ):
        pass
    assert "\n" not in str(caught.value)


def test_a_full_disk_during_the_recording_is_reported(lab: Lab) -> None:
    """Use a pipe that loses its reader, because with /dev/full even the first write would fail."""
    recorder = recording(lab)
    opened(recorder.stderr).readline()
    opened(recorder.stdout).close()
    send(lab.client, 10)
    assert recorder.wait(timeout=20) == 1
    assert opened(recorder.stderr).read() == b"capture: writing the recording: EPIPE: Broken pipe\n"
    opened(recorder.stderr).close()
    opened(recorder.stdin).close()


def test_without_the_right_to_record_it_says_which(as_ordinary_user: Run) -> None:
    done = as_ordinary_user([str(program_path("capture")), "lo"])
    assert done.returncode == 1
    assert done.stderr == "capture: recording needs CAP_NET_RAW in this network namespace\n"


def test_the_recorder_dies_with_its_owner() -> None:
    """After SIGKILL to Python, the recorder's standard input ends, and so does the recorder."""
    script = (
        "import os, signal\n"
        "from tcplab import Lab\n"
        "from tcplab.capture import record\n"
        "lab = Lab()\n"
        "with record(lab.client):\n"
        "    for process in lab._processes: print(process.pid, flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = completed([sys.executable, "-c", script])
    pid = int(done.stdout)
    until(lambda: not Path(f"/proc/{pid}").exists())


def test_a_closed_laboratory_cannot_record() -> None:
    lab = Lab()
    lab.close()
    with pytest.raises(LabError, match="closed"), record(lab.client):
        pass


def test_threads_can_record_at_the_same_time(lab: Lab) -> None:
    """A notebook may run an experiment in one thread and record in another."""
    captures = []

    def body() -> None:
        with record(lab.client, ring_mib=2) as capture:
            send(lab.client, 5, port=90)
        captures.append(capture)

    threads = [threading.Thread(target=body) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(captures) == 3
    assert all(len(capture.segments) >= 5 for capture in each(captures))
