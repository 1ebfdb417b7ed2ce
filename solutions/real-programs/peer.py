"""The clients of set real-programs, and what they have seen, as a line of JSON.

python peer.py upload PORT SEED BYTES       sends "PUT BYTES" and as many bytes, then reads
python peer.py ask PORT SEED CUSTOMERS      that many connections to desk, the first goes to lunch
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
    """Sends all, as clients do that look for no answer before; then reads to the end."""
    data = b"PUT %d\n" % size + random.Random(seed).randbytes(size)
    sent, answer, error = 0, b"", ""
    with socket.create_connection((SERVER, port), timeout=PATIENCE_S) as connection:
        try:
            while sent < len(data):
                sent += connection.send(data[sent : sent + BLOCK_BYTES])
            while some := connection.recv(BLOCK_BYTES):
                answer += some
        except OSError as problem:
            error = problem.strerror or "it waited in vain"
    return {"sent": sent, "answer": answer.decode(errors="replace"), "error": error}


class Customer:
    """A connection to desk."""

    def __init__(self, port: int) -> None:
        self._connection = socket.create_connection((SERVER, port), timeout=PATIENCE_S)
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._got = b""

    def say(self, text: str) -> None:
        """Sends it at once."""
        self._connection.sendall(text.encode())

    def hears(self, *sums: int) -> bool:
        """Whether these lines come, and nothing else."""
        expected = "".join(f"{each}\n" for each in sums).encode()
        while len(self._got) < len(expected):
            if not (some := self._connection.recv(BLOCK_BYTES)):
                return False
            self._got += some
        right, self._got = self._got == expected, b""
        return right

    def leaves(self) -> bool:
        """Ends the own direction; whether the other one ends."""
        self._connection.shutdown(socket.SHUT_WR)
        return self._connection.recv(1) == b""


def ask(port: int, seed: int, count: int) -> dict[str, object]:
    """Asks on all connections but the first, which stops within a line until they are answered."""
    rng = random.Random(seed)
    a, b = rng.randrange(10**6), rng.randrange(10**6)
    done = {"answered": 0, "finished": False, "ended": 0, "error": ""}
    try:
        first = Customer(port)
        first.say(f"sum {a} ")
        others = [Customer(port) for _ in range(count - 1)]
        for other in others:
            c, d, e, f = (rng.randrange(10**6) for _ in range(4))
            other.say(f"sum {c} ")  # a line in two segments, the second with a line more
            time.sleep(0.05)
            other.say(f"{d}\nsum {e} {f}\n")
            if not other.hears(c + d, e + f):
                return {**done, "error": "a customer got something else than the sums"}
            done["answered"] += 1  # type: ignore[operator]
        first.say(f"{b}\n")
        done["finished"] = first.hears(a + b)
        for other in [*others, first]:
            done["ended"] += other.leaves()  # type: ignore[operator]
    except OSError as problem:
        done["error"] = problem.strerror or "a customer waited in vain"
    return done


def main() -> None:
    """Does what the first argument says."""
    play = {"upload": upload, "ask": ask}[sys.argv[1]]
    print(json.dumps(play(*map(int, sys.argv[2:5]))))


if __name__ == "__main__":
    main()
