"""tcplab: why TCP programs are fast or slow, measured on two hosts without root."""

from tcplab.errors import LabError
from tcplab.lab import Host, Lab, Link, Loopback

__all__ = ["Host", "Lab", "LabError", "Link", "Loopback"]
