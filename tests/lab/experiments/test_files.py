"""Files of experiments are removed with their owner."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tcplab.experiments.files import file_of


def test_file_is_removed_at_the_end_and_with_a_killed_owner() -> None:
    with file_of(2_500_000) as path:
        assert path.stat().st_size == 2_500_000
    assert not path.exists()
    code = (
        "import time\nfrom tcplab.experiments.files import file_of\nwith file_of(1000) as path:\n"
    )
    code += "    print(path, flush=True)\n    time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout
        left = Path(owner.stdout.readline().strip())
        assert left.exists()
        os.kill(owner.pid, signal.SIGKILL)
    end = time.monotonic() + 30
    while left.exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert not left.exists()
