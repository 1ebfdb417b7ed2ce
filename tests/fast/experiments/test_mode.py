"""An experiment runs live or on plain loopback, or replays a recording, and reports which."""

import enum
import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from tcplab import LabError
from tcplab.experiments import mode as modes
from tcplab.experiments import recordings, table
from tcplab.experiments.bottleneck.comparisons import Contest
from tcplab.experiments.bottleneck.sharing import Shared
from tcplab.experiments.buffers.windows import WindowEvent
from tcplab.experiments.declaration import experiment
from tcplab.models import Reason
from tcplab.programs import Event
from tcplab.tables import Column


@dataclass(frozen=True, slots=True)
class Made:
    """A result without measurements."""

    columns: ClassVar[Sequence[Column]] = (Column("variant", "variant"),)

    events: Sequence[Event]
    provenance: Mapping[str, Any]

    def rows(self) -> list[dict[str, Any]]:
        return [{"variant": event.name} for event in self.events]


# A recording may hold only classes of the package, so this class poses as one of them.
Made.__module__ = "tcplab.experiments.test_mode"

calls: list[Any] = []


@experiment("made", on_loopback=lambda size, **_: size < 10, figure=("size",))
def measure(size: int = 1, names: Sequence[str] = ("a", "b"), network: Any = None) -> Made:
    """Measure nothing.

    Args:
        size: of each event.
        names: of the events.
    """
    calls.append(size if network is None else network)
    origin = {"measured_at": "2026-01-02T03:04:05+00:00", "kernel": "6.18"}
    return Made([Event(size, name, 0) for name in names], origin)


@pytest.fixture(autouse=True)
def recorded_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    import sys

    monkeypatch.setitem(sys.modules, Made.__module__, sys.modules[__name__])
    monkeypatch.setattr(recordings, "DIRECTORY", tmp_path)
    monkeypatch.delenv("TCPLAB_MODE", raising=False)
    monkeypatch.delenv("TCPLAB_RECORD", raising=False)
    calls.clear()
    return tmp_path


def record(monkeypatch: pytest.MonkeyPatch, directory: Path, **arguments: Any) -> Made:
    monkeypatch.setenv("TCPLAB_MODE", "live")
    monkeypatch.setenv("TCPLAB_RECORD", str(directory))
    result = measure(**arguments)
    monkeypatch.delenv("TCPLAB_RECORD")
    calls.clear()
    return result


def test_the_same_call_is_found_again(monkeypatch: pytest.MonkeyPatch, recorded_here: Path) -> None:
    made = record(monkeypatch, recorded_here, names=["x"])
    monkeypatch.setenv("TCPLAB_MODE", "recorded")
    shown = measure(1, ("x",))  # the same arguments, written differently
    assert calls == []
    assert shown.events == made.events
    assert shown.provenance["recorded"]["why"] == "TCPLAB_MODE=recorded"
    assert "Recorded on 2026-01-02, Linux 6.18, not measured now" in str(table(shown))
    assert str(table(made)).startswith("variant")


def test_another_call_is_refused(monkeypatch: pytest.MonkeyPatch, recorded_here: Path) -> None:
    monkeypatch.setenv("TCPLAB_MODE", "recorded")
    with pytest.raises(LabError, match=r"there is no recording of made$"):
        measure(2)
    for arguments in ({"size": 9}, {"size": 3}, {"size": 4, "names": "xy"}):
        record(monkeypatch, recorded_here, **arguments)
    monkeypatch.setenv("TCPLAB_MODE", "recorded")
    with pytest.raises(
        LabError, match=r"no recording of made with size=2; the nearest has size=3$"
    ):
        measure(2)


def test_loopback_runs_what_it_can_and_shows_the_rest(
    monkeypatch: pytest.MonkeyPatch, recorded_here: Path
) -> None:
    record(monkeypatch, recorded_here, size=10)
    monkeypatch.setenv("TCPLAB_MODE", "loopback")
    assert "recorded" not in measure(9).provenance
    assert calls == [9]
    assert measure(10).provenance["recorded"]["why"] == modes.NOT_ON_LOOPBACK
    assert calls == [9]


def test_call_with_a_network_always_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCPLAB_MODE", "recorded")
    measure(3, network="a lab")
    assert calls == ["a lab"]


def test_without_namespaces_the_mode_is_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modes, "_why_no_lab", lambda: "blocked")
    assert modes.mode() == "loopback"
    monkeypatch.setattr(modes, "_why_no_lab", lambda: None)
    assert modes.mode() == "live"
    monkeypatch.setenv("TCPLAB_MODE", "fast")
    with pytest.raises(ValueError, match="TCPLAB_MODE 'fast' is not known; use one of live, loop"):
        measure()


# ---- the code ----


class Colour(enum.Enum):
    RED = "red"


@pytest.mark.parametrize(
    "value",
    [
        None,
        float("inf"),
        (1, (2, [3])),
        {1: "one", (2, 3): "two"},
        {"$": "not ours"},
        Reason.HELD_BY_NAGLE,
        [Event(1, "write", 2), Event(10**18, "read", -3)],
    ],
)
def test_a_value_is_the_same_after_it_was_recorded(value: Any) -> None:
    coded = json.loads(json.dumps(recordings.encode(value)))
    assert recordings.decode(coded) == value


def test_arrays_survive_encoding_and_decoding() -> None:
    for array in (np.zeros((0, 3), "i4"), np.array([(0.5, True, 2**63)], "f4,?,u8")):
        back = recordings.decode(json.loads(json.dumps(recordings.encode(array))))
        assert back.dtype == array.dtype
        assert np.array_equal(back, array)


def test_a_class_is_named_by_the_package_that_shows_it() -> None:
    """Earlier recordings must still load after a package has been split."""
    event = WindowEvent("still closed", 0.1, 0)
    assert type(event).__module__ == "tcplab.experiments.buffers.windows"
    assert recordings.encode(event)["$"] == "tcplab.experiments.buffers:WindowEvent"
    assert recordings.encode(Event(1, "write", 2))["$"] == "tcplab.programs:Event"


def test_a_class_is_found_by_its_former_name(monkeypatch: pytest.MonkeyPatch) -> None:
    coded = recordings.encode([Event(1, "write", 2)])
    monkeypatch.setitem(recordings.FORMER_NAMES, "tcplab.logs:Moment", coded[0]["$"])
    coded[0]["$"] = "tcplab.logs:Moment"
    assert recordings.decode(coded) == [Event(1, "write", 2)]


def test_a_quantity_that_is_now_computed_is_ignored() -> None:
    contest = Contest(Shared([], [], [], [1.0], [], []), "reno", 16)
    coded = recordings.encode(contest) | {"mbit": 9.0, "drops": 8}
    assert recordings.decode(coded) == contest
    assert recordings.decode([coded, coded])[1].drops == len(contest.run.drops_s) == 0


@pytest.mark.parametrize("value", [object(), Colour.RED, {1, 2}, np.array([object()])])
def test_a_value_that_no_recording_can_hold_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="cannot hold"):
        recordings.encode(value)


@pytest.mark.parametrize(
    "coded",
    [
        {"$": "subprocess:Popen", "args": "true"},
        {"$": "tcplab.lab:Lab"},
        {"$": "tcplab.programs:read_log", "path": "x"},
        {"$": "urllib.parse:DefragResult", "url": "", "fragment": ""},
        {"$": "tcplab.lab.lab:subprocess.Popen", "args": "true"},
        {"$": "tcplab.experiments:no such"},
        {"$": "code"},
    ],
)
def test_recording_that_names_no_data_class_is_refused(coded: Any) -> None:
    with pytest.raises(ValueError, match=r"class|kind"):
        recordings.decode(coded)


@pytest.mark.parametrize("damage", ["no archive", "{", "[]"])
def test_a_damaged_recording_says_so(
    damage: str, monkeypatch: pytest.MonkeyPatch, recorded_here: Path
) -> None:
    record(monkeypatch, recorded_here)
    (file,) = recorded_here.iterdir()
    if damage in ("{", "[]"):
        with zipfile.ZipFile(file) as archive:
            (member,) = archive.namelist()
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr(member, damage)
    else:
        file.write_text(damage)
    monkeypatch.setenv("TCPLAB_MODE", "recorded")
    with pytest.raises(ValueError, match=r"recordings of made in made\.zip are damaged"):
        measure()
