"""A failure outside the programs causes a one-line message and status 1, and never a hang."""

import contextlib
import os
import re
import shlex
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.commands import completed
from tests.support.ordinary_user import Run
from tests.support.programs.harness import PATIENCE_S, Programs, complaint, reset, tcp_listener
from tests.support.tables import table

Meet = Callable[[socket.socket], None]
ClientWords = Callable[[str, int], list[str]]

#: Clients that send so much that they need a peer that reads.
SENDERS = ["tcpsource", "recordsource", "sendfile_client", "netcat"]
CLIENTS = [*SENDERS, "tcp_nodelay_client", "quoteclient"]
LISTENERS = ["tcpsink", "recordsink", "sendfile_server", "quoteserver", "tcp_nodelay_server"]


@pytest.fixture(scope="module")
def large_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a sparse 64 MB file, which exceeds the buffers of both ends."""
    path = tmp_path_factory.mktemp("file") / "large"
    with path.open("wb") as file:
        file.truncate(64_000_000)
    return path


@pytest.fixture
def client_words(large_file: Path) -> ClientWords:
    """Return a function that makes a client's command line for a port on 127.0.0.1."""

    def options(program: str, port: int) -> list[str]:
        place = ["127.0.0.1", str(port)]
        return {
            "tcpsource": ["-c", "1000000", "-s", "65536", "-p", place[1], place[0]],
            "recordsource": ["-c", "10000000", "-p", place[1], place[0]],
            "sendfile_client": ["-p", place[1], place[0], str(large_file)],
            "tcp_nodelay_client": [*place, "10"],
            "netcat": place,
        }.get(program, ["-p", place[1], place[0]])

    return lambda program, port: [*program.split(), *options(program.split()[0], port)]


@pytest.fixture
def standard_input(large_file: Path) -> Iterator[int]:
    """Yield the large file as netcat's standard input; the other programs do not read it."""
    with large_file.open("rb") as file:
        yield file.fileno()


def listener_words(program: str) -> list[str]:
    if program == "tcp_nodelay_server":
        return [program, "--bind", "127.0.0.1", "0", "10"]
    return [program, "--bind", "127.0.0.1", "-p", "0"]


# ---- no peer ----


@pytest.mark.parametrize("program", CLIENTS)
def test_a_refusal_is_named(programs: Programs, client_words: ClientWords, program: str) -> None:
    with socket.socket() as held:  # so no other program listens there
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        line = complaint(programs.run(*client_words(program, port)), 1)
    assert line == f"127.0.0.1 port {port}: ECONNREFUSED: Connection refused"


@pytest.mark.parametrize("program", CLIENTS)
def test_unknown_host_is_named(programs: Programs, client_words: ClientWords, program: str) -> None:
    arguments = client_words(program, 9)
    host = "x" * 64 + ".invalid"  # too long for DNS, so no query is sent
    arguments[arguments.index("127.0.0.1")] = host
    assert complaint(programs.run(*arguments), 1).startswith(f"{host}: ")


@pytest.mark.parametrize("program", LISTENERS)
def test_a_port_in_use_is_named(programs: Programs, program: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = str(taken.getsockname()[1])
        arguments = [port if word == "0" else word for word in listener_words(program)]
        line = complaint(programs.run(*arguments), 1)
    assert line == f"port {port}: EADDRINUSE: Address already in use"


def test_a_udp_port_in_use_or_without_a_sink_is_named(programs: Programs) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as held:
        held.bind(("127.0.0.1", 0))
        held.connect(("127.0.0.1", 9))  # it accepts datagrams from there only
        port = held.getsockname()[1]
        line = complaint(programs.run("udpsource", "-p", port, "127.0.0.1"), 1)
        assert line == f"no sink listens on port {port}"
        line = complaint(programs.run("udpsink", "-p", port, "--bind", "127.0.0.1"), 1)
        assert line == f"port {port}: EADDRINUSE: Address already in use"


@pytest.mark.parametrize("program", [*LISTENERS, "udpsink"])
def test_a_listener_ends_at_its_deadline(programs: Programs, program: str) -> None:
    done = programs.run(*listener_words(program), "--deadline", "0.2")
    line = complaint(done, 1)
    assert "--deadline" in line
    assert done.stdout.startswith("listening on ")


@pytest.mark.parametrize(("line", "message"), table("mistakes")["requests"])
def test_missing_capabilities_of_this_machine_are_named(
    programs: Programs, line: str, message: str
) -> None:
    assert re.match(message, complaint(programs.run(*shlex.split(line)), 1))


def test_forbidden_congestion_control_names_the_allowed_ones(
    installed: Programs, as_ordinary_user: Run
) -> None:
    available, allowed = (
        Path(f"/proc/sys/net/ipv4/tcp_{which}_congestion_control").read_text().split()
        for which in ("available", "allowed")
    )
    if not (forbidden := sorted(set(available) - set(allowed))):
        pytest.skip(f"every user may choose any of {' '.join(available)} here")
    done = as_ordinary_user(installed.command("tcpsink", "--congestion", forbidden[0]))
    assert f"--congestion {forbidden[0]}: only root may choose it here, others: " in done.stderr
    assert f"tcp_allowed_congestion_control='{' '.join(allowed)} {forbidden[0]}'" in done.stderr


# ---- a peer that goes away, or does nothing ----


@contextmanager
def peer(meet: Meet) -> Iterator[int]:
    """Yield the port of a process that accepts a connection and calls `meet` with it."""
    with contextlib.ExitStack() as stack:
        listener, port = stack.enter_context(tcp_listener())
        pid = os.fork()
        if pid == 0:
            with contextlib.suppress(OSError):
                first, _address = listener.accept()
                meet(first)
                time.sleep(PATIENCE_S)
            os._exit(0)
        try:
            yield port
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def read_some_and_reset(connection: socket.socket) -> None:
    connection.recv(100)
    reset(connection)


def read_some_and_close(connection: socket.socket) -> None:
    connection.recv(1, socket.MSG_PEEK)
    connection.shutdown(socket.SHUT_RDWR)
    connection.close()


def stand_still(_connection: socket.socket) -> None:
    time.sleep(PATIENCE_S)


@pytest.mark.parametrize("meet", [read_some_and_reset, read_some_and_close])
@pytest.mark.parametrize("program", [*SENDERS, "tcp_nodelay_client"])
def test_peer_that_closes_is_reported(
    programs: Programs, client_words: ClientWords, standard_input: int, program: str, meet: Meet
) -> None:
    with peer(meet) as port:
        done = programs.run(*client_words(program, port), stdin=standard_input)
    line = complaint(done, 1)
    assert re.search("ECONNRESET|EPIPE|closed the connection|ENOTCONN", line), line
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "meet", "message"),
    [
        (["tcpsource", "-c1"], lambda c: c.sendall(b"?"), "the sink sent more data than requested"),
        (["quoteclient", "--single"], read_some_and_close, "the server closed the connection"),
    ],
)
def test_peer_that_breaks_the_dialogue_is_reported(
    programs: Programs, arguments: list[str], meet: Meet, message: str
) -> None:
    with peer(meet) as port:
        line = complaint(programs.run(*arguments, "-p", port, "127.0.0.1"), 1)
    assert line.startswith(message)


#: Methods that wait for the peer in calls other than send().
METHODS = ["sendfile_client -m splice", "sendfile_client -m zerocopy"]


@pytest.mark.parametrize("program", [*CLIENTS, *METHODS])
def test_peer_that_stops_reading_is_reported(
    programs: Programs, client_words: ClientWords, standard_input: int, program: str
) -> None:
    with peer(stand_still) as port:
        arguments = [*client_words(program, port), "--deadline", "0.3"]
        line = complaint(programs.run(*arguments, stdin=standard_input), 1)
    assert "for 0.3 s (--deadline)" in line


@pytest.mark.parametrize("program", LISTENERS)
def test_silent_client_is_reported_at_the_deadline(programs: Programs, program: str) -> None:
    with (
        programs.listening(*listener_words(program), "--deadline", "0.3") as (process, port),
        contextlib.ExitStack() as stack,
    ):
        for _connection in range(2):  # quoteserver needs two
            stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        line = complaint(programs.finish(process), 1)
    assert line.endswith("no progress for 0.3 s (--deadline)")


@pytest.mark.parametrize("program", LISTENERS)
def test_client_that_resets_is_reported(programs: Programs, program: str) -> None:
    with programs.listening(*listener_words(program)) as (process, port):
        others = [socket.create_connection(("127.0.0.1", port)) for _connection in range(2)]
        others[0].sendall(b"\x00")
        reset(others[0])
        line = complaint(programs.finish(process), 1)
        others[1].close()
    assert "ECONNRESET" in line


@pytest.mark.parametrize(
    ("program", "sent", "message"),
    [
        ("tcp_nodelay_server", b"x" * 45, "after 1 of 10 messages and 15 of 30 bytes"),
        ("recordsink", b"\x00\x14\x00\x00\x00\x00", "in the middle of a record or batch"),
        ("recordsink", b"\x00\x13" + b"x" * 100, "a length of 19 is not from 20 to 100"),
        ("recordsink", b"\x00\x00\x00\x00", "a batch of 0 records is not from 1 to 1000"),
        ("recordsink", b"\x00\x00\x00\x02", "in the middle of a record or batch, after 0"),
        ("recordsink", b"GET / HTTP/1.1\r\n\r\n", "is the peer a recordsource?"),
        ("recordsink", b"\x00\x14\x00\x00\x00\x07" + b"x" * 14, "record 7 came where 0 was due"),
        ("quoteserver", b"S000", "in the middle of a request, after 0"),
    ],
)
def test_malformed_request_is_reported(
    programs: Programs, program: str, sent: bytes, message: str
) -> None:
    arguments = [*listener_words(program), *(["--single"] if program == "quoteserver" else [])]
    with (
        programs.listening(*arguments) as (process, port),
        socket.create_connection(("127.0.0.1", port)) as connection,
    ):
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionError):
            while connection.recv(4096):
                pass
        assert message in complaint(programs.finish(process), 1)


def test_silent_udp_sink_is_reported(programs: Programs) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sink:
        sink.bind(("127.0.0.1", 0))
        port = sink.getsockname()[1]
        arguments = ["udpsource", "-p", port, "127.0.0.1", "-c", "1", "--deadline", "0.3"]
        with programs.start(*arguments) as source:
            _data, address = sink.recvfrom(2000)
            sink.sendto(b"doneoops" + bytes(8), address)  # another run's answer does not count
            line = complaint(programs.finish(source), 1)
    found = re.match(r"the sink has not answered (\d+) end markers in 0.3 s", line)
    assert found is not None
    assert int(found[1]) > 1


def test_missing_end_marker_is_reported(programs: Programs) -> None:
    with (
        programs.listening("udpsink", "-p", "0", "--deadline", "0.3") as (process, port),
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as source,
    ):
        source.sendto(b"datarun." + bytes(8), ("127.0.0.1", port))
        line = complaint(programs.finish(process), 1)
    assert line.startswith("1 datagrams, then nothing for 0.3 s and no end marker")


# ---- output that cannot be written ----


def test_full_disk_for_the_result_is_reported(programs: Programs) -> None:
    with programs.listening("tcpsink", "-p", "0") as (sink, port):
        with Path("/dev/full").open("w") as full:
            done = programs.run("tcpsource", "-p", port, "127.0.0.1", stdout=full)
        programs.finish(sink)
    assert complaint(done, 1) == "writing the result: ENOSPC: No space left on device"


def test_full_disk_for_the_log_the_help_or_the_data_is_reported(programs: Programs) -> None:
    with programs.listening("recordsink", "-p", "0") as (sink, port):
        done = programs.run("recordsource", "-p", port, "127.0.0.1", "--log", "/dev/full")
        programs.finish(sink)
    assert complaint(done, 1) == "writing the --log file: ENOSPC: No space left on device"
    with Path("/dev/full").open("w") as full, peer(lambda c: c.sendall(b"x")) as port:
        assert "ENOSPC" in complaint(programs.run("tcpsource", "--help", stdout=full), 1)
        line = complaint(programs.run("netcat", "127.0.0.1", port, stdout=full), 1)
    assert line == "writing to standard output: ENOSPC: No space left on device"


def test_closed_standard_output_is_reported(programs: Programs) -> None:
    command = programs.command("tcpsink", "-p", "0")
    done = completed(["sh", "-c", 'exec "$@" >&-', "sh", *command], env=programs.environment)
    assert done.returncode == 1
    assert done.stderr == "tcpsink: standard output is closed, so the result has nowhere to go\n"


def test_full_disk_for_the_received_file_is_reported(programs: Programs, large_file: Path) -> None:
    with programs.listening("sendfile_server", "-p", "0", "-o", "/dev/full") as (receiver, port):
        sender = programs.run("sendfile_client", "-p", port, "127.0.0.1", large_file)
        line = complaint(programs.finish(receiver), 1)
    assert line == "writing /dev/full: ENOSPC: No space left on device"
    assert re.search("ECONNRESET|EPIPE", complaint(sender, 1))


@pytest.mark.parametrize("method", ["read", "mmap", "sendfile", "splice", "zerocopy"])
def test_file_that_shrinks_is_reported(programs: Programs, tmp_path: Path, method: str) -> None:
    path = tmp_path / "shrinking"
    with path.open("wb") as file:
        file.truncate(64_000_000)
    with tcp_listener() as (listener, port):
        arguments = ["-m", method, "-p", port, "127.0.0.1", path]
        with programs.start("sendfile_client", *arguments) as process:
            connection, _address = listener.accept()
            with connection:
                connection.recv(1)
                os.truncate(path, 1)
                while connection.recv(1 << 20):
                    pass
            line = complaint(programs.finish(process), 1)
    assert "became shorter while it was" in line


# ---- signals ----


@pytest.mark.parametrize("program", ["tcpsink", "udpsink", "netcat"])
def test_signal_ends_each_program_without_a_message(programs: Programs, program: str) -> None:
    def as_in_a_shell() -> None:  # a child inherits ignored signals (nohup)
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    arguments = ["-v", "-l", "0"] if program == "netcat" else ["-p", "0"]
    with programs.start(program, *arguments, preexec_fn=as_in_a_shell) as process:
        ready = process.stderr if program == "netcat" else process.stdout
        assert ready is not None
        ready.readline()
        process.send_signal(signal.SIGINT)
        done = programs.finish(process)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")


def test_stop_and_continue_do_not_fail_a_transfer(programs: Programs) -> None:
    """With a time limit on the socket, system calls return EINTR after SIGCONT (signal(7))."""
    sink = ["tcp_nodelay_server", "--bind", "127.0.0.1", "0", "40"]
    with programs.listening(*sink, "--json") as (server, port):
        arguments = ["127.0.0.1", port, "40", "--json"]
        with programs.start("tcp_nodelay_client", *arguments) as client:
            for _round in range(5):
                for process in (client, server):
                    process.send_signal(signal.SIGSTOP)
                    time.sleep(0.02)
                    process.send_signal(signal.SIGCONT)
                    time.sleep(0.02)
            assert programs.finish(client).returncode == 0
        done = programs.finish(server)
    assert (done.returncode, done.stderr) == (0, "")
