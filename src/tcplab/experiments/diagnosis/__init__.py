"""Run three slow programs, show their symptoms on the network, and check their repair.

The programs are faulty_request.c, faulty_backup.c and faulty_ticker.c. :func:`measure` runs and
records one of them, :func:`copy` copies its source into the learner's folder, and :func:`check`
compiles and judges the changed program.
"""

# ruff: noqa: F403

from tcplab.experiments.diagnosis.cases import *
from tcplab.experiments.diagnosis.repair import *
from tcplab.experiments.diagnosis.run import *
