"""The clients for the problem set "real-programs". Each prints a report in JSON.

python peer.py upload PORT SEED BYTES          sends "PUT BYTES" and that many bytes, then reads
python peer.py ask PORT SEED CUSTOMERS FACTOR  opens CUSTOMERS connections; the first one pauses
"""

from __future__ import annotations

import json
import random
import socket
import sys
import time

SERVER = "10.0.0.2"
BLOCK_BYTES = 16384
PATIENCE_S = 4.0


def upload(port: int, seed: int, size: int) -> dict[str, object]:
    """Send the whole upload before reading, then read to the end; return a report."""
    data = b"PUT %d\n" % size + random.Random(seed).randbytes(size)
    sent, answer, error = 0, b"", ""
    with socket.create_connection((SERVER, port), timeout=PATIENCE_S) as connection:
        try:
            while sent < len(data):
                sent += connection.send(data[sent : sent + BLOCK_BYTES])
            while block := connection.recv(BLOCK_BYTES):
                answer += block
        except OSError as problem:
            error = problem.strerror or "it waited in vain"
    return {"sent": sent, "answer": answer.decode(errors="replace"), "error": error}


class Customer:
    """A client of desk.c, with one connection."""

    def __init__(self, port: int) -> None:
        self._connection = socket.create_connection((SERVER, port), timeout=PATIENCE_S)
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._got = b""

    def say(self, text: str) -> None:
        """Send the text at once."""
        self._connection.sendall(text.encode())

    def hears(self, *sums: int) -> bool:
        """Return whether the server sends exactly these sums, one per line."""
        expected = "".join(f"{number}\n" for number in sums).encode()
        while len(self._got) < len(expected):
            if not (block := self._connection.recv(BLOCK_BYTES)):
                return False
            self._got += block
        right, self._got = self._got == expected, b""
        return right

    def leaves(self) -> bool:
        """Shut down our direction, and return whether the server then shuts down its direction."""
        self._connection.shutdown(socket.SHUT_WR)
        return self._connection.recv(1) == b""


def ask(port: int, seed: int, count: int, factor: int) -> dict[str, object]:
    """Let the other customers ask while the first one pauses within a line; return a report."""
    rng = random.Random(seed)
    a, b = rng.randrange(10**6), rng.randrange(10**6)
    done = {"answered": 0, "finished": False, "ended": 0, "error": ""}
    try:
        first = Customer(port)
        first.say(f"sum {a} ")
        others = [Customer(port) for _ in range(count - 1)]
        for other in others:
            c, d, e, f = (rng.randrange(10**6) for _ in range(4))
            other.say(f"sum {c} ")  # first part of a line; the rest comes with another line
            time.sleep(0.05)
            other.say(f"{d}\nsum {e} {f}\n")
            if not other.hears(c + factor * d, e + factor * f):
                return {**done, "error": "a customer got something else than the sums"}
            done["answered"] += 1  # type: ignore[operator]
        first.say(f"{b}\n")
        done["finished"] = first.hears(a + factor * b)
        for other in [*others, first]:
            done["ended"] += other.leaves()  # type: ignore[operator]
    except OSError as problem:
        done["error"] = problem.strerror or "a customer waited in vain"
    return done


def main() -> None:
    """Play the role that the first argument names, and print the report."""
    play = {"upload": upload, "ask": ask}[sys.argv[1]]
    print(json.dumps(play(*map(int, sys.argv[2:]))))


if __name__ == "__main__":
    main()
