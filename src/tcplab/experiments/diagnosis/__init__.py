"""Run three slow programs, show their symptoms on the network, and check their repair."""

from tcplab.experiments.diagnosis.cases import (
    LINE_BYTES,
    PROGRAMS,
    REQUESTS,
    Backup,
    Diagnosis,
    checksum,
)
from tcplab.experiments.diagnosis.repair import check, copy
from tcplab.experiments.diagnosis.run import measure

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
