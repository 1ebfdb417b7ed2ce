"""Send transfers through a shared bottleneck, and record the queue, the windows and the rates.

The experiments repeat lab exercises of several universities, which use Mininet, and test claims
from papers on router buffers and congestion controls.
"""

# ruff: noqa: F403

from tcplab.experiments.bottleneck.bufferbloat import *
from tcplab.experiments.bottleneck.controls import *
from tcplab.experiments.bottleneck.router_buffers import *
from tcplab.experiments.bottleneck.sharing import *
