"""Pipes and copies: the speed of `dd | nc` and `nc < file`, and the copies of each byte.

The experiment of Chen Shuo, "Network programming in practice": nc sends to a second nc, over a link
of 1 Gbit/s and on one machine, data from dd, from the disk, and from memory. The text explains its
rates by counting copies (tcplab.models.chain_cost).
"""

# ruff: noqa: F403

from tcplab.experiments.pipes.measurement import *
from tcplab.experiments.pipes.pipelines import *
from tcplab.experiments.pipes.result import *
