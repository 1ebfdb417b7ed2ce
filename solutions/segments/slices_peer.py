"""The receiver for the problem set "segments", which answers each piece sent by slices.c.

    python slices_peer.py HEADER_BYTES

The program binds a free UDP port and announces it as JSON. It ends with the
sender's empty piece, or if nothing has arrived for some seconds, and prints a report in JSON.

A datagram is a header of HEADER_BYTES bytes, then data. The header begins with the data's offset
(4 bytes, network order). The answer is the next expected offset, also in 4 bytes. A piece with
another offset is answered and counted, but not kept.
"""

from __future__ import annotations

import hashlib
import json
import socket
import sys

PATIENCE_S = 6.0


def receive(listener: socket.socket, header_bytes: int) -> dict[str, object]:
    """Receive the file; return its size, its SHA-256, and the size of each datagram."""
    file, sizes, ended = bytearray(), [], False
    try:
        while not ended:
            datagram, sender = listener.recvfrom(65535)
            offset, data = int.from_bytes(datagram[:4]), datagram[header_bytes:]
            if len(datagram) >= header_bytes and offset == len(file):
                ended = not data
                file += data
            if not ended:
                sizes.append(len(datagram))
            listener.sendto(len(file).to_bytes(4), sender)
    except TimeoutError:
        pass
    digest = hashlib.sha256(file).hexdigest()
    return {"bytes": len(file), "sha256": digest, "datagram_bytes": sizes, "ended": ended}


def main() -> None:
    """Serve one sender, and print the report."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind(("", 0))
        listener.settimeout(PATIENCE_S)
        print(json.dumps({"listening": listener.getsockname()[1]}), flush=True)
        print(json.dumps(receive(listener, int(sys.argv[1]))), flush=True)


if __name__ == "__main__":
    main()
