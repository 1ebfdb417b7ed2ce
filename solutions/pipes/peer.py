"""The sender whose transfer meter.c measures in the problem set "pipes".

    python peer.py PORT SIZE BEFORE_S AFTER_S

It connects to 10.0.0.2, waits for BEFORE_S seconds, sends SIZE bytes in writes of different sizes,
keeps the connection open for AFTER_S more seconds, and closes it. It prints a line of JSON with the
number of bytes that it sent.
"""

from __future__ import annotations

import json
import random
import socket
import sys
import time

SERVER = "10.0.0.2"
PATIENCE_S = 20.0
LONGEST_WRITE_BYTES = 9000


def main() -> None:
    """Connect, wait, send, wait, and print the number of bytes."""
    port, size = int(sys.argv[1]), int(sys.argv[2])
    before_s, after_s = float(sys.argv[3]), float(sys.argv[4])
    rng = random.Random(size)
    with socket.create_connection((SERVER, port), timeout=PATIENCE_S) as connection:
        time.sleep(before_s)
        left = size
        while left:
            block = rng.randbytes(min(left, rng.randint(1, LONGEST_WRITE_BYTES)))
            connection.sendall(block)
            left -= len(block)
        time.sleep(after_s)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(65536):
            pass
    print(json.dumps({"bytes": size}))


if __name__ == "__main__":
    main()
