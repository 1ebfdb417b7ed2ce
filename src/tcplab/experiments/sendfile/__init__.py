"""Compare read and send, mmap, sendfile, splice and MSG_ZEROCOPY, by time and CPU time.

The author of a ChinaUnix blog entry (2006) measured no difference between read() with send() and
sendfile(), and asked whether many clients or little memory would show one. ``wire`` repeats his
measurement, and the other modules answer his questions.
"""

# ruff: noqa: F403

from tcplab.experiments.sendfile import header as header
from tcplab.experiments.sendfile import wire as wire
from tcplab.experiments.sendfile.measurement import *
from tcplab.experiments.sendfile.transfers import *
