"""Let the audience vote by phone, on a page that `tcplab demo --phones` serves on this machine.

The page is at one address of the machine, takes one number per phone, and ends with the demo. The
demo's kernel is another process. It writes the question into one file of the demo's private
folder, and reads the counts from another.
"""

import ipaddress
import json
import re
import secrets
import socket
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from html import escape
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingTCPServer
from string import Template
from typing import Any, Final

from tcplab.errors import ParameterError

#: The question is [ballot, text, options, the kernel's PID], and has no options while the vote is
#: closed. The counts are {ballot: {option: count}}.
QUESTION, COUNTS = "question.json", "counts.json"
CLOSED: Final[tuple[int, str, list[str], int]] = (0, "", [], 0)
PORT: Final = 8765
#: Limits: phones in the room, connections per second from one address, and threads at once.
PHONES, PER_SECOND, AT_ONCE = 999, 100, 200
#: The whole body of a vote, and the cookie that gives a phone one vote.
_VOTE: Final = re.compile(rb"ballot=(\d{1,3})&vote=(\d{1,2})")
_PHONE: Final = re.compile(r"\btcplab-phone=([\w-]{22})(?![\w-])")
_PAGE: Final = Template(Path(__file__).with_suffix(".html").read_text())


def place(word: str) -> tuple[str, int]:
    """Parse ADDRESS or ADDRESS:PORT; "auto" is the machine's address on its default route."""
    host, _, port = word.partition(":")
    with suppress(OSError, ValueError):
        if host == "auto":
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
                probe.connect(("192.0.2.1", 9))  # sends no packet
                host = probe.getsockname()[0]
        if int(ipaddress.IPv4Address(host)) and re.fullmatch(r"|[1-9]\d{0,4}", port):
            return host, int(port or PORT)
    raise ParameterError(f"{word}: give one IPv4 address of this machine, or auto in a network")


def write(path: Path, value: Any) -> None:
    """Replace a file that the two processes share."""
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(value))
    fresh.replace(path)


def read(path: Path, default: Any) -> Any:
    """Return what the other process wrote, or the default until then."""
    return json.loads(path.read_text()) if path.exists() else default


@contextmanager
def serving(at: tuple[str, int], folder: Path) -> Iterator[str]:
    """Serve the page at this address and port, and give its URL."""
    try:
        server = _Server(at, folder)
    except (OSError, OverflowError) as error:
        why = f"--phones: no page at {at[0]}:{at[1]} ({error}); give another ADDRESS:PORT"
        raise ParameterError(why) from None
    with server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://{at[0]}:{at[1]}/"
        finally:
            server.shutdown()


class _Server(ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True
    request_queue_size = 128

    def __init__(self, at: tuple[str, int], folder: Path) -> None:
        super().__init__(at, _Page)
        self.folder, self.lock = folder, threading.Lock()
        self.phones: set[str] = set()
        self.votes: defaultdict[int, dict[str, int]] = defaultdict(dict)  # the option
        self._second, self._seen = 0, Counter[str]()

    def verify_request(self, _request: Any, client_address: Any) -> bool:
        """Drop a connection that exceeds a limit."""
        if (now := int(time.monotonic())) != self._second:
            self._second, self._seen = now, Counter()
        self._seen[client_address[0]] += 1
        return self._seen[client_address[0]] <= PER_SECOND and threading.active_count() < AT_ONCE

    def handle_error(self, _request: Any, _client_address: Any) -> None:
        """Ignore a phone that leaves in the middle of a request."""

    def vote(self, phone: str, ballot: int, option: int) -> None:
        """Count a vote for the present question. A later vote of the same phone replaces it."""
        now, _ask, options, _kernel = read(self.folder / QUESTION, CLOSED)
        if ballot == now and option < len(options):
            with self.lock:
                self.votes[ballot][phone] = option
                counts = {ballot: Counter(votes.values()) for ballot, votes in self.votes.items()}
                write(self.folder / COUNTS, counts)


class _Page(BaseHTTPRequestHandler):
    server: _Server
    timeout = 5

    def do_GET(self) -> None:
        """Send the question, and a cookie to a phone that has none."""
        ballot, ask, options, _kernel = read(self.server.folder / QUESTION, CLOSED)
        phone = self._phone()
        chosen = self.server.votes.get(ballot, {}).get(phone)
        buttons = [
            f'<button name="vote" value="{index}" aria-pressed="{str(index == chosen).lower()}">'
            f"{escape(label)}</button>"
            for index, label in enumerate(options)
        ]
        status = "Tap an answer." if options else "No vote is open. Look at the screen."
        if options and chosen is not None:
            status = "Your vote is counted. You can change it until the lecturer presses Run."
        headers = {"ETag": f'"{ballot}-{len(options)}"'}
        if not phone and len(self.server.phones) < PHONES:
            self.server.phones.add(phone := secrets.token_urlsafe(16))
            headers["Set-Cookie"] = f"tcplab-phone={phone}; HttpOnly; SameSite=Strict"
        texts = {"ask": escape(ask), "buttons": "\n".join(buttons), "status": status}
        self._send(200, headers, _PAGE.substitute(texts, ballot=ballot, tag=headers["ETag"]))

    def do_POST(self) -> None:
        """Take a vote: the numbers of the ballot and of the option, and nothing else."""
        length = self.headers.get("Content-Length", "")
        body = self.rfile.read(int(length)) if re.fullmatch(r"\d\d", length) else b""
        if (vote := _VOTE.fullmatch(body)) and (phone := self._phone()):
            self.server.vote(phone, *map(int, vote.groups()))
            self._send(303, {"Location": "/"})
        else:
            self.send_error(400)

    def _phone(self) -> str:
        known = _PHONE.search(self.headers.get("Cookie", ""))
        return known[1] if known and known[1] in self.server.phones else ""

    def _send(self, status: int, headers: dict[str, str], page: str = "") -> None:
        self.send_response(status)
        policy = "default-src 'self' 'unsafe-inline'; frame-ancestors 'none'"
        headers |= {"Cache-Control": "no-store", "Content-Security-Policy": policy}
        for name, value in {"Content-Type": "text/html; charset=utf-8", **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(page.encode())

    def log_message(self, *_: object) -> None:
        """Print nothing."""
