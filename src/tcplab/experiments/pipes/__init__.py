"""Pipes and copies: how fast `dd | nc` and `nc < file` are, and how often each byte is copied.

The experiment of Chen Shuo, "Network programming in practice": nc sends to a second nc,
over a wire of 1 Gbit/s and on one machine, fed by dd, by a file from the disk and by the same file
from memory. The text explains the ratios of its rates by counting copies; here the copies stand
beside the rates (tcplab.models.chain_cost), and with them what the text asks the reader to look up
in top: how much of a CPU each process took.
"""

# ruff: noqa: F403

from tcplab.experiments.pipes.measurement import *
from tcplab.experiments.pipes.pipelines import *
from tcplab.experiments.pipes.result import *
