"""The beginning in scapy that a problem set shows leads to what its judge counts."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.grading.conftest import ROOT
from tests.nonempty import each

from tcplab.capture import open_capture
from tcplab.segments import from_file

SETS = each(sorted(path.name for path in ROOT.glob("solutions/ps*")))


def shown_lines(name: str) -> str:
    """The indented lines of scapy in the question about the capture."""
    notebook = json.loads((ROOT / f"exercises/{name}/{name}.ipynb").read_text())
    (text,) = [
        "".join(cell["source"]) for cell in notebook["cells"] if cell["id"] == f"{name}-q4-text"
    ]
    return "\n".join(re.findall(r"^    (.+)$", text, re.M))


def captures_of(name: str) -> list[Path]:
    return each(sorted((ROOT / f"exercises/{name}/captures").glob("*.pcapng"))[:5])


@pytest.mark.parametrize("name", [name for name in SETS if name != "ps2"])
def test_the_lines_of_a_set_see_what_the_segments_tell(name: str) -> None:
    for capture in captures_of(name):
        seen: dict[str, Any] = {"open_capture": open_capture}
        seen["n"] = {"capture": str(capture), "captures": [str(capture)]}
        exec(shown_lines(name), seen)
        rows = from_file(capture)
        told = rows.sent_by("server") if name == "ps4" else rows.sent_by("client")
        assert len(seen["sent"]) == len(told)
        if "sizes" in seen:
            assert seen["sizes"] == told["payload_bytes"].tolist()
        if "syns" in seen:
            announced = [dict(syn["TCP"].options)["MSS"] for syn in seen["syns"]]
            assert announced == rows[rows.is_syn]["mss"].tolist()
        if "windows" in seen:
            scale = dict(seen["sent"][0]["TCP"].options)["WScale"]
            scaled = [window << scale for window in seen["windows"][1:]]
            assert scaled == told[~told.is_syn]["window"].tolist()


def test_the_lines_of_set_2_read_each_datagram() -> None:
    (capture, *_rest) = captures_of("ps2")
    seen: dict[str, Any] = {"n": {"capture": str(capture)}, "i": 0}
    exec(shown_lines("ps2"), seen)
    assert seen["kind"] in (b"data", b"end.", b"done")
