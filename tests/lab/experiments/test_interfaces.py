"""Test interfaces and routes as the kernel reports them, and the setting of an MTU."""

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

NET = Path("/sys/class/net")


@pytest.mark.needs_lab
def test_interfaces_of_published_and_own_hosts_are_listed() -> None:
    result = interfaces.measure()
    hosts = list(dict.fromkeys(interface.host for interface in result.variants))
    assert hosts == ["bsd (published)", "client", "server", "the machine"]
    assert [interface.mtu_bytes for interface in result.of("bsd (published)")] == [1500, 16384]
    lo, eth = result.of("client")
    assert (lo.name, lo.kind, lo.address) == ("lo", "loopback", "127.0.0.1")
    assert (eth.name, eth.kind, eth.mtu_bytes) == ("eth0", "veth", 1500)
    assert (eth.network, eth.address, eth.mss_bytes) == ("10.0.0.0/24", "10.0.0.1", 1448)
    data = json.loads(as_json(result))
    assert data["experiment"] == "interfaces"
    assert {"variant", "host", "name", "mtu_bytes", "mss_bytes", "kind"} <= set(data["rows"][0])
    assert "16,384" in table(result).text()
    assert recordings.decode(recordings.encode(result)) == result


def test_machine_shows_names_mtus_and_kinds_only() -> None:
    before = {path.name for path in NET.iterdir() if path.is_dir()}
    with Loopback() as network:
        result = interfaces.measure(network)
        assert [route.to for route in routes.measure(network).variants] == ["localhost"]
    after = {path.name for path in NET.iterdir() if path.is_dir()}
    assert not result.of("client")
    machine = result.of("the machine")
    assert before & after <= {interface.name for interface in machine} <= before | after
    assert [interface.kind for interface in machine].count("loopback") == 1
    for interface in nonempty(machine):
        assert interface.address is interface.network is None
        if interface.kind == "loopback":
            assert interface.mtu_bytes == int((NET / interface.name / "mtu").read_text())


@pytest.mark.needs_lab
def test_an_own_address_leads_through_loopback(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "routes", "--json"]) == 0
    rows = {row["variant"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    assert {name: (row["interface"], row["announced_mss_bytes"]) for name, row in rows.items()} == {
        "localhost": ("lo", 65_495),
        "its own address": ("lo", 65_495),
        "the other host": ("eth0", 1460),
    }


@pytest.mark.needs_lab
def test_mtu_is_set_or_the_reason_reported() -> None:
    with Lab() as lab:
        localhost = LabLoopback(lab)
        set_mtu(localhost.client, 16384)
        set_mtu(lab.server, 1400)
        seen = interfaces.measure(lab)
        assert [interface.mtu_bytes for interface in seen.of("client")] == [16384, 1500]
        assert [interface.mtu_bytes for interface in seen.of("server")] == [65536, 1400]
        with pytest.raises(ValueError, match=r"mtu_bytes=67 must be .* from 68 to 65536 on lo"):
            set_mtu(localhost.client, 67)
        with pytest.raises(ValueError, match=r"mtu_bytes=65536 must be .* to 65535 on eth0"):
            set_mtu(lab.client, 65_536)
    with pytest.raises(LabError, match="closed"):
        set_mtu(lab.client, 1500)
