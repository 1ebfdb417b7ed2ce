"""Pure functions and executable models of TCP theory, with their sources.

A value out of range or an unknown name raises ValueError, and so does an event that is earlier than
the previous event of the same model. The message names the value and what is allowed, in one line.
"""

# ruff: noqa: F403

from tcplab.models.acks import *
from tcplab.models.buffers import *
from tcplab.models.conversation import *
from tcplab.models.copies import *
from tcplab.models.kernel import *
from tcplab.models.links import *
from tcplab.models.messages import *
from tcplab.models.nagle import *
from tcplab.models.reasons import *
