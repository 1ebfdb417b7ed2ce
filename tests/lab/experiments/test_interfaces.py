"""Test routes as the kernel reports them, and the setting of an MTU."""

from __future__ import annotations

import json

import pytest

from tcplab import Lab, LabError
from tcplab.cli import main
from tcplab.experiments import routes
from tcplab.experiments.interface_settings import set_mtu
from tcplab.experiments.lab_loopback import LabLoopback


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
        mtus = {route.to: route.mtu_bytes for route in routes.measure(lab).variants}
        assert mtus == {"localhost": 16384, "its own address": 16384, "the other host": 1500}
        assert lab.server.run(["cat", "/sys/class/net/eth0/mtu"]).stdout == "1400\n"
        with pytest.raises(ValueError, match=r"mtu_bytes=67 must be .* from 68 to 65536 on lo"):
            set_mtu(localhost.client, 67)
        with pytest.raises(ValueError, match=r"mtu_bytes=65536 must be .* to 65535 on eth0"):
            set_mtu(lab.client, 65_536)
    with pytest.raises(LabError, match="closed"):
        set_mtu(lab.client, 1500)
