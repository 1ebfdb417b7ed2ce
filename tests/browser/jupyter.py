"""A real JupyterLab on a free port, with a copy of the lessons and settings of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
START_S = 120.0

SETTINGS = {
    "@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False},
    # All cells are in the page, also those that are not in view.
    "@jupyterlab/notebook-extension:tracker": {"windowingMode": "none"},
}


class Jupyter:
    """The server process.

    Args:
        directory: an empty one; notebooks are in its subdirectory "lessons".
    """

    def __init__(self, directory: Path) -> None:
        self.lessons = directory / "lessons"
        shutil.copytree(
            ROOT / "lessons", self.lessons, ignore=shutil.ignore_patterns(".*", "*.json")
        )
        self._runtime = directory / "runtime"
        self._log = directory / "jupyter.log"
        environment = os.environ | {
            "JUPYTER_RUNTIME_DIR": str(self._runtime),
            "JUPYTER_CONFIG_DIR": str(directory / "config"),
            "JUPYTERLAB_SETTINGS_DIR": str(directory / "user-settings"),
            "JUPYTERLAB_WORKSPACES_DIR": str(directory / "workspaces"),
            "IPYTHONDIR": str(directory / "ipython"),
        }
        _write_settings(directory / "user-settings")
        options = [
            "--no-browser",
            "--allow-root",
            "--ServerApp.ip=127.0.0.1",
            "--ServerApp.port=0",
            f"--ServerApp.root_dir={self.lessons}",
            "--IdentityProvider.token=",
            "--PasswordIdentityProvider.hashed_password=",
            "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        ]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "jupyterlab", *options],
                env=environment,
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self.url = self._wait_for_url()

    def _wait_for_url(self) -> str:
        end = time.monotonic() + START_S
        while time.monotonic() < end and self._process.poll() is None:
            for told in self._runtime.glob("jpserver-*.json"):
                text = told.read_text()
                if text.endswith("}"):
                    return str(json.loads(text)["url"])
            time.sleep(0.1)
        raise RuntimeError(f"JupyterLab did not start:\n{self._log.read_text()[-2000:]}")

    def close(self) -> None:
        """Ends the server and its kernels."""
        self._process.terminate()
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _write_settings(directory: Path) -> None:
    for name, values in SETTINGS.items():
        package, _, plugin = name.partition(":")
        path = directory / package / f"{plugin}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values))
