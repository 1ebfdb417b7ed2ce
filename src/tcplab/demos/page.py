"""A demo as a page of its own in the browser: Voilà runs its notebook and shows the panel alone."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any, Final

from tcplab.demos.steps import find

#: Voilà's own settings, read from a file so that those of the user's account do not apply.
_SETTINGS: Final[dict[str, Any]] = {
    "Voila": {
        # Running a demo needs the address, which is printed and given to the browser.
        "auto_token": True,
        # Voilà's page asks another server for a font of icons, and a network may keep it waiting.
        "tornado_settings": {
            "headers": {"Content-Security-Policy": "style-src 'self' 'unsafe-inline'"}
        },
    },
    "VoilaConfiguration": {"show_margins": False, "extension_denylist": ["@jupyter/nbgrader"]},
}


def open_page(name: str) -> None:
    """Show a demo in the browser until Ctrl-C; without a display, print the address and serve.

    Args:
        name: of the demo, or the path of its file.

    Raises:
        ParameterError: there is no such demo, or its file is not what it should be.
    """
    from voila.app import Voila

    options = []
    if "CI" in os.environ or not os.environ.keys() & {"DISPLAY", "WAYLAND_DISPLAY"}:
        options.append("--no-browser")
    if address := os.environ.get("TCPLAB_LISTEN"):  # a container's loopback is out of reach
        options.append(f"--Voila.ip={address}")
    with tempfile.TemporaryDirectory(prefix="tcplab-demo-") as folder:
        page = write_page(name, Path(folder))
        print(
            "Press Run in the browser. F11 fills the screen; Ctrl-C here ends the demo.", flush=True
        )
        Voila.launch_instance([str(page), f"--Voila.config_file_paths={folder}", *options])


def write_page(name: str, folder: Path) -> Path:
    """Write a demo's notebook and Voilà's settings into a folder; return the notebook's path.

    Raises:
        ParameterError: see :func:`tcplab.demos.steps.find`.
    """
    import nbformat
    from nbformat.v4 import new_code_cell, new_notebook

    demo = find(name)
    shown = str(Path(name).resolve()) if name.endswith(".toml") else name
    cell = new_code_cell(f"from tcplab import demos\n\ndemos.show({shown!r})")
    page = folder / f"{demo.name}.ipynb"
    nbformat.write(new_notebook(cells=[cell]), page)
    (folder / "voila.json").write_text(json.dumps(_SETTINGS))
    return page
