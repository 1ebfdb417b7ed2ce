"""JupyterHub for a department: 30 to 300 learners on one server, each a system user of their own.

    jupyterhub --config deploy/jupyterhub/jupyterhub_config.py

Set up as README.md beside this file says. The parts are JupyterHub's own; what is of this course:
every learner gets a copy of the lessons, laboratories are namespaces of the learner alone (nobody
sees another's packets), one measures at a time (TCPLAB_INSTRUMENT), or twenty learners on two
cores would measure each other, and assignments go through nbgrader's exchange.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

c: Any = get_config()  # type: ignore[name-defined]  # noqa: F821

HERE = Path(__file__).resolve().parent
#: The course's directory, where `make setup` was run, readable by all.
COURSE = Path(os.environ.get("TCPLAB_COURSE", "/opt/tcplab"))
#: The directory that who measures locks, and nbgrader's exchange: both of mode 1777.
INSTRUMENT = Path(os.environ.get("TCPLAB_INSTRUMENT", "/run/tcplab-instrument"))
EXCHANGE = Path(os.environ.get("TCPLAB_EXCHANGE", "/srv/nbgrader/exchange"))

# Learners have accounts on this machine, and the history holds the solutions too.
for secret in ("solutions", ".git"):
    if (COURSE / secret).exists() and (COURSE / secret).stat().st_mode & 0o055:
        sys.exit(f"{COURSE / secret} can be read by learners: chmod 700 {COURSE / secret}")

c.JupyterHub.bind_url = os.environ.get("TCPLAB_HUB_URL", "http://127.0.0.1:8000")
c.JupyterHub.authenticator_class = os.environ.get("TCPLAB_HUB_AUTHENTICATOR", "pam")
c.Authenticator.allow_all = True  # who has an account on this machine

# systemd gives each learner a unit with limits of its own, and ends all of it at once.
# "localprocess" works without systemd (and without limits): to try things out.
c.JupyterHub.spawner_class = os.environ.get("TCPLAB_HUB_SPAWNER", "systemd")
c.SystemdSpawner.mem_limit = "1G"  # a lesson takes about 0.3 GB: see README.md
# No cpu_limit: it stops a measurement for the rest of each 100 ms. systemd gives equal shares.
c.SystemdSpawner.isolate_tmp = True
c.SystemdSpawner.isolate_devices = True
c.SystemdSpawner.disable_user_sudo = True
# The laboratory needs user namespaces, and a handful of processes per host.
c.SystemdSpawner.unit_extra_properties = {"TasksMax": "300", "LimitCORE": "0"}

# A class arrives all at once. Beyond this limit JupyterHub asks users to try again later, so it is
# larger than a class, and slow starts are waited for.
c.JupyterHub.concurrent_spawn_limit = 100
c.JupyterHub.active_server_limit = 300
c.Spawner.start_timeout = 300
c.Spawner.http_timeout = 300

c.Spawner.cmd = [str(HERE / "start-server")]
c.Spawner.notebook_dir = "~/tcplab"
c.Spawner.default_url = "/lab/tree/start.ipynb"
c.Spawner.args = [
    "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    # A class opens the lesson all at once, too: on two cores twenty kernels need a minute to start.
    "--MappingKernelManager.kernel_info_timeout=300",
    # Kernels listen on sockets in the user's own folder (see start-server). Of TCP ports a kernel
    # gets five that were free a moment ago: of twenty that start at once, one finds a port taken
    # and dies. And nobody else on the machine can connect to a file that is not theirs.
    "--KernelManager.transport=ipc",
]
c.Spawner.environment = {
    # nbgrader and the lessons call programs of the environment by name.
    "PATH": f"{COURSE / '.venv/bin'}:/usr/local/bin:/usr/bin:/bin",
    "JUPYTER_CONFIG_PATH": str(HERE / "nbgrader"),
    "TCPLAB_COURSE": str(COURSE),
    "TCPLAB_EXCHANGE": str(EXCHANGE),
    "TCPLAB_INSTRUMENT": str(INSTRUMENT),
}

for directory in (INSTRUMENT, EXCHANGE):
    directory.mkdir(parents=True, exist_ok=True)
    directory.chmod(0o1777)
