"""MTU and MSS: the shape of the results, bad input, the command line. Facts: tests/lessons."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tcplab.experiments import as_json, mtu, path_mtu, recordings, table


@pytest.fixture(scope="module")
def one() -> mtu.Mtu:
    return mtu.measure([1500], [True, False], runs=1, wire_mtus=[1500], rate_mbit=500)


def test_rows_of_loopback_and_wire(one: mtu.Mtu) -> None:
    assert [row["variant"] for row in one.rows()] == [
        "loopback 1500, offload on",
        "loopback 1500, offload off",
        "wire 1500",
    ]
    loopback, wire = one.tables()
    assert len(loopback.rows) == 2
    assert "derived" in wire.text()
    assert "CPU s/GB" in loopback.text()
    assert "CPU s/GB" not in wire.text()
    assert one.of(1500, offload=True).offload
    with pytest.raises(KeyError):
        one.of(9000, offload=True)


def test_json_provenance_and_recording(one: mtu.Mtu) -> None:
    data = json.loads(as_json(one))
    assert data["experiment"] == "mtu"
    assert data["provenance"]["capture_drops"] == 0
    assert data["provenance"]["runs"] == 1
    assert data["provenance"]["bytes_per_run"] == 64 << 20
    again = recordings.decode(recordings.encode(one))
    assert table(again).text() == table(one).text()
    assert (again.loopback[0].captured_bytes == one.loopback[0].captured_bytes).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mtu.measure([100]), "mtus=100 must be a whole number from 128 to 65536"),
        (lambda: mtu.measure([]), "mtus is empty"),
        (lambda: mtu.measure([576, 576]), "mtus: 576 is given twice"),
        (lambda: mtu.measure(offloads=[]), "offloads is empty"),
        (lambda: mtu.measure(runs=0), "runs=0 must be"),
        (lambda: mtu.measure(wire_mtus=[9001]), "wire_mtus=9001 must be"),
        (lambda: mtu.measure(rate_mbit=0), "rate_mbit=0 must be a number from 1 to 1000"),
        (lambda: path_mtu.measure(1500), "path_mtu=1500 must be a whole number from 576 to 1499"),
        (
            lambda: path_mtu.measure(variants=["magic"]),  # type: ignore[list-item]
            "variants='magic' is not known; use one of ICMP",
        ),
        (lambda: path_mtu.measure(variants=[]), "variants is empty"),
        (lambda: path_mtu.measure(maxseg_bytes=1461), "maxseg_bytes=1461 must be"),
    ],
)
def test_bad_values_are_named(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_a_wish_that_is_too_large_for_the_path_does_not_help() -> None:
    case = path_mtu.measure(1420, ["TCP_MAXSEG"], maxseg_bytes=1381)["TCP_MAXSEG"]
    assert not case.finished
    assert case.largest_packet_bytes == 1421
    assert "progress" in case.complaint
