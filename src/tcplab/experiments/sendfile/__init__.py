"""Sending a file: read and send, mmap, sendfile, splice and MSG_ZEROCOPY, by clock and by CPU.

The experiment of a ChinaUnix blog entry of 2006 whose author saw no difference between read() with
send() and sendfile(), and asked whether it would show with many clients, or with little memory.
His measurement is ``wire``; the others answer his questions, each an experiment of its own.
"""

# ruff: noqa: F403

from tcplab.experiments.sendfile import header as header
from tcplab.experiments.sendfile import wire as wire
from tcplab.experiments.sendfile.measurement import *
from tcplab.experiments.sendfile.transfers import *
