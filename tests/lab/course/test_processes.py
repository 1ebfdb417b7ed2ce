"""Test facts that need a new process: what imports load, and how JupyterLab is configured."""

import json
import os
import subprocess
import sys

from tests.fast.course.test_architecture import HEAVY, order
from tests.support.paths import DATA, ROOT


def python(code: str, **environment: str) -> str:
    """Run code in a new process and return its output."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | environment,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout


def test_nothing_heavy_is_loaded_before_it_is_used_and_pyplot_never() -> None:
    code = f"""
import sys
from tcplab import {", ".join(order())}
capture.open_capture({str(DATA / "tcpdump.pcap")!r}).segments
print(*{{name.partition(".")[0] for name in sys.modules}})
from tests.fast.figures.test_figures import small_writes
figures.timeline(small_writes()).png()
print(*sys.modules)
"""
    imported, after_drawing = python(code).splitlines()
    assert not set(HEAVY) & set(imported.split())
    assert "matplotlib" in after_drawing.split()
    assert "matplotlib.pyplot" not in after_drawing.split()


def test_learners_settings_leave_out_the_instructors_tools() -> None:
    """Check the settings with which `make lab` and the hub start JupyterLab for learners."""
    code = """
import json, jupyter_core.paths as paths, jupyterlab_server.config, jupyter_server.extension.config
page = jupyterlab_server.config.get_page_config(paths.jupyter_path("labextensions"))
manager = jupyter_server.extension.config.ExtensionConfigManager
server = manager(read_config_path=paths.jupyter_config_path()).get_jpserver_extensions()
print(json.dumps([page["disabledExtensions"], server]))
"""
    settings = python(code, JUPYTER_CONFIG_PATH=str(ROOT / "tools" / "learner"))
    disabled, server = json.loads(settings)
    assert {"@jupyter/nbgrader:formgrader", "@jupyter/nbgrader:create-assignment"} <= set(disabled)
    assert "@jupyter/nbgrader:assignment-list" not in disabled
    assert server["nbgrader.server_extensions.formgrader"] is False
    assert server["nbgrader.server_extensions.assignment_list"] is True
