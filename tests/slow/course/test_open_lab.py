"""`make lab` ends with one address, and stays silent while a lesson is opened and runs."""

import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from tests.support.paths import ROOT

WAIT_S = 120
ENDS = re.compile(
    r"JupyterLab runs until Ctrl-C, at this address:\n"
    r"    (http://127\.0\.0\.1:\d+/lab/tree/start\.ipynb\?token=\w+)\n$"
)


@pytest.mark.timeout(2 * WAIT_S)
@pytest.mark.parametrize("where", [{"CI": "1"}, {"DISPLAY": ":7"}, {"TCPLAB_LISTEN": "0.0.0.0"}])
def test_make_lab_ends_with_one_address(where: dict[str, str], tmp_path: Path) -> None:
    own = {"HOME": str(tmp_path), "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime")}
    own |= {"BROWSER": "true", "TCPLAB_ENVIRONMENT": sys.prefix}
    inherited = {name: value for name, value in os.environ.items() if name not in ("CI", "DISPLAY")}
    with subprocess.Popen(
        [sys.executable, "-m", "tcplab", "lab", str(ROOT)],
        env={**inherited, **own, **where},
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        printed = ""
        try:
            for line in iter(process.stdout.readline, ""):
                printed += line
                if address := ENDS.search(printed):
                    ask(address[1], "contents/lessons/00-primer.ipynb?content=1")
                    kernel = ask(address[1], "kernels", {"name": "python3"})["id"]
                    wait_until_ready(tmp_path / f"runtime/kernel-{kernel}.json")
                    break
        finally:
            process.terminate()
        rest = process.stdout.read()
    assert ENDS.search(printed), printed
    assert not re.search(r"Warning|file:|^\[[A-Z] ", printed, re.MULTILINE), printed
    assert printed.count("http") == 1
    assert "To get the lessons" not in printed
    assert rest == "received signal 15, stopping\n"


def wait_until_ready(connection: Path) -> None:
    """Wait until the kernel of a connection file answers."""
    client = BlockingKernelClient(connection_file=str(connection))
    client.load_connection_file()
    client.start_channels(hb=False)  # a busy machine misses heartbeats
    client.wait_for_ready(WAIT_S)
    client.stop_channels()


def ask(address: str, path: str, body: dict[str, Any] | None = None) -> Any:
    """Return what the server at an address answers through its API."""
    url = urlsplit(address)
    with socket.socket() as probe:  # the server prints its address before it listens
        while probe.connect_ex((url.hostname, url.port)):
            time.sleep(0.1)
    (token,) = parse_qs(url.query)["token"]
    request = urllib.request.Request(
        f"{url.scheme}://{url.netloc}/api/{path}",
        headers={"Authorization": f"token {token}"},
        data=None if body is None else json.dumps(body).encode(),
    )
    with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
        return json.load(answer)
