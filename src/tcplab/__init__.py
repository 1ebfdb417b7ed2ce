"""Measure why TCP programs are fast or slow, on two hosts that an ordinary user can create."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tcplab.errors import LabError
    from tcplab.lab import Host, Lab, Link, Loopback

__all__ = ["Host", "Lab", "LabError", "Link", "Loopback"]
__dir__ = __all__.copy


def __getattr__(name: str) -> Any:
    """Import a name of __all__ on first use, so that `tcplab --help` loads no laboratory."""
    if name not in __all__:
        raise AttributeError(f"module 'tcplab' has no attribute {name!r}")
    from tcplab import errors, lab

    return getattr(errors if name == "LabError" else lab, name)
