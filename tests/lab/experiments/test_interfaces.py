"""Interfaces: what the kernel says of them, and what other experiments change about them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.nonempty import each as nonempty

from tcplab import Lab, LabError, Loopback
from tcplab.cli import main
from tcplab.experiments import as_json, interfaces, recordings, routes, table
from tcplab.experiments.interface_settings import set_mtu
from tcplab.experiments.lab_loopback import LabLoopback


@pytest.fixture(scope="module")
def lab() -> interfaces.Interfaces:
    return interfaces.measure()


def test_published_hosts_and_machine(lab: interfaces.Interfaces) -> None:
    hosts = list(dict.fromkeys(each.host for each in lab.variants))
    assert hosts == ["bsd (published)", "client", "server", "the machine"]
    assert [each.mtu_bytes for each in lab.of("bsd (published)")] == [1500, 16384]
    lo, eth = lab.of("client")
    assert (lo.name, lo.kind, lo.address) == ("lo", "loopback", "127.0.0.1")
    assert (eth.name, eth.kind, eth.mtu_bytes) == ("eth0", "veth", 1500)
    assert (eth.network, eth.address, eth.mss_bytes) == ("10.0.0.0/24", "10.0.0.1", 1448)


def test_machine_shows_names_mtus_and_kinds_only(lab: interfaces.Interfaces) -> None:
    machine = lab.of("the machine")
    assert {each.name for each in machine} == {
        path.name for path in Path("/sys/class/net").iterdir() if path.is_dir()
    }
    for each in nonempty(machine):
        assert each.address is each.network is None
        assert each.mtu_bytes == int(Path(f"/sys/class/net/{each.name}/mtu").read_text())


def test_an_own_address_leads_through_loopback() -> None:
    seen = routes.measure()
    assert {each.to: each.interface for each in seen.variants} == {
        "localhost": "lo",
        "its own address": "lo",
        "the other host": "eth0",
    }
    assert seen["its own address"].announced_mss_bytes == 65_495
    assert seen["the other host"].announced_mss_bytes == 1460
    assert "its own address" in table(seen).text()


def test_json_table_and_recording(lab: interfaces.Interfaces) -> None:
    data = json.loads(as_json(lab))
    assert data["experiment"] == "interfaces"
    assert {"variant", "host", "name", "mtu_bytes", "mss_bytes", "kind"} <= set(data["rows"][0])
    assert "16384" in table(lab).text()
    assert recordings.decode(recordings.encode(lab)) == lab


def test_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "routes", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["variant"] for row in rows] == ["localhost", "its own address", "the other host"]
    assert main(["run", "interfaces"]) == 0
    assert "bsd (published)" in capsys.readouterr().out


def test_on_plain_loopback_there_is_the_machine() -> None:
    with Loopback() as network:
        seen = interfaces.measure(network)
        assert [each.to for each in routes.measure(network).variants] == ["localhost"]
    assert not seen.of("client")
    assert [each.kind for each in seen.of("the machine")].count("loopback") == 1


def test_mtu_is_set_or_the_reason_reported() -> None:
    with Lab() as lab:
        localhost = LabLoopback(lab)
        set_mtu(localhost.client, 16384)
        set_mtu(lab.server, 1400)
        seen = interfaces.measure(lab)
        assert [each.mtu_bytes for each in seen.of("client")] == [16384, 1500]
        assert [each.mtu_bytes for each in seen.of("server")] == [65536, 1400]
        with pytest.raises(ValueError, match=r"mtu_bytes=67 must be .* from 68 to 65536 on lo"):
            set_mtu(localhost.client, 67)
        with pytest.raises(ValueError, match=r"mtu_bytes=65536 must be .* to 65535 on eth0"):
            set_mtu(lab.client, 65_536)
    with pytest.raises(LabError, match="closed"):
        set_mtu(lab.client, 1500)
