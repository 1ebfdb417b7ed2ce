"""Run three slow programs, show their symptoms on the network, and check their repair."""

# ruff: noqa: F403

from tcplab.experiments.diagnosis.cases import *
from tcplab.experiments.diagnosis.repair import *
from tcplab.experiments.diagnosis.run import *
