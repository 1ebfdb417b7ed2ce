"""The server that `halfcat` talks to in problem set 1: on this port, one connection, then a report.

    python peer.py answer SEED BYTES     greets, reads to the end, and only then answers
    python peer.py echo                  sends back all it gets, at once, with small buffers

What it sends in `answer` are BYTES bytes made of SEED, the first 1000 of them as the greeting. It
prints two lines of JSON: where it listens, and at the end what it saw.
"""

from __future__ import annotations

import hashlib
import json
import random
import socket
import sys

GREETING_BYTES = 1000
BLOCK_BYTES = 16384
PATIENCE_S = 5.0
BUFFER_BYTES = 32768


def made_bytes(seed: int, size: int) -> bytes:
    """Bytes that are always the same for a seed, zeros and line ends among them."""
    return random.Random(seed).randbytes(size)


def answer(connection: socket.socket, seed: int, size: int, seen: dict[str, object]) -> None:
    """Speaks first a little, listens to the end, then says the rest."""
    words = made_bytes(seed, size)
    connection.sendall(words[:GREETING_BYTES])
    digest, received = hashlib.sha256(), 0
    while block := connection.recv(BLOCK_BYTES):
        digest.update(block)
        received += len(block)
        seen.update(received_bytes=received, sha256=digest.hexdigest())
    seen["saw_end"] = True
    connection.sendall(words[GREETING_BYTES:])


def echo(connection: socket.socket, seen: dict[str, object]) -> None:
    """Reads on only when what it read before has been sent back."""
    received = 0
    while block := connection.recv(BLOCK_BYTES):
        received += len(block)
        seen["received_bytes"] = received
        connection.sendall(block)
    seen["saw_end"] = True


def main() -> None:
    """Listens, serves one client, reports."""
    listener = socket.create_server(("", 0))
    if sys.argv[1] == "echo":
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            listener.setsockopt(socket.SOL_SOCKET, option, BUFFER_BYTES)
    print(json.dumps({"listening": listener.getsockname()[1]}), flush=True)
    listener.settimeout(2 * PATIENCE_S)
    connection, _ = listener.accept()
    connection.settimeout(PATIENCE_S)
    seen: dict[str, object] = {"received_bytes": 0, "sha256": "", "saw_end": False, "error": None}
    try:
        if sys.argv[1] == "echo":
            echo(connection, seen)
        else:
            answer(connection, int(sys.argv[2]), int(sys.argv[3]), seen)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(BLOCK_BYTES):
            pass
    except TimeoutError:
        seen["error"] = "timeout"
    except OSError as error:
        seen["error"] = type(error).__name__
    connection.close()
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
