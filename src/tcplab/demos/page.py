"""Show a demo as a page in the browser. Voilà runs its notebook and shows only the panel."""

import json
import logging
import os
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from tcplab.demos.phones import serving
from tcplab.demos.steps import find

#: Settings for Voilà, passed in a file instead of those in the user's account.
_SETTINGS: Final[dict[str, Any]] = {
    "Voila": {
        "log_format": "%(message)s",
        # Access requires a token, which is part of the address that is printed and opened.
        "auto_token": True,
        # Block an icon font that comes from another server. On a slow network, the page would wait
        # for it.
        "tornado_settings": {
            "headers": {"Content-Security-Policy": "style-src 'self' 'unsafe-inline'"}
        },
    },
    "KernelManager": {"transport_encryption": "auto"},  # without it, kernels print a warning
    "VoilaConfiguration": {"show_margins": False, "extension_denylist": ["@jupyter/nbgrader"]},
}


def open_page(name: str, phones: tuple[str, int] | None = None) -> None:
    """Serve a demo until Ctrl-C, and open it in the browser except in CI or without a display.

    With an address and a port, also serve the page on which phones vote.
    """
    from voila.app import Voila

    logging.getLogger("Voila").addFilter(_is_for_lecturer)
    options = []
    if "CI" in os.environ or not os.environ.keys() & {"DISPLAY", "WAYLAND_DISPLAY"}:
        options.append("--no-browser")
    if address := os.environ.get("TCPLAB_LISTEN"):  # a container's loopback is private
        options.append(f"--Voila.ip={address}")
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="tcplab-demo-"))
        url = stack.enter_context(serving(phones, Path(folder))) if phones else ""
        page = write_page(name, Path(folder), url)
        if url:
            print(f"Phones vote at {url}")
        print(
            "Press Run in the browser. F11 fills the screen, and Ctrl-C here ends the demo.",
            flush=True,
        )
        Voila.launch_instance([str(page), f"--Voila.config_file_paths={folder}", *options])


def _is_for_lecturer(record: logging.LogRecord) -> bool:
    text = record.getMessage()
    return " is running at:" in text or (
        record.levelno > logging.INFO and "is not trusted" not in text
    )


def write_page(name: str, folder: Path, phones: str = "") -> Path:
    """Write a demo's notebook and Voilà's settings into a folder; return the notebook's path."""
    import nbformat
    from nbformat.v4 import new_code_cell, new_notebook

    demo = find(name)
    shown = str(Path(name).resolve()) if name.endswith(".toml") else name
    state = str(folder.resolve() / f"{demo.name}.state")
    cell = new_code_cell(
        f"from tcplab import demos\n\ndemos.show({shown!r}, {state!r}, {phones!r})"
    )
    page = folder / f"{demo.name}.ipynb"
    nbformat.write(new_notebook(cells=[cell]), page)
    (folder / "voila.json").write_text(json.dumps(_SETTINGS))
    return page
