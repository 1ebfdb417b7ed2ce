"""Programs that people use, with the few lines that make each a fault or a healthy case."""

import os
import sys
import textwrap
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.support.commands import completed
from tests.support.needs import need
from tests.support.paths import DATA
from tests.support.undisturbed import undisturbed

from tcplab.explain import Explanation, explain_command

#: Programs in other languages than Python, by their file names.
SOURCES: dict[str, str] = tomllib.loads((DATA / "programs.toml").read_text())
RESPONSE = ["HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "hello"]


def words(text: str) -> list[str]:
    """Split a command line; skip the test if its program is missing."""
    need(text.split()[0])
    return text.split()


def explain(client: Sequence[str], server: Sequence[str], **network: Any) -> Explanation:
    """Explain a run on a link that is not late."""
    return undisturbed_run(lambda: explain_command(client, server, timeout_s=20, **network))


def undisturbed_run(explained: Callable[[], Explanation]) -> Explanation:
    """Explain a run; run it again only if its own record says that the link was late."""
    return undisturbed(
        explained,
        lambda explanation: "the link was late with a packet" if late(explanation) else "",
    )


def late(explanation: Explanation) -> bool:
    """Return whether the run's own record says that the link was late with a packet."""
    return any(map(tells_of_a_late_wire, explanation.recorded.notes))


def tells_of_a_late_wire(note: str) -> bool:
    """Return whether a note of the record says that packets were forwarded late."""
    return "the machine was busy" in note


def python(text: str, *arguments: object) -> list[str]:
    """Return a command line that runs this Python code."""
    return [sys.executable, "-P", "-S", "-c", textwrap.dedent(text), *map(str, arguments)]


def curl(count: int, url: str, *options: str) -> list[str]:
    """Return one curl command with several requests on one connection."""
    need("curl")
    asked = [word for _ in range(count) for word in ("-o", os.devnull, url)]
    return ["curl", "-s", *options, *asked]


def asks(count: int) -> list[str]:
    """Return a client that makes `count` requests on one connection with http.client."""
    return python(
        """
        import http.client, sys
        connection = http.client.HTTPConnection("server", 8080)
        for _ in range(int(sys.argv[1])):
            connection.request("GET", "/")
            connection.getresponse().read()
        """,
        count,
    )


# ---- servers -------------------------------------------------------------------------------------


def http_server(wbufsize: int = 0) -> list[str]:
    """Return Python's http.server, which writes headers and body separately if wbufsize is 0."""
    return python(
        """
        import http.server, sys
        class Handler(http.server.BaseHTTPRequestHandler):
            wbufsize, protocol_version = int(sys.argv[1]), "HTTP/1.1"
            def do_GET(self):
                self.send_response(200)
                self.send_header("Content-Length", "200")
                self.end_headers()
                self.wfile.write(b"x" * 200)
            def log_message(self, *arguments): pass
        http.server.ThreadingHTTPServer(("", 8080), Handler).serve_forever()
        """,
        wbufsize,
    )


def answers(*writes: str, until: str = "", prepare: str = "", delay_s: float = 0.0) -> list[str]:
    """Return a server that waits for the end of each request and makes these writes."""
    return python(
        """
        import socket, sys, time
        listener = socket.create_server(("", 8080))
        while True:
            c, _ = listener.accept()
            exec(sys.argv[1])
            asked = b""
            while data := c.recv(10000):
                asked += data
                if asked.endswith(sys.argv[3].encode()):
                    asked = b""
                    time.sleep(float(sys.argv[2]))
                    for write in sys.argv[4:]:
                        c.sendall(write.encode())
        """,
        prepare,
        delay_s,
        until,
        *writes,
    )


def splices(more: bool) -> list[str]:
    """Return a server that answers by splice(), as a relay does, with or without SPLICE_F_MORE."""
    return python(
        """
        import os, socket, sys
        c, _ = socket.create_server(("", 8080)).accept()
        output, entry = os.pipe()
        while c.recv(10000):
            os.write(entry, b"hello")
            os.splice(output, c.fileno(), 5, flags=os.SPLICE_F_MORE * int(sys.argv[1]))
        """,
        int(more),
    )


def sink(rcvbuf: int = 0) -> list[str]:
    """Return a server that reads everything and then confirms it."""
    return python(
        """
        import socket, sys
        listener = socket.socket()
        if int(sys.argv[1]):
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, int(sys.argv[1]))
        listener.bind(("", 8080))
        listener.listen()
        c, _ = listener.accept()
        while c.recv(1 << 20): pass
        c.sendall(b"done")
        """,
        rcvbuf,
    )


def nginx(folder: Path, directives: str = "") -> list[str]:
    """Return nginx with two files, "small" (200 bytes) and "big" (300 kB)."""
    need("nginx")
    (folder / "small").write_bytes(b"x" * 200)
    (folder / "big").write_bytes(b"x" * 300_000)
    paths = "".join(
        f"{name}_temp_path {folder}/{name}; "
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"daemon off; master_process off; pid {folder}/pid; error_log stderr crit;"
        + ("user root;" if os.getuid() == 0 else "")
        + f"events {{}} http {{ access_log off; root {folder}; {paths} {directives}"
        " server { listen 8080; } }\n"
    )
    return ["/usr/sbin/nginx", "-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", "stderr"]


def redis() -> list[str]:
    """Return redis-server without persistence."""
    need("redis-server")
    return ["redis-server", "--protected-mode", "no", "--save", ""]


def memcached() -> list[str]:
    """Return memcached over TCP."""
    need("memcached")
    return ["memcached", "-U", "0", *(["-u", "root"] if os.getuid() == 0 else [])]


def mosquitto(folder: Path, directives: str = "") -> list[str]:
    """Return mosquitto, an MQTT broker."""
    need("mosquitto", "mosquitto_pub")
    user = "user root\n" if os.getuid() == 0 else ""
    (folder / "mosquitto.conf").write_text(
        f"{user}listener 1883\nallow_anonymous true\n{directives}\n"
    )
    return ["/usr/sbin/mosquitto", "-c", str(folder / "mosquitto.conf")]


def written(folder: Path, name: str) -> str:
    """Write a source of tests/data/programs.toml; return its path."""
    (folder / name).write_text(SOURCES[name])
    return str(folder / name)


def built(folder: Path, name: str, *compiler: str, libraries: Sequence[str] = ()) -> str:
    """Compile a source; return the program, or skip the test if that is impossible."""
    need(compiler[0])
    program = str(folder / Path(name).stem)
    done = completed(
        [*compiler, "-o", program, written(folder, name), *libraries],
        env={"HOME": str(folder)} | os.environ | {"CGO_ENABLED": "0"},
    )
    if done.returncode:
        pytest.skip(f"{compiler[0]} cannot build here: {done.stderr.strip()[-200:]}")
    return program


def serves_all() -> list[str]:
    """Return a server that answers each request on any number of connections."""
    return python(
        """
        import socket, threading
        def serve(c):
            c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while c.recv(99): c.sendall(b"answer")
            c.close()
        listener = socket.create_server(("", 8080))
        while True:
            threading.Thread(target=serve, args=listener.accept()[:1], daemon=True).start()
        """
    )


# ---- clients -------------------------------------------------------------------------------------


def sends(writes: list[str], answer: str, port: int, prepare: str = "") -> list[str]:
    """Return a client that sends ten messages in these writes and reads a reply to each."""
    return python(
        """
        import socket, sys
        s = socket.create_connection(("server", int(sys.argv[1])))
        exec(sys.argv[3])
        for _ in range(10):
            for write in sys.argv[4:]:
                s.sendall(write.encode())
            got = b""
            while not got.endswith(sys.argv[2].encode()):
                got += s.recv(10000)
        """,
        port,
        answer,
        prepare,
        *writes,
    )


def uploads(size: int, sndbuf: int = 0) -> list[str]:
    """Return a client that sends about `size` bytes and waits until the server confirms them.

    Each write fills whole segments, since the kernel checks SO_SNDBUF only when a segment begins.
    """
    return python(
        """
        import socket, sys
        s = socket.socket()
        if int(sys.argv[2]):
            s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, int(sys.argv[2]))
        s.connect(("server", 8080))
        block = bytes(10 * 1448)
        for _ in range(int(sys.argv[1]) // len(block)):
            s.sendall(block)
        s.shutdown(socket.SHUT_WR)
        s.recv(10)
        """,
        size,
        sndbuf,
    )


def pipelines(count: int, every_s: float) -> list[str]:
    """Return a client whose second thread sends requests without waiting for the answers."""
    return python(
        """
        import socket, sys, threading, time
        s = socket.create_connection(("server", 8080))
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        def send():
            for _ in range(int(sys.argv[1])):
                s.sendall(b"x" * 79 + b"?")
                time.sleep(float(sys.argv[2]))
            s.shutdown(socket.SHUT_WR)
        threading.Thread(target=send).start()
        while s.recv(4096): pass
        """,
        count,
        every_s,
    )


def uses_a_pool(connections: int, times: int) -> list[str]:
    """Return a client that opens connections once and makes a few requests on each."""
    return python(
        """
        import socket, sys
        pool = [socket.create_connection(("server", 8080)) for _ in range(int(sys.argv[1]))]
        for _ in range(int(sys.argv[2])):
            for s in pool:
                s.sendall(b"ask")
                s.recv(99)
        """,
        connections,
        times,
    )


def node_client(folder: Path, *, nodelay: bool) -> list[str]:
    """Return a Node client that queries memcached in two writes, from two events."""
    need("node")
    return ["node", written(folder, "client.js"), str(nodelay).lower()]


def go_upload(folder: Path, *arguments: str) -> list[str]:
    """Build a static Go client with 2000 writes of 100 bytes; an argument adds a buffer (bufio)."""
    return [built(folder, "upload.go", "go", "build"), *arguments]


def publishes_in_batches(batches: int) -> list[str]:
    """Return an MQTT client that sends ten QoS 1 messages per write and then reads ten answers.

    We cannot use mosquitto_pub. It may end before the first answer arrives, and then its kernel
    acknowledges each answer at once. The broker waits for ACKs only while the client keeps sending.
    """
    return python(
        r"""
        import socket, sys
        s = socket.create_connection(("server", 1883))
        s.sendall(b"\x10\x0c\0\4MQTT\4\2\0\0\0\0")
        s.recv(4, socket.MSG_WAITALL)
        batch = b"".join(b"\x32\x0a\0\1t\0" + bytes([i]) + b"hello" for i in range(1, 11))
        for _ in range(int(sys.argv[1])):
            s.sendall(batch)
            s.recv(40, socket.MSG_WAITALL)
        """,
        batches,
    )


def go_http2(folder: Path, word: str) -> list[str]:
    """Return a Go HTTP/2 server with a window of `word` bytes, or a client for the URL `word`."""
    return [built(folder, "http2.go", "go", "build"), word]


def go_reader(folder: Path, *arguments: str) -> list[str]:
    """Build a Go client with a goroutine that reads; an argument sets TCP_NODELAY."""
    return [built(folder, "reader.go", "go", "build"), *arguments]


def uring(folder: Path, *writes: str) -> list[str]:
    """Build a C client whose writes and reads are operations of io_uring."""
    return [built(folder, "uring.c", "cc", libraries=["-luring"]), *writes]


def certificate(folder: Path) -> str:
    """Return the path of a file with a certificate and its key."""
    need("openssl")
    pem = str(folder / "pem")
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 3 -subj /CN=server -out - -keyout -"
    (folder / "pem").write_text(completed(command.split(), check=True).stdout)
    return pem


def node_https(folder: Path, *arguments: str) -> list[str]:
    """Return a Node HTTPS server, or with "each" or "keep" a client that asks it ten times."""
    need("node")
    return ["node", written(folder, "https.js"), certificate(folder), *arguments]


def tls_server(folder: Path, *, nodelay: bool) -> list[str]:
    """Return a TLS 1.3 server that writes each answer at once, behind its session tickets."""
    return python(
        """
        import socket, ssl, sys
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(sys.argv[1])
        c, _ = socket.create_server(("", 8080)).accept()
        c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, int(sys.argv[2]))
        c = context.wrap_socket(c, server_side=True)
        while c.recv(1000): c.sendall(bytes(700))
        """,
        certificate(folder),
        int(nodelay),
    )


def tls_client() -> list[str]:
    """Return a TLS client that makes ten requests."""
    return python(
        """
        import socket, ssl
        context = ssl._create_unverified_context()
        s = context.wrap_socket(socket.create_connection(("server", 8080)))
        for _ in range(10):
            s.sendall(b"ask")
            left = 700
            while left: left -= len(s.recv(left))
        """
    )


def java_chunks(folder: Path, *arguments: str) -> list[str]:
    """Return a Java client that writes each header byte by byte; an argument adds a buffer."""
    need("java")
    return ["java", written(folder, "Chunks.java"), *arguments]
