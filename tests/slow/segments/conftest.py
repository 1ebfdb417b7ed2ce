"""tshark and tcptrace, where they are installed."""

from tests.support.tcptrace import tcptrace
from tests.support.wireshark import tshark

__all__ = ["tcptrace", "tshark"]
