"""Configure a JupyterHub for a department, with 30 to 300 learners as system users of one server.

    jupyterhub --config deploy/jupyterhub/jupyterhub_config.py

README.md in this directory describes the set-up. Each learner gets a copy of the lessons, and makes
laboratories in separate namespaces, so that learners cannot see each other's packets. Only one
experiment measures at a time (TCPLAB_INSTRUMENT), since others would disturb it. Assignments go
through nbgrader's exchange.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

c: Any = get_config()  # type: ignore[name-defined]  # noqa: F821

HERE = Path(__file__).resolve().parent
#: The course's directory, in which `make setup` was run. All users can read it.
COURSE = Path(os.environ.get("TCPLAB_COURSE", "/opt/tcplab"))
#: A measurement locks the first directory, and nbgrader exchanges files in the second.
INSTRUMENT = Path(os.environ.get("TCPLAB_INSTRUMENT", "/run/tcplab-instrument"))
EXCHANGE = Path(os.environ.get("TCPLAB_EXCHANGE", "/srv/nbgrader/exchange"))

# Learners have accounts on this machine, and git's history contains the solutions, too.
for secret in ("solutions", ".git"):
    if (COURSE / secret).exists() and (COURSE / secret).stat().st_mode & 0o055:
        sys.exit(f"{COURSE / secret} can be read by learners: chmod 700 {COURSE / secret}")

c.JupyterHub.bind_url = os.environ.get("TCPLAB_HUB_URL", "http://127.0.0.1:8000")
c.JupyterHub.authenticator_class = os.environ.get("TCPLAB_HUB_AUTHENTICATOR", "pam")
c.Authenticator.allow_all = True  # all who have an account on this machine

# systemd gives each learner a unit with separate limits, and ends all of its processes together.
# For a trial, "localprocess" works without systemd, but sets no limits.
c.JupyterHub.spawner_class = os.environ.get("TCPLAB_HUB_SPAWNER", "systemd")
c.SystemdSpawner.mem_limit = "1G"  # a lesson takes about 0.3 GB: see README.md
# Set no cpu_limit, since it would interrupt measurements. systemd gives equal shares.
c.SystemdSpawner.isolate_tmp = True
c.SystemdSpawner.isolate_devices = True
c.SystemdSpawner.disable_user_sudo = True
# A laboratory needs several processes per host.
c.SystemdSpawner.unit_extra_properties = {"TasksMax": "300", "LimitCORE": "0"}

# All learners of a class log in at the same time. JupyterHub would start all servers at once, and
# send those above its limit away. Here a start waits for one of a few turns, so that the first
# learners can begin while the others still wait.
c.JupyterHub.concurrent_spawn_limit = 0
c.JupyterHub.active_server_limit = 300
c.Spawner.start_timeout = 300
c.Spawner.http_timeout = 300
turns = asyncio.Semaphore(2 * (os.cpu_count() or 1))


async def wait_for_turn(spawner: Any) -> None:
    """Wait until fewer servers are starting."""
    await turns.acquire()
    spawner.turn = asyncio.create_task(give_back_turn(spawner))


async def give_back_turn(spawner: Any) -> None:
    """Let the next server start when this one answers, or its start has failed."""
    while spawner.pending:
        await asyncio.sleep(0.2)
    turns.release()


c.Spawner.pre_spawn_hook = wait_for_turn

# End a server that has not been used for three hours, since each takes about 0.4 GB.
c.JupyterHub.services = [
    {
        "name": "idle-culler",
        "command": [sys.executable, "-m", "jupyterhub_idle_culler", "--timeout=10800"],
    }
]
c.JupyterHub.load_roles = [
    {
        "name": "idle-culler",
        "scopes": ["list:users", "read:users:activity", "read:servers", "delete:servers"],
        "services": ["idle-culler"],
    }
]

c.Spawner.cmd = [str(HERE / "start-server")]
c.Spawner.notebook_dir = "~/tcplab"
c.Spawner.default_url = "/lab/tree/start.ipynb"
c.Spawner.args = [
    "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    # A class also opens a lesson at the same time. On two cores, 20 kernels need a minute to start.
    "--MappingKernelManager.kernel_info_timeout=300",
    # Kernels listen on sockets in the user's home directory (see start-server), to which no other
    # user can connect. With TCP, a kernel chooses five free ports before it uses them. When twenty
    # kernels start at the same time, one of them finds a port taken and dies.
    "--KernelManager.transport=ipc",
]
c.Spawner.environment = {
    # nbgrader and the lessons call the environment's programs by name.
    "PATH": f"{COURSE / '.venv/bin'}:/usr/local/bin:/usr/bin:/bin",
    "JUPYTER_CONFIG_PATH": str(HERE / "nbgrader"),
    "TCPLAB_COURSE": str(COURSE),
    "TCPLAB_EXCHANGE": str(EXCHANGE),
    "TCPLAB_INSTRUMENT": str(INSTRUMENT),
}

for directory in (INSTRUMENT, EXCHANGE):
    directory.mkdir(parents=True, exist_ok=True)
    directory.chmod(0o1777)
