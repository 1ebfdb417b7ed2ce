"""The receiver to which live.c sends in the problem set "queues".

    python peer.py RECORD_BYTES ROUNDS RECORDS READ_BYTES PAUSE_S

It accepts one connection. In each of ROUNDS rounds it waits PAUSE_S seconds, sends a state, often
with events around it, waits again, and reads RECORDS records or up to twice as many. Each number is
larger than the last by a random step. Then it sends 0 and reads to the end. READ_BYTES is
SO_RCVBUF, and 0 leaves it to the kernel. The program prints the port on which it listens, and at
the end a line of JSON. This has

- "waited", the records that arrived after each round's last state was sent, and before it or a
  newer number did,
- "events_waited", the same for each event and newer events,
- "whole", whether all records were whole and each state at least as new as the state before it. A
  record whose number has not been sent is damaged,
- "events", how many events were sent, and how many have exactly one record, in their order,
- "stale", the records with a state that a newer one had replaced before the last event,
- "pauses", for each round, when its second pause began and ended by CLOCK_MONOTONIC, how many
  records had been read, and how many came before the first with a number of this round or later,
- "records", the number of records.
"""

from __future__ import annotations

import json
import secrets
import socket
import struct
import sys
import time
from collections.abc import Mapping, Sequence

PATIENCE_S = 8.0
#: A random step of up to this size cannot be guessed.
MOST_STEP = 1 << 24
#: What a round may send: states (0) and events (1), in this order. The first round sends a state.
KINDS = ([0], [0, 1], [1, 0, 1], [1, 1, 0], [0, 0, 1])


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
    sent: list[int] = []
    pauses: list[tuple[float, float, int, int]] = []  # the last is the round's first number
    before: dict[int, int] = {}  # for each number that must arrive, the records before it was sent
    for turn in range(rounds):
        time.sleep(pause_s if turn else 0)  # until the sender waits for us
        new = []
        for kind in secrets.choice(KINDS) if turn else KINDS[0]:
            least = (new or sent or [0])[-1] + 1 + secrets.randbelow(MOST_STEP)
            new.append(least + (least + kind) % 2)
        sent += new
        last_state = max(number for number in new if not is_event(number))
        before |= {number: len(numbers) for number in new if is_event(number)}
        before[last_state] = len(numbers)
        connection.sendall(struct.pack(f"!{len(new)}I", *new))
        start_s = time.monotonic()
        time.sleep(pause_s)
        pauses.append((start_s, time.monotonic(), len(numbers), new[0]))
        count = records + secrets.randbelow(records + 1)
        numbers += [read_record(connection, size) for _ in range(count)]
    connection.sendall(bytes(4))
    while (number := read_record(connection, size)) is not None:
        numbers.append(number)
    connection.close()
    fresh = [
        (*pause, next((i for i, one in enumerate(numbers) if (one or 0) >= least), len(numbers)))
        for *pause, least in pauses
    ]
    print(json.dumps({**report(sent, before, numbers), "pauses": fresh}))


def is_event(number: int) -> bool:
    """Return whether a number is an event, and not a state."""
    return number % 2 == 1


def report(
    sent: Sequence[int], before: Mapping[int, int], numbers: Sequence[int | None]
) -> dict[str, object]:
    """Compare the records that arrived with the numbers that were sent."""
    known = set(sent)
    came = [number for number in numbers if number in known]
    states = [number for number in came if not is_event(number)]
    events = [number for number in came if is_event(number)]
    waited: dict[bool, list[int]] = {False: [], True: []}
    for number, start in before.items():
        event = is_event(number)
        later = (
            index
            for index, other in enumerate(numbers[start:])
            if other is not None and other >= number and (is_event(other) or not event)
        )
        waited[event].append(next(later, len(numbers) - start))
    stale = newest = 0
    for number in came:
        if is_event(number):
            newest = max(state for state in sent[: sent.index(number)] if not is_event(state))
        else:
            stale += number < newest
    due = [number for number in sent if is_event(number)]
    in_order = sum(event == wanted for event, wanted in zip(events, due, strict=False))
    return {
        "waited": waited[False],
        "events_waited": waited[True],
        "whole": len(came) == len(numbers) and states == sorted(states),
        "events": [len(due), in_order if len(events) == len(due) else min(in_order, len(due) - 1)],
        "stale": stale,
        "records": len(numbers),
    }


if __name__ == "__main__":
    main()
