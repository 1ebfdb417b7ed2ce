"""Other programs read what the recorder writes."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.lab.capture.test_recording import opened, send

from tcplab import Lab
from tcplab.capture import record

pytestmark = pytest.mark.needs_lab


@pytest.fixture
def lab() -> Iterator[Lab]:
    with Lab() as made:
        yield made


def test_tshark_reads_a_stream(lab: Lab, tool: Callable[[str], str]) -> None:
    tshark = tool("tshark")
    recorder = lab.client.start(
        ["capture", "eth0"],
        privileged=True,
        text=False,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
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
    out, _ = reader.communicate(timeout=60)  # the stream flows while the recording goes on
    opened(recorder.stdin).close()
    words = opened(recorder.stderr).read().decode()
    assert recorder.wait(timeout=20) in (0, 1)  # 1 when tshark went first: EPIPE, said in one line
    opened(recorder.stderr).close()
    assert 1 <= len(out.split()) <= 3
    assert set(out.split()) == {"9"}
    assert len(words.splitlines()) == 1


def test_capinfos_sees_the_counts(lab: Lab, tool: Callable[[str], str], tmp_path: Path) -> None:
    capinfos = tool("capinfos")
    with record(lab.client) as capture:
        send(lab.client, 7)
    done = subprocess.run(
        [capinfos, str(capture.save(tmp_path / "x.pcapng"))],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "nanoseconds (9)" in done.stdout
    assert "Strict time order:   True" in done.stdout
    assert "Name = eth0" in done.stdout
    assert f"Number of packets = {len(capture)}" in done.stdout
