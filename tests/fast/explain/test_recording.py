"""The ports of a server are read, whatever the kernel supports."""

from __future__ import annotations

from typing import Any

import pytest

from tcplab.errors import LabError
from tcplab.explain.recording import _udp_ports

LINE = "  sl  local_address rem_address\n   0: {}:{:04X} {}:0000 07\n"


class FakeHost:
    """A host with these files and no others."""

    def __init__(self, files: dict[str, str]) -> None:
        self._files = files

    def read(self, path: str) -> str:
        if path not in self._files:
            raise LabError(f"{path}: ENOENT")
        return self._files[path]


@pytest.mark.parametrize("has_ipv6", [True, False])
def test_udp_ports_are_those_of_both_families(has_ipv6: bool) -> None:
    files = {"/proc/net/udp": LINE.format("0" * 8, 53, "0" * 8)}
    if has_ipv6:
        files["/proc/net/udp6"] = LINE.format("0" * 32, 9000, "0" * 32)
    host: Any = FakeHost(files)
    assert _udp_ports(host) == [53, 9000][: 1 + has_ipv6]
