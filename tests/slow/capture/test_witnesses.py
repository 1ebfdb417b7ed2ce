"""Other programs read the recordings of the recorder and of the wire."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.lab.capture.test_recording import opened, recording, send
from tests.support.commands import completed
from tests.support.wire.bench import Bench
from tests.support.wire.frames import numbered

from tcplab import Lab
from tcplab.capture import record

pytestmark = pytest.mark.needs_lab


def test_tshark_reads_a_recording_while_it_runs(lab: Lab, tool: Callable[[str], str]) -> None:
    tshark = tool("tshark")
    recorder = recording(lab)
    assert "listening" in json.loads(opened(recorder.stderr).readline())
    reader = subprocess.Popen(
        [
            tshark,
            *("-n", "-l", "-i", "-", "-c", "3", "-T", "fields", "-e", "udp.dstport"),
            *("-Y", "udp.dstport == 9 && !icmp"),
        ],
        stdin=recorder.stdout,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    opened(recorder.stdout).close()
    send(lab.client, 200)
    out, _ = reader.communicate(timeout=60)  # packets are streamed during the recording
    opened(recorder.stdin).close()
    report = opened(recorder.stderr).read().decode()
    assert recorder.wait(timeout=20) in (0, 1)  # 1 for EPIPE, if tshark ended first
    opened(recorder.stderr).close()
    assert 1 <= len(out.split()) <= 3
    assert set(out.split()) == {"9"}
    assert len(report.splitlines()) == 1


def test_capinfos_confirms_packet_count_and_time_order(
    lab: Lab, tool: Callable[[str], str], tmp_path: Path
) -> None:
    capinfos = tool("capinfos")
    with record(lab.client) as capture:
        send(lab.client, 7)
    done = completed([capinfos, str(capture.save(tmp_path / "x.pcapng"))], check=True)
    assert "nanoseconds (9)" in done.stdout
    assert "Strict time order:   True" in done.stdout
    assert "Name = eth0" in done.stdout
    assert f"Number of packets = {len(capture)}" in done.stdout


def test_tshark_reads_wire_recordings(lab: Lab, tmp_path: Path, tool: Callable[[str], str]) -> None:
    tshark = tool("tshark")
    path = tmp_path / "read me.pcapng"
    with Bench(lab) as bench:
        bench.set(loss=0.5)

        def work() -> int:
            bench.ends[0].send(*[numbered(100, number) for number in range(20)])
            return 20

        recorded = bench.record(path, work)
    fields = ["frame.interface_id", "frame.time_epoch", "frame.packet_id", "frame.comment"]
    shown = completed(
        [tshark, "-n", "-r", path, "-T", "fields", *(w for f in fields for w in ("-e", f))],
        check=True,
    )
    complaints = [line for line in shown.stderr.splitlines() if "Running as user" not in line]
    assert complaints == []
    lines = [line.split("\t") for line in shown.stdout.splitlines()]
    # Versions of tshark show the packet id differently.
    assert [(side, time, comment) for side, time, _, comment in lines] == [
        (str(p.side), f"{p.time_ns // 10**9}.{p.time_ns % 10**9:09}", p.comment) for p in recorded
    ]
