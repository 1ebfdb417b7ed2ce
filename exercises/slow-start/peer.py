"""The receiver for window.c in the problem set "slow-start", behind a network that loses packets.

    python peer.py PIECES LOST ACKS_LOST DARK LATE

The program collects packets (a 4-byte number and a piece of the file) until none arrives for a
moment. These packets are a flight. Then it answers those that are not lost, one by one. So a flight
has as many packets as the sender's window allows, regardless of the machine's speed. Flights and
their packets are numbered from 0.

    LOST        packets that are lost, such as 2.1,2.4 (flight 2, packets 1 and 4)
    ACKS_LOST   packets whose ACK is lost, in the same form
    DARK        a flight that is lost completely
    LATE        packets that arrive after their successor, in the same form

The last piece is also lost when it first arrives. The program prints the port on which it listens.
At the end it prints a line of JSON with the numbers of each flight, how many packets were
duplicates, and the SHA-256 of the pieces. It gives up after MOST_FLIGHTS flights.
"""

from __future__ import annotations

import hashlib
import json
import socket
import struct
import sys

QUIET_S = 0.2
PATIENCE_S = 5.0
MOST_FLIGHTS = 40
ROOM_BYTES = 1 << 21


def places(text: str) -> set[tuple[int, int]]:
    """Return the pairs of flight and packet in an argument such as "2.1,2.4"."""
    pairs = (pair.split(".") for pair in text.split(","))
    return {(int(flight), int(packet)) for flight, packet in pairs}


class Receiver:
    """The pieces that have arrived so far."""

    def __init__(self, pieces: int) -> None:
        self.pieces = pieces
        self.came: dict[int, bytes] = {}
        self.again = 0  #: number of duplicate packets
        self.lowest = 0  #: lowest number of a piece that has not arrived
        self.last_was_lost = False

    def take(self, number: int, piece: bytes) -> bool:
        """Store a piece and return True; lose the last piece the first time, and return False."""
        if number == self.pieces - 1 and not self.last_was_lost:
            self.last_was_lost = True
            return False
        self.again += number in self.came
        self.came.setdefault(number, piece)
        while self.lowest in self.came:
            self.lowest += 1
        return True

    def digest(self) -> str:
        """Return the SHA-256 of all pieces in order."""
        return hashlib.sha256(b"".join(self.came[n] for n in sorted(self.came))).hexdigest()


def one_flight(port: socket.socket) -> list[tuple[int, bytes, tuple[str, int]]]:
    """Return the packets up to the first quiet moment; none if the sender stays silent."""
    packets = []
    port.settimeout(PATIENCE_S)
    try:
        while True:
            packet, sender = port.recvfrom(2048)
            packets.append((struct.unpack("!I", packet[:4])[0], packet[4:], sender))
            port.settimeout(QUIET_S)
    except TimeoutError:
        return packets


def main() -> None:
    """Receive everything, flight by flight, and print the report."""
    pieces, dark = int(sys.argv[1]), int(sys.argv[4])
    lost, acks_lost, late = (places(sys.argv[index]) for index in (2, 3, 5))
    receiver, flights = Receiver(pieces), []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as port:
        port.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, ROOM_BYTES)
        port.bind(("", 0))
        print(json.dumps({"listening": port.getsockname()[1]}), flush=True)
        while receiver.lowest < pieces and len(flights) < MOST_FLIGHTS:
            packets = one_flight(port)
            if not packets:
                break
            now = len(flights)
            flights.append([number for number, _piece, _sender in packets])
            for flight, index in late:
                if flight == now and index + 1 < len(packets):
                    packets[index : index + 2] = reversed(packets[index : index + 2])
            for index, (number, piece, sender) in enumerate(packets):
                if now == dark or (now, index) in lost or not receiver.take(number, piece):
                    continue
                if (now, index) not in acks_lost:
                    port.sendto(struct.pack("!II", receiver.lowest, number), sender)
    complete = receiver.lowest == pieces
    print(
        json.dumps(
            {
                "flights": flights,
                "again": receiver.again,
                "complete": complete,
                "sha256": receiver.digest(),
            }
        )
    )


if __name__ == "__main__":
    main()
