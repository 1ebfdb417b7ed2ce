"""Test the setting of an MTU."""

import pytest

from tcplab import Lab, LabError
from tcplab.experiments.interface_settings import set_mtu
from tcplab.experiments.mode import LabLoopback


@pytest.mark.needs_lab
def test_mtu_is_set_or_the_reason_reported() -> None:
    with Lab() as lab:
        localhost = LabLoopback(lab)
        set_mtu(lab.server, 1400)
        assert lab.server.run(["cat", "/sys/class/net/eth0/mtu"]).stdout == "1400\n"
        with pytest.raises(ValueError, match=r"mtu_bytes=67 must be .* from 68 to 65536 on lo"):
            set_mtu(localhost.client, 67)
        with pytest.raises(ValueError, match=r"mtu_bytes=65536 must be .* to 65535 on eth0"):
            set_mtu(lab.client, 65_536)
    with pytest.raises(LabError, match="closed"):
        set_mtu(lab.client, 1500)
