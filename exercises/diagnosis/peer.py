"""The peer of the three programs in the problem set "diagnosis", for one connection.

    python peer.py answer                    reads questions of 35 bytes, answers each with 2 bytes,
                                             and every fourth one so late that an ACK leaves before
    python peer.py read                      reads to the end
    python peer.py send PORT SEED BYTES      connects to 10.0.0.2 and sends BYTES bytes made of SEED

The first two modes print the port on which they listen. At the end, each mode prints a line of JSON
with the number of bytes and their SHA-256.
"""

from __future__ import annotations

import hashlib
import json
import random
import socket
import sys
import time

SERVER = "10.0.0.2"
QUESTION_BYTES = 35
ANSWER = b"ok"
BLOCK_BYTES = 65536
PATIENCE_S = 8.0
#: Longer than an ACK waits for data.
LATE_S = 0.15


def made_bytes(seed: int, size: int) -> bytes:
    """Return `size` random bytes that depend only on the seed."""
    return random.Random(seed).randbytes(size)


def listen(answers: bool) -> dict[str, object]:
    """Read one connection to its end, and answer each question if `answers`; return a report."""
    listener = socket.create_server(("", 0))
    print(json.dumps({"listening": listener.getsockname()[1]}), flush=True)
    listener.settimeout(2 * PATIENCE_S)
    connection, _ = listener.accept()
    connection.settimeout(PATIENCE_S)
    digest, received = hashlib.sha256(), 0
    while block := connection.recv(BLOCK_BYTES):
        digest.update(block)
        before, received = received, received + len(block)
        complete = received // QUESTION_BYTES - before // QUESTION_BYTES
        if answers and complete:
            if received // QUESTION_BYTES % 4 == 3:
                time.sleep(LATE_S)
            connection.sendall(complete * ANSWER)
    connection.close()
    return {"bytes": received, "sha256": digest.hexdigest()}


def send(port: int, seed: int, size: int) -> dict[str, object]:
    """Send everything, and wait until the receiver closes the connection; return a report."""
    data = made_bytes(seed, size)
    with socket.create_connection((SERVER, port), timeout=PATIENCE_S) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(BLOCK_BYTES):
            pass
    return {"bytes": size, "sha256": hashlib.sha256(data).hexdigest()}


def main() -> None:
    """Play the role that the first argument names, and print the report."""
    if sys.argv[1] == "send":
        port, seed, size = (int(word) for word in sys.argv[2:5])
        report = send(port, seed, size)
    else:
        report = listen(answers=sys.argv[1] == "answer")
    print(json.dumps(report))


if __name__ == "__main__":
    main()
