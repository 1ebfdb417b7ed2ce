"""Diagnosis: three slow programs, their symptoms on the network, and a check of their repair.

The programs are faulty_request.c, faulty_backup.c and faulty_ticker.c. :func:`measure` runs one and
records it, :func:`copy` puts its source into the learner's folder, :func:`check` compiles what the
learner made of it and judges.
"""

from tcplab.experiments.diagnosis.cases import (
    BACKUP_BYTES,
    LINE_BYTES,
    LINES,
    PROGRAMS,
    REQUEST_BYTES,
    REQUESTS,
    Backup,
    Diagnosis,
    Program,
    Requests,
    checksum,
    line_of,
)
from tcplab.experiments.diagnosis.repair import check, copy
from tcplab.experiments.diagnosis.run import measure

__all__ = [
    "BACKUP_BYTES",
    "LINES",
    "LINE_BYTES",
    "PROGRAMS",
    "REQUESTS",
    "REQUEST_BYTES",
    "Backup",
    "Diagnosis",
    "Program",
    "Requests",
    "check",
    "checksum",
    "copy",
    "line_of",
    "measure",
]
