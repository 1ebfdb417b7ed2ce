"""The receiver to which live.c sends in the problem set "queues".

    python peer.py RECORD_BYTES ROUNDS RECORDS READ_BYTES PAUSE_S

It accepts one connection. In each of ROUNDS rounds it sends a number that is larger than the last
by a random step, waits PAUSE_S seconds, and reads RECORDS records. Then it sends 0 and reads to the
end. READ_BYTES is SO_RCVBUF, and 0 leaves it to the kernel. The program prints the port on which it
listens, and at the end a line of JSON. This gives the number of older records that arrived after
each number was sent, whether all records were whole and in order, and the number of records. A
record whose number has not been sent counts as damaged.
"""

from __future__ import annotations

import json
import secrets
import socket
import struct
import sys
import time

PATIENCE_S = 8.0
#: A random step of up to this size cannot be guessed.
MOST_STEP = 1 << 24


def whole(record: bytes) -> int | None:
    """Return the number in a record, or None if the record is damaged."""
    (number,) = struct.unpack("!I", record[:4])
    return number if set(record[4:]) == {number & 0xFF} else None


def read_record(connection: socket.socket, size: int) -> int | None:
    """Return the number in the next record; None at the end and for a damaged record."""
    record = b""
    while len(record) < size:
        part = connection.recv(size - len(record))
        if not part:
            return None
        record += part
    return whole(record)


def main() -> None:
    """Send the numbers, read the records, and print the report."""
    size, rounds, records, read_bytes = (int(word) for word in sys.argv[1:5])
    pause_s = float(sys.argv[5])
    with socket.socket() as listener:
        if read_bytes:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, read_bytes)
        listener.bind(("", 0))
        listener.listen()
        print(json.dumps({"listening": listener.getsockname()[1]}), flush=True)
        listener.settimeout(PATIENCE_S)
        connection, _ = listener.accept()
    connection.settimeout(PATIENCE_S)
    numbers: list[int | None] = []
    asked: dict[int, int] = {}
    sent = 0
    for _ in range(rounds):
        sent += 1 + secrets.randbelow(MOST_STEP)
        asked[sent] = len(numbers)
        connection.sendall(struct.pack("!I", sent))
        time.sleep(pause_s)
        for _ in range(records):
            number = read_record(connection, size)
            numbers.append(number if number in asked else None)
    connection.sendall(bytes(4))
    while (number := read_record(connection, size)) is not None:
        numbers.append(number if number in asked else None)
    connection.close()
    waited = []
    for number, before in asked.items():
        later = (index for index in range(before, len(numbers)) if (numbers[index] or 0) >= number)
        waited.append(next(later, len(numbers)) - before)
    damaged = None in numbers or numbers != sorted(filter(None, numbers))
    print(json.dumps({"waited": waited, "whole": not damaged, "records": len(numbers)}))


if __name__ == "__main__":
    main()
