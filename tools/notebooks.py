"""Run notebooks with nbclient, over channels that do not miss a message."""

import math
import time
from pathlib import Path
from queue import Empty
from typing import Any

from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.channels import AsyncZMQSocketChannel
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient


class Channel(AsyncZMQSocketChannel):
    """A channel that looks for a message at least once a second.

    On a busy machine, pyzmq's event loop now and then misses the arrival of a message, and would
    not look again before the cell's time limit.
    """

    async def get_msg(self, timeout: float | None = None) -> dict[str, Any]:  # type: ignore[override]
        """Return the next message; raise Empty if none comes within `timeout` seconds."""
        assert self.socket is not None
        end = time.monotonic() + (math.inf if timeout is None else timeout)
        while not await self.socket.poll(1000):
            if time.monotonic() > end:
                raise Empty
        return await super().get_msg(timeout=0)


class Client(AsyncKernelClient):
    """A kernel client that uses `Channel`."""

    shell_channel_class = Channel
    iopub_channel_class = Channel


class Manager(AsyncKernelManager):
    """A kernel manager that creates a `Client`."""

    client_factory = Client


def client(notebook: Any, directory: Path, timeout_s: int = 300) -> NotebookClient:
    """Return a client that runs the notebook in `directory` and raises any exception of a cell."""
    return NotebookClient(
        notebook,
        timeout=timeout_s,
        kernel_name="python3",
        kernel_manager_class=Manager,
        extra_arguments=["--log-level=ERROR"],  # no warning about encryption
        resources={"metadata": {"path": str(directory)}},
    )
