"""Measure what `tcplab explain` costs: added seconds, and the share of time a command is stopped.

    python -m tests.support.explain.cost

The command exchanges 1000 messages per second for two seconds. On an idle machine, explain takes
at most 2 s more, and its recorder stops the command for at most a tenth of its time.
"""

from __future__ import annotations

import json
import resource
import shlex
import sys
import time

from tests.support.commands import completed
from tests.support.explain.programs import answers, python
from tests.support.paths import ROOT

CLIENT = """
import socket, time
s = socket.create_connection(("server", 8080))
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
begin = due = time.monotonic()
for _ in range(2000):
    s.sendall(b"x" * 100)
    s.recv(100)
    due += 0.001
    time.sleep(max(due - time.monotonic(), 0))
print(time.monotonic() - begin)
"""


def main() -> None:
    server = shlex.join(answers("y" * 100))
    explain = [sys.executable, "-m", "tcplab", "explain", "--json", "--output", "--server", server]
    command = [*explain, "--", *python(CLIENT)]
    begin, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = completed(command, cwd=ROOT, check=True)
    after, took_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic() - begin
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    loop_s = float(done.stderr.split()[-1])  # the client printed it
    print(f"{took_s - loop_s:.1f} s more than the command's {loop_s:.2f} s, {cpu_s:.1f} s of CPU")
    print(f"stopped for {100 * json.loads(done.stdout)['overhead']:.1f} % of its time")


if __name__ == "__main__":
    main()
