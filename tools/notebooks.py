"""Notebooks run as nbclient runs them, on a channel that looks again: for tools, bench, tests."""

from __future__ import annotations

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
    """Looks once a second whether a message has come.

    On a busy machine pyzmq's event loop now and then sleeps through one, and would look again only
    at the end of the cell's time limit.
    """

    async def get_msg(self, timeout: float | None = None) -> dict[str, Any]:  # type: ignore[override]
        """The next message; Empty is raised when there is none within `timeout` seconds."""
        assert self.socket is not None
        end = time.monotonic() + (math.inf if timeout is None else timeout)
        while not await self.socket.poll(1000):
            if time.monotonic() > end:
                raise Empty
        return await super().get_msg(timeout=0)


class Client(AsyncKernelClient):
    """A client with such channels."""

    shell_channel_class = Channel
    iopub_channel_class = Channel


class Manager(AsyncKernelManager):
    """Starts a kernel for such a client."""

    client_factory = Client


def client(notebook: Any, directory: Path, timeout_s: int = 300) -> NotebookClient:
    """Runs the notebook in the directory; its execute() raises what a cell raised."""
    return NotebookClient(
        notebook,
        timeout=timeout_s,
        kernel_name="python3",
        kernel_manager_class=Manager,
        extra_arguments=["--log-level=ERROR"],  # not that a kernel speaks without encryption
        resources={"metadata": {"path": str(directory)}},
    )
