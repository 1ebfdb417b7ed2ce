"""Tasks for a pool, in a module that imports quickly."""

import os
import signal
import time
from pathlib import Path
from typing import Any


def work(task: dict[str, Any]) -> dict[str, Any]:
    """Note the attempt. Then sleep, die or raise if the task says so, or leave a temporary file."""
    with (Path(task["folder"]) / "tried").open("a") as file:
        file.write(f"{task['name']}\n")
    if task["do"] == "sleep":
        time.sleep(600)
    if task["do"] == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if task["do"] == "exit":
        os._exit(3)
    if task["do"] == "raise":
        raise RuntimeError("a bug of ours")
    leftover = Path(os.environ["TMPDIR"]) / "leftover"
    leftover.write_text("temporary")
    return {"pid": os.getpid(), "leftover": str(leftover)}


def tasks(folder: Path, *deeds: str) -> list[dict[str, Any]]:
    return [
        {"name": f"{number}-{deed}", "do": deed, "folder": str(folder)}
        for number, deed in enumerate(deeds)
    ]
