"""Send transfers through a shared bottleneck, and record the queue, the windows and the rates."""

# ruff: noqa: F403

from tcplab.experiments.bottleneck.bufferbloat import *
from tcplab.experiments.bottleneck.controls import *
from tcplab.experiments.bottleneck.router_buffers import *
from tcplab.experiments.bottleneck.sharing import *
