"""The source from which tally.c receives in the problem set "tcp-vs-udp", behind a bad network.

    python peer.py RUN COUNT NUMBER,NUMBER,... VERSION

The program waits for a request of this VERSION, and then sends datagrams with the NUMBERs in the
order in which a bad network would deliver them. Some of the numbers 0 to COUNT-1 are missing,
duplicated or late.
An "x" is a datagram of another run. Then it sends the end marker until it is answered. It prints
two lines of JSON: the port on which it listens and, at the end, a report.

    0        4        8               16
    +--------+--------+----------------+-----
    |  kind  |  run   |     number     | ...     all numbers in network byte order
    +--------+--------+----------------+-----

    kind    "get." RUN VERSION          the request, from tally
            "data" RUN 0 ... COUNT-1
            "end." RUN COUNT            every 100 ms
            "done" RUN arrived          from tally; then lost, duplicated, reordered, 8 bytes each
            "bye." RUN 0                the answer has arrived; this datagram may be lost, too
"""

from __future__ import annotations

import json
import socket
import struct
import sys
import time

HEADER = struct.Struct("!4sIQ")
ANSWER = struct.Struct("!4sIQQQQ")
MARKERS = 25
INTERVAL_S = 0.1
PATIENCE_S = 5.0


def answers_within(place: socket.socket, run: int, seconds: float) -> list[tuple[int, ...]]:
    """Return the counts of each valid answer: arrived, lost, duplicated, reordered."""
    answers = []
    until_s = time.monotonic() + seconds
    while (left_s := until_s - time.monotonic()) > 0:
        place.settimeout(left_s)
        try:
            data, _ = place.recvfrom(2048)
        except (TimeoutError, ConnectionError):
            continue
        if len(data) == ANSWER.size:
            kind, of, *counts = ANSWER.unpack(data)
            if kind == b"done" and of == run:
                answers.append(tuple(counts))
    return answers


def main() -> None:
    """Serve one run, and print the report."""
    run, count, version = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[4])
    place = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    place.bind(("", 0))
    print(json.dumps({"listening": place.getsockname()[1]}), flush=True)
    seen: dict[str, object] = {"requested": False, "markers": 0, "answers": 0, "accepted": None}
    place.settimeout(PATIENCE_S)
    try:
        while True:
            request, learner = place.recvfrom(2048)
            if request == HEADER.pack(b"get.", run, version):
                break
    except TimeoutError:
        print(json.dumps(seen))
        return
    seen["requested"] = True
    filling = bytes(16)
    for word in sys.argv[3].split(","):
        own = word != "x"
        number = int(word) if own else 10 * count
        head = HEADER.pack(b"data", run if own else run + 1, number)
        place.sendto(head + filling, learner)
    answered = 0
    for marker in range(1, MARKERS + 1):
        place.sendto(HEADER.pack(b"end.", run, count), learner)
        answers = answers_within(place, run, INTERVAL_S)
        answered += len(answers)
        seen.update(markers=marker, answers=answered)
        if answers:
            seen["accepted"] = answers[-1]
            place.sendto(HEADER.pack(b"bye.", run, 0), learner)
            break
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
