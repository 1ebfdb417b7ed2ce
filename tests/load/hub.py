"""Run a real hub with the configuration of deploy/jupyterhub, on free ports."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from tests.support.paths import ROOT

from tcplab.lab import Loopback
from tcplab.programs import held_port

CONFIG = ROOT / "deploy/jupyterhub/jupyterhub_config.py"
STOP_LIMIT_S = 120


@contextmanager
def running_hub(
    work: Path, course: Path, log: IO[str], *, spawner: str = "localprocess"
) -> Iterator[str]:
    """Start the hub with its state in `work`, yield its URL, and stop it and all users' servers."""
    with ExitStack() as stack:
        machine = stack.enter_context(Loopback())
        held = [stack.enter_context(held_port(machine.server)) for _ in range(3)]
        port, api_port, hub_port = held
        url = f"http://127.0.0.1:{port}"
        environment = os.environ | {
            "TCPLAB_COURSE": str(course),
            "TCPLAB_INSTRUMENT": str(work / "instrument"),
            "TCPLAB_EXCHANGE": str(work / "exchange"),
            "TCPLAB_HUB_URL": url,
            "TCPLAB_HUB_SPAWNER": spawner,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        }
        lines = [
            f"load_subconfig({str(CONFIG)!r})",
            f"c.JupyterHub.hub_port = {hub_port}",
            f"c.ConfigurableHTTPProxy.api_url = 'http://127.0.0.1:{api_port}'",
        ]
        config = work / "try_config.py"
        config.write_text("\n".join(lines) + "\n")
        # If we are killed, the hub ends, and its users' servers end with it.
        command = ["setpriv", "--pdeathsig", "TERM", sys.executable, "-m", "jupyterhub"]
        hub = subprocess.Popen(
            [*command, "--config", str(config)],
            cwd=work,
            env=environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            yield url
        finally:
            hub.send_signal(signal.SIGTERM)
            try:
                hub.wait(STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                os.killpg(hub.pid, signal.SIGKILL)
                hub.wait()
