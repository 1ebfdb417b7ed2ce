"""JupyterHub for a department: 30 to 300 learners on one server, each a system user of their own.

    jupyterhub --config deploy/jupyterhub/jupyterhub_config.py

Set up as README.md beside this file says. The parts are JupyterHub's own; what is of this course:
every learner gets a copy of the lessons, laboratories are namespaces of the learner alone (nobody
sees another's packets), and measurements take turns (TCPLAB_INSTRUMENT), or twenty learners on
two cores would measure each other.
"""

from __future__ import annotations

import os
import pwd
import shutil
from pathlib import Path
from typing import Any

c: Any = get_config()  # type: ignore[name-defined]  # noqa: F821

#: The course's directory, where `make setup` was run, readable by all.
COURSE = Path(os.environ.get("TCPLAB_COURSE", "/opt/tcplab"))
#: The queue for the instrument, and nbgrader's exchange: both of mode 1777.
INSTRUMENT = Path(os.environ.get("TCPLAB_INSTRUMENT", "/run/tcplab-instrument"))
EXCHANGE = Path(os.environ.get("TCPLAB_EXCHANGE", "/srv/nbgrader/exchange"))

c.JupyterHub.bind_url = os.environ.get("TCPLAB_HUB_URL", "http://127.0.0.1:8000")
c.JupyterHub.authenticator_class = os.environ.get("TCPLAB_HUB_AUTHENTICATOR", "pam")
c.Authenticator.allow_all = True  # who has an account on this machine

# systemd gives each learner a unit with limits of its own, and ends all of it at once. "local"
# works without systemd (and without limits): to try things out.
spawner = os.environ.get("TCPLAB_HUB_SPAWNER", "systemd")
c.JupyterHub.spawner_class = spawner
c.SystemdSpawner.mem_limit = "1G"  # a lesson takes about 0.3 GB: see README.md
c.SystemdSpawner.cpu_limit = 1.0
c.SystemdSpawner.isolate_tmp = True
c.SystemdSpawner.isolate_devices = True
c.SystemdSpawner.disable_user_sudo = True
# The laboratory needs user namespaces, and a handful of processes a host.
c.SystemdSpawner.unit_extra_properties = {"TasksMax": "300", "LimitCORE": "0"}

c.JupyterHub.concurrent_spawn_limit = 10  # a class arrives all at once
c.JupyterHub.active_server_limit = 300
c.Spawner.start_timeout = 120
c.Spawner.http_timeout = 120

c.Spawner.cmd = [str(COURSE / ".venv/bin/jupyterhub-singleuser")]
c.Spawner.notebook_dir = "~/tcplab"
c.Spawner.default_url = "/lab"
c.Spawner.args = ["--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"]
c.Spawner.environment = {
    # nbgrader and the lessons call programs of the environment by name.
    "PATH": f"{COURSE / '.venv/bin'}:/usr/local/bin:/usr/bin:/bin",
    "TCPLAB_INSTRUMENT": str(INSTRUMENT),
}

for directory in (INSTRUMENT, EXCHANGE):
    directory.mkdir(parents=True, exist_ok=True)
    directory.chmod(0o1777)


def give_lessons(spawner: Any) -> None:
    """Copies what the learner does not have yet, as the learner; never overwrites anything."""
    account = pwd.getpwnam(spawner.user.name)
    home = Path(account.pw_dir) / "tcplab"
    if home.exists():
        return
    # Not as root in a directory of somebody else's: build it aside, then give it away.
    aside = Path(account.pw_dir) / f".tcplab-new-{os.getpid()}"
    hidden = shutil.ignore_patterns(".ipynb_checkpoints", "predictions.json")
    shutil.copytree(COURSE / "lessons", aside / "lessons", ignore=hidden)
    for path in (aside, *aside.rglob("*")):
        os.chown(path, account.pw_uid, account.pw_gid, follow_symlinks=False)
    aside.rename(home)


c.Spawner.pre_spawn_hook = give_lessons
