"""Compare ways to send one message in several writes and few segments.

The ways are TCP_CORK, MSG_MORE, writev(), TCP_NODELAY and none of them. The comparison extends the
one in "TCP_NODELAY and TCP_CORK" of Red Hat Enterprise Linux for Real Time. Another source is a
ChinaUnix author's report on sendfile() with a cork.
"""

# ruff: noqa: F403

from tcplab.experiments.cork.messages import *
from tcplab.experiments.cork.scenarios import *
from tcplab.experiments.cork.scripts import *
from tcplab.experiments.sockets import MSS_BYTES as MSS_BYTES
