import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tcplab.experiments import (
    buffers,
    cork,
    maxseg,
    mtu,
    sendfile,
    short_transfer,
    table,
    udp_receive_buffers,
)
from tcplab.experiments.provenance import disturbance, warning


@pytest.mark.parametrize(
    ("measure", "disturbed", "affected"),
    [
        (cork.measure, {"wire_late_max_ms": 5}, ""),
        (cork.measure, {"wire_late_max_ms": 9}, "a packet left .* 9 ms late.* not rely on times$"),
        (cork.measure, {"cpu_pressure": 0.9}, "during 90% of the run.* not rely on times$"),
        (cork.measure, {"wire_missed": 1}, "do not conclude from this run$"),
        (cork.measure_forgotten, {"cpu_pressure": 0.9, "wire_late_max_ms": 30}, ""),
        (cork.measure_forgotten, {"wire_late_max_ms": 60}, "times$"),
        (sendfile.measure_wire, {"wire_late_max_ms": 9}, ""),  # its CPU times are not affected
        (buffers.measure, {"wire_late_max_ms": 40}, ""),
        (buffers.measure, {"wire_late_max_ms": 60}, "not rely on rates$"),
        (buffers.measure_grants, {"cpu_pressure": 0.9}, "not rely on windows$"),
        # The 64 clients wait for each other.
        (sendfile.measure_clients, {"cpu_pressure": 0.9, "cpu_others": 0.05}, ""),
        (sendfile.measure_clients, {"cpu_pressure": 0.9, "cpu_others": 0.2}, "times and rates$"),
        (short_transfer.measure_windows, {"cpu_pressure": 0.4}, " 40% .* on times and windows$"),
        (maxseg.measure, {"cpu_pressure": 1.0, "wire_late_max_ms": 300}, ""),  # has only sizes
        (mtu.measure, {"cpu_pressure": 0.9, "wire_packets": 0}, "times and rates$"),
        (udp_receive_buffers.measure, {"cpu_pressure": 0.9, "wire_packets": 0}, "losses$"),
    ],
)
def test_affected_numbers_are_named(
    measure: Callable[[], Any], disturbed: dict[str, float], affected: str
) -> None:
    found = dict.fromkeys(("wire_missed", "wire_late_p99_ms", "wire_late_max_ms"), 0.0)
    found |= {"wire_packets": 9, "cpu_others": 0.5}
    recording = measure()
    live = {**recording.provenance, **found, **disturbed, "recorded": None}
    said = warning(replace(recording, provenance=live))
    assert re.search(affected or "^$", said)
    for origin, caption in ((live, said[1:]), (recording.provenance, "")):
        shown = replace(recording, provenance={**origin, "disturbed": said})
        assert ("machine was busy" in table(shown).caption) == bool(caption)
        assert caption in table(shown).caption


def test_a_kernel_without_pressure_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "read_text", lambda _path: (_ for _ in ()).throw(OSError))
    with disturbance(None) as found:
        pass
    assert "cpu_pressure" not in found
    assert found["wire_late_max_ms"] == 0
