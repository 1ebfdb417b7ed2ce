"""Run the course's C programs, and return dataclasses with the results.

Most functions start a listening program on the network's server, wait for the line that announces
its port, run another program on the client, and read the JSON object that each of the two prints.
The top of each source in ``src/programs/`` explains what the program measures, and why.

These arguments are common to several functions:

network
    A Lab, a Loopback or a Pair. One program runs on its client, and the other on its server.
run
    CPU, congestion control and deadline. Programs that exchange small messages run on one
    CPU by default.
log, peer_log
    Files for the events of the client and of the server (see :func:`read_log`).
quickack
    When the server acknowledges: "on" leaves it to the kernel, "off" waits as long as possible,
    "always" acknowledges at once.

Every function raises :class:`~tcplab.errors.LabError` if a program fails. The message includes the
last line that the program wrote to standard error.
"""

# ruff: noqa: F403

from tcplab.programs.bulk import *
from tcplab.programs.calls import *
from tcplab.programs.chain import *
from tcplab.programs.file import *
from tcplab.programs.logs import *
from tcplab.programs.messages import *
from tcplab.programs.pair import *
from tcplab.programs.patterns import *
from tcplab.programs.reports import *
