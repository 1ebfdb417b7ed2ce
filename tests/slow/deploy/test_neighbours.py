"""A user of the same machine cannot enter or read another user's laboratory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.support.needs import needs_root
from tests.support.ordinary_user import Run, let_in
from tests.support.paths import ROOT

NEIGHBOUR = 65533
LABORATORY = """
from tcplab import Lab
with Lab() as lab, lab.client.capture():
    print("made", flush=True)
    input()
"""
#: Try to open what a process has under /proc and to enter its namespaces; print what succeeded.
INTRUDER = """
import json, os, subprocess, sys
from pathlib import Path

def opened(pid):
    for part in ("environ", "mem", "fd", "root", "cwd", "ns/user", "ns/net", "ns/mnt", "ns/pid"):
        try:
            os.close(os.open(f"/proc/{pid}/{part}", os.O_RDONLY))
        except OSError:
            continue
        yield part
    enter = ["nsenter", f"--target={pid}", "--user", "--net", "--preserve-credentials", "true"]
    if subprocess.run(enter, capture_output=True).returncode == 0:
        yield "nsenter"

neighbours = {}
for entry in Path("/proc").glob("[0-9]*"):
    status = (entry / "status").read_text() if entry.exists() else ""
    if f"Uid:\\t{sys.argv[1]}\\t" in status:
        neighbours[status.split()[1]] = list(opened(entry.name))
ready = ["unshare", "--user", "--net", "sh", "-c", "echo; exec sleep 60"]
with subprocess.Popen(ready, stdout=subprocess.PIPE) as child:
    child.stdout.read(1)
    own = list(opened(child.pid))
    child.kill()
print(json.dumps([neighbours, own]))
"""


@needs_root
def test_a_laboratory_is_closed_to_other_users(as_ordinary_user: Run) -> None:
    user = str(NEIGHBOUR)
    become = ["setpriv", "--reuid", user, "--regid", user, "--clear-groups", "--bounding-set=-all"]
    with subprocess.Popen(
        [*let_in(ROOT, Path(sys.base_prefix)), *become, sys.executable, "-c", LABORATORY],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "HOME": "/", "TMPDIR": "/tmp", "PYTHONDONTWRITEBYTECODE": "1"},
        cwd="/",
    ) as laboratory:
        assert laboratory.stdout is not None
        assert laboratory.stdout.readline() == b"made\n"
        done = as_ordinary_user(["python", "-c", INTRUDER, user])
        laboratory.communicate(b"\n")
    neighbours, own = json.loads(done.stdout)
    assert "lab_init" in neighbours
    assert set(map(tuple, neighbours.values())) == {()}, neighbours
    # The same attempts succeed on the intruder's own child.
    assert {"environ", "mem", "fd", "ns/net", "nsenter"} <= set(own)
