"""Run three slow programs, show their symptoms on the network, and check their repair."""

from tcplab.experiments.diagnosis.cases import (
    LINE_BYTES,
    PROGRAMS,
    REQUESTS,
    Backup,
    Diagnosis,
    checksum,
)
from tcplab.experiments.diagnosis.run import check, copy, measure

__all__ = [
    "LINE_BYTES",
    "PROGRAMS",
    "REQUESTS",
    "Backup",
    "Diagnosis",
    "check",
    "checksum",
    "copy",
    "measure",
]
