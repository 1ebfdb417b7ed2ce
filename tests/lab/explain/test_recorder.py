"""Test the recorder of calls: the calls it sees, the gaps it reports, and how it ends."""

import os
import signal
import socket
import subprocess
import textwrap
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.support.commands import completed
from tests.support.explain.programs import python
from tests.support.lifetime import until
from tests.support.needs import IPV6
from tests.support.nonempty import each
from tests.support.ordinary_user import Run
from tests.support.programs.harness import PATIENCE_S, Programs

from tcplab.lab import program_path
from tcplab.programs import CallLog, SocketCalls
from tcplab.programs.calls import HANDS_OVER, read_calls


def calls(log: Path, *command: str, options: Sequence[str] = ()) -> list[str]:
    """Return a command line that runs a command under the recorder."""
    return [str(program_path("calls")), *options, str(log), "--", *command]


def recorded(log: Path, *command: str, status: int = 0, options: Sequence[str] = ()) -> CallLog:
    """Run a command under the recorder; return the log of its calls."""
    done = completed(calls(log, *command, options=options))
    assert done.returncode == status, done.stderr
    return read_calls(log)


def write_sizes(one: SocketCalls) -> list[int]:
    """Return the size of each write, as the program requested it."""
    return [call.asked_bytes for call in one.calls if call.name in HANDS_OVER]


TALK = """
    import socket, sys, os, threading
    family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
    listener = socket.create_server((sys.argv[1], 0), family=family)
    near = socket.create_connection(listener.getsockname()[:2])
    far, _ = listener.accept()
"""


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_each_way_to_write_is_seen_with_its_size(tmp_path: Path, address: str) -> None:
    if address == "::1":
        try:
            socket.create_server((address, 0), family=socket.AF_INET6).close()
        except OSError:
            pytest.skip(IPV6)
    log = recorded(
        tmp_path / "log",
        *python(
            TALK
            + """
    near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    os.write(near.fileno(), b"12")
    os.writev(near.fileno(), [b"123", b"4567"])
    near.send(b"1234", socket.MSG_MORE)
    near.sendmsg([b"12345", b"678"], [], 0)
    with open(sys.argv[2], "w+b") as file:
        file.write(b"x" * 1000)
        file.flush()
        os.sendfile(near.fileno(), file.fileno(), 0, 1000)
    r, w = os.pipe()
    os.write(w, b"123456")
    os.splice(r, near.fileno(), 6)
    far.recv(5000)
    near.shutdown(socket.SHUT_WR)
    """,
            address,
            tmp_path / "file",
        ),
    )
    near = next(sock for sock in log.sockets if write_sizes(sock))
    assert write_sizes(near) == [2, 7, 4, 8, 1000, 6]
    assert [call.name for call in near.calls][2] == "more"
    assert near.local[0] == near.peer[0] == address
    assert [(name, value) for _ns, name, value in near.options] == [("nodelay", 1)]
    assert near.nodelay is True
    assert near.calls[-1].written == sum(write_sizes(near))
    assert near.unseen_bytes() == 0
    assert [event.bytes for event in near.events(lambda _offset: None, 0, 0)][-1] == 6
    far = next(sock for sock in log.sockets if sock.local == near.peer)
    reads = [event for event in far.events(lambda _offset: None, 0, 0) if event.name == "read"]
    assert sum(event.bytes for event in reads) == 1027
    assert log.listening[0][1] == near.peer
    assert log.whole
    assert log.exit_status == 0


def test_threads_children_and_programs_that_are_executed_are_seen(tmp_path: Path) -> None:
    log = recorded(
        tmp_path / "log",
        *python(
            TALK
            + """
    worker = threading.Thread(target=near.send, args=(b"1",))
    worker.start(); worker.join()
    if os.fork() == 0:
        near.send(b"22")
        os.set_inheritable(near.fileno(), True)
        os.execvp("sh", ["sh", "-c", f"echo -n 333 >&{near.fileno()}"])
    os.wait()
    """,
            "127.0.0.1",
        ),
    )
    assert sorted(write_sizes(next(one for one in log.sockets if write_sizes(one)))) == [1, 2, 3]
    assert any(path.endswith("/sh") for path in log.programs)


def test_an_ordinary_user_can_record(as_ordinary_user: Run) -> None:
    shell = '"$0" calls.log -- python -c "$1" 127.0.0.1 && cat calls.log'
    script = textwrap.dedent(TALK + "\n    near.send(b'12')\n")
    done = as_ordinary_user(["sh", "-c", shell, str(program_path("calls")), script])
    assert done.returncode == 0, done.stderr
    assert [line.split()[4] for line in done.stdout.splitlines() if " write " in line] == ["2"]


# ---- how it ends ----


def test_the_exit_status_is_that_of_the_command(tmp_path: Path) -> None:
    assert recorded(tmp_path / "log", "sh", "-c", "exit 7", status=7).exit_status == 7
    assert recorded(tmp_path / "log", "sh", "-c", "kill -9 $$", status=137).exit_status == 137


def test_a_command_that_does_not_exist_is_one_line(tmp_path: Path) -> None:
    done = completed(calls(tmp_path / "log", "/no/such"))
    assert done.returncode == 127
    assert done.stderr == "/no/such: ENOENT: No such file or directory\n"


def test_it_waits_for_the_children_that_outlive_the_command(tmp_path: Path) -> None:
    command = ["sh", "-c", "(sleep 0.4; echo done >%s) & exit 3" % (tmp_path / "late")]
    recorded(tmp_path / "log", *command, status=3)
    assert (tmp_path / "late").read_text() == "done\n"


def test_option_first_ends_the_recorder_with_the_command(tmp_path: Path) -> None:
    begin = time.monotonic()
    recorded(
        tmp_path / "log", "sh", "-c", "sleep 5 >&- 2>&- & exit 3", status=3, options=["--first"]
    )
    assert time.monotonic() - begin < 4


def test_hundred_children_with_ten_connections_each_are_told_apart(tmp_path: Path) -> None:
    """There are more connections than the recorder may have descriptors."""
    text = """
    import os, socket
    listener = socket.create_server(("127.0.0.1", 0), backlog=2000)
    for child in range(100):
        if os.fork() == 0:
            for i in range(10):
                with socket.create_connection(listener.getsockname()) as near:
                    near.send(b"x" * (10 * child + i + 1))
            os._exit(0)
    for _ in range(100):
        os.wait()
    """
    limited = ["sh", "-c", 'ulimit -n 200; exec "$0" "$@"']
    completed([*limited, *calls(tmp_path / "log", *python(text))], check=True)
    sent = [one for one in read_calls(tmp_path / "log").sockets if write_sizes(one)]
    assert sorted(map(write_sizes, sent)) == [[i + 1] for i in range(1000)]
    assert len({one.pid for one in sent}) == 100


def test_after_the_limit_calls_are_counted_and_no_longer_logged(tmp_path: Path) -> None:
    text = TALK + "\n    for _ in range(3000): near.send(b'12')\n"
    log = recorded(tmp_path / "log", *python(text, "127.0.0.1"), options=["--most", "50"])
    assert log.logged == 50
    assert log.calls > 3000
    assert log.whole


@pytest.mark.parametrize("is_killed", [True, False], ids=["SIGKILL", "a second SIGTERM"])
def test_a_command_that_ignores_signals_dies_with_its_recorder(
    tmp_path: Path, is_killed: bool
) -> None:
    pid_file = tmp_path / "pid"
    text = """
    import os, signal, sys, time
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    open(sys.argv[1], "w").write(str(os.getpid()))
    while True:
        time.sleep(0.01)
        os.write(1, b"")
    """
    recorder = subprocess.Popen(calls(tmp_path / "log", *python(text, pid_file)))
    until(lambda: pid_file.exists() and pid_file.read_text())
    recorder.send_signal(signal.SIGTERM)
    time.sleep(0.2)
    assert recorder.poll() is None, "the command decides on SIGTERM"
    recorder.send_signal(signal.SIGKILL if is_killed else signal.SIGTERM)
    assert recorder.wait(PATIENCE_S) == (-signal.SIGKILL if is_killed else 128 + signal.SIGKILL)
    until(lambda: not Path("/proc", pid_file.read_text()).exists())
    assert read_calls(tmp_path / "log").whole is not is_killed


def test_processes_left_behind_do_not_hang_when_the_recorder_is_killed(tmp_path: Path) -> None:
    """The calls of such a process fail with ENOSYS, because the filter's listener is closed."""
    text = """
    import os, sys, time
    if os.fork():
        time.sleep(60)
    os.setsid()
    try:
        open(sys.argv[1] + ".started", "w").close()  # this may be the call that fails
        while True:
            time.sleep(0.01)
            os.write(2, b"")
    except OSError as error:
        os.mkdir(sys.argv[1] + "." + str(error.errno))
    """
    name = tmp_path / "end"
    command = calls(tmp_path / "log", *python(text, name))
    recorder = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    until(name.with_suffix(".started").exists)
    recorder.kill()
    recorder.wait()
    until(name.with_suffix(".38").exists)


def test_a_set_user_id_program_is_named(tmp_path: Path) -> None:
    program = next(
        (path for path in ("/usr/bin/su", "/usr/bin/passwd") if Path(path).exists()), None
    )
    if program is None or not Path(program).stat().st_mode & 0o4000:
        pytest.skip("no set-user-ID program here")
    done = completed(calls(tmp_path / "log", program, "--help"))
    assert done.returncode in (0, 2, 6)
    assert read_calls(tmp_path / "log").unseen == ["setuid"]


def test_io_uring_is_named(tmp_path: Path) -> None:
    text = "import ctypes; ctypes.CDLL(None).syscall(425, 4, None)"
    if os.uname().machine != "x86_64":
        pytest.skip("the number of io_uring_setup is that of x86_64")
    assert recorded(tmp_path / "log", *python(text)).unseen == ["io_uring"]


def test_a_recorder_within_a_recorder_says_why_not(tmp_path: Path) -> None:
    done = completed(calls(tmp_path / "a", *calls(tmp_path / "b", "true")))
    assert done.returncode == 1
    assert "are we recorded ourselves?" in done.stderr


# ---- what it costs, and whether it is sound ----


def test_sanitizers_find_nothing_in_any_kind_of_line(tmp_path: Path, programs: Programs) -> None:
    """Make the sanitized recorder write every kind of log line."""
    text = (
        TALK
        + """
    near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 10000)
    near.sendmsg([b"12345", b"678"])
    far.recv(100)
    os.system("true")
    """
    )
    done = programs.run("calls", str(tmp_path / "log"), "--", *python(text, "127.0.0.1"))
    assert done.returncode == 0, done.stderr
    log = read_calls(tmp_path / "log")
    for one in each(log.sockets):
        assert one.calls
    assert log.whole
