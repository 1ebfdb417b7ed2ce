"""netcat sends both ways at once, ends each direction separately, and loses nothing."""

import random
import socket
import subprocess
from pathlib import Path

import pytest
from tests.support.programs.harness import PATIENCE_S, Programs, as_text, last_object

LARGE = random.Random(7).randbytes(5_000_000)


def files(tmp_path: Path, *contents: bytes) -> list[Path]:
    paths = [tmp_path / str(number) for number in range(len(contents))]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    return paths


@pytest.mark.parametrize("splice", [[], ["--splice"]])
@pytest.mark.parametrize(
    ("from_client", "from_server"), [(LARGE, LARGE), (b"request\n", LARGE), (b"", b"")]
)
def test_both_directions_carry_every_byte(
    programs: Programs, tmp_path: Path, splice: list[str], from_client: bytes, from_server: bytes
) -> None:
    client_in, server_in = files(tmp_path, from_client, from_server)
    client_out, server_out = tmp_path / "client out", tmp_path / "server out"
    with (
        client_in.open() as a,
        server_in.open() as b,
        client_out.open("w") as c,
        server_out.open("w") as d,
        programs.start("netcat", "-v", "-l", 0, *splice, stdin=b, stdout=d) as server,
    ):
        assert server.stderr is not None
        port = int(server.stderr.readline().split()[-1])
        client = programs.run("netcat", "127.0.0.1", port, *splice, "--json", stdin=a, stdout=c)
        served = programs.finish(server)
    assert (client.returncode, served.returncode) == (0, 0), client.stderr + served.stderr
    assert server_out.read_bytes() == from_client
    assert client_out.read_bytes() == from_server
    report = last_object(client.stderr)
    assert (report["bytes_sent"], report["bytes_received"]) == (len(from_client), len(from_server))
    served_text = as_text(served.stderr)
    assert served_text["bytes_sent"] == str(len(from_server))
    assert served_text["bytes_received"] == str(len(from_client))


def test_the_reader_of_our_output_sees_its_end_at_once(programs: Programs) -> None:
    """The reader sees the end while our input is open, since the directions end separately."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        programs.start(
            "netcat", "127.0.0.1", listener.getsockname()[1], stdin=subprocess.PIPE
        ) as process,
    ):
        connection, _address = listener.accept()
        with connection:
            connection.sendall(b"all I have to say")
            connection.shutdown(socket.SHUT_WR)
            assert process.stdout is not None
            assert process.stdin is not None
            assert process.stdout.read() == "all I have to say"
            process.stdin.write("and I still answer")
            process.stdin.close()
            answer = b""
            while piece := connection.recv(100):
                answer += piece
            assert answer == b"and I still answer"
        assert process.wait(PATIENCE_S) == 0
