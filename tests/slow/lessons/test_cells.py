"""The cells that use scapy show the right sizes."""

import linecache
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest
from tests.support.lessons import BY_SLUG, imports
from tests.support.nonempty import each
from tests.support.wireshark import dissect

from tcplab import Lab, experiments
from tcplab.capture import Sniffed

LESSONS = [path for slug, path in BY_SLUG.items() if slug != "the-lab"]


def run_scapy_cells(lesson: Path) -> dict[str, Any]:
    """Run the cells that use scapy, with readable source as in IPython; return their namespace."""
    namespace = imports(lesson) | {"predictions": SimpleNamespace(compare=lambda _measured: None)}
    notebook = nbformat.read(lesson, as_version=4)
    for cell in each(c for c in notebook.cells if "scapy" in c.metadata.get("tags", ())):
        name = f"<{lesson.stem}:{cell.id}>"
        linecache.cache[name] = (len(cell.source), None, cell.source.splitlines(True), name)
        exec(compile(cell.source, name, "exec"), namespace)
    return namespace


def parts(value: Any) -> Iterator[Any]:
    """Yield the packets and the sniffers' counts in the result of a lesson's function."""
    if isinstance(value, Sniffed):
        yield value
        yield from value.packets
    elif type(value).__name__ == "PacketList":
        yield from value
    elif isinstance(value, dict | list | tuple):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from parts(inner)


def payload_bytes(packet: Any) -> int:
    """Return the payload's size from the headers, since the recorder may have kept only them."""
    ip, tcp = packet["IP"], packet["TCP"]
    return int(ip.len) - 4 * int(ip.ihl) - 4 * int(tcp.dataofs)


@pytest.mark.needs_lab
@pytest.mark.parametrize("lesson", LESSONS, ids=lambda path: path.stem)
def test_scapys_segment_sizes_match_the_recorder_and_tshark(
    lesson: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tool: Any
) -> None:
    tool("tshark")
    calls = []

    def beside_a_recorder(lines: Any, **parameters: Any) -> Any:
        with Lab(**parameters) as lab:
            with lab.client.capture() as capture:
                value = lines(lab)
            path = capture.save(tmp_path / f"{lines.__name__}.pcapng")
        rows = capture.segments[capture.segments["protocol"] == 6]
        recorded = Counter(map(int, rows["payload_bytes"]))
        assert capture.drops == 0
        assert Counter(dissect(path)["payload_bytes"].tolist()) == recorded
        packets = [part for part in parts(value) if not isinstance(part, Sniffed)]
        segments = [packet for packet in packets if "TCP" in packet]
        assert Counter(map(payload_bytes, segments)) <= recorded
        for packet in segments:
            if len(packet) == packet.wirelen:  # the whole packet was kept
                assert len(packet["TCP"].payload) == payload_bytes(packet)
        assert all(part.drops == 0 for part in parts(value) if isinstance(part, Sniffed))
        calls.append(lines.__name__)
        return value

    monkeypatch.setattr(experiments, "on_lab", beside_a_recorder)
    run_scapy_cells(lesson)
    assert calls
