"""The sandbox limits what a process in it can see, reach, use and leave behind."""

import json
import signal
import subprocess
import sys
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.lifetime import processes, until
from tests.support.ordinary_user import Run
from tests.support.paths import ROOT

from tcplab.errors import SandboxError
from tcplab.grading import sandbox
from tcplab.grading.programs import departures
from tcplab.grading.sandbox import Limits
from tcplab.grading.submission import Submission

#: No other process has this command, not even of the same test elsewhere on the machine.
SLEEP = f"sleep 98765.{uuid.uuid4().int}"
PROBE = r"""
import json, os, socket, subprocess
def fails(what):
    try:
        what()
    except OSError as error:
        return error.strerror or str(error)
    return "DONE"
lines = open("/proc/self/status").read().splitlines()
status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
def run(*words):
    return subprocess.run(words, capture_output=True).returncode
print(json.dumps({
    "root": sorted(os.listdir("/")),
    "cwd": os.getcwd(),
    "folder": sorted(os.listdir(".")),
    "pids": sorted(int(p) for p in os.listdir("/proc") if p.isdigit()),
    "capabilities": [status[k] for k in ("CapPrm", "CapEff", "CapBnd", "CapAmb")],
    "no_new_privs": status["NoNewPrivs"], "seccomp": status["Seccomp"],
    "interfaces": sorted(os.listdir("/sys/class/net")) if os.path.exists("/sys") else None,
    "environment": sorted(os.environ),
    "write_usr": fails(lambda: open("/usr/x", "w")),
    "write_root": fails(lambda: open("/x", "w")),
    "write_given": fails(lambda: open("/given/x", "w")),
    "write_here": fails(lambda: open("x", "w")),
    "network": fails(lambda: socket.create_connection(("192.0.2.1", 80), timeout=3)),
    "loopback": fails(lambda: socket.create_server(("127.0.0.1", 0))),
    "raw": fails(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW)),
    "vsock": fails(lambda: socket.socket(40, socket.SOCK_STREAM)),
    "kill_1": fails(lambda: os.kill(1, 9)),
    "mount": run("mount", "-t", "tmpfs", "x", "/tmp"),
    "remount": run("mount", "-o", "remount,rw", "/usr"),
    "su": run("su", "-c", "id"),
    "passwd": open("/etc/passwd").read().count("\n"),
}))
"""


@pytest.fixture
def given(tmp_path: Path) -> Path:
    tmp_path.chmod(0o755)
    folder = tmp_path / "given"
    folder.mkdir(mode=0o755)
    (folder / "notes.txt").write_text("mine")
    return folder


def test_sandbox_limits_files_processes_and_capabilities(given: Path) -> None:
    outcome = sandbox.run([sys.executable, "-c", PROBE], given=given)
    assert outcome.ok, outcome
    seen: dict[str, Any] = json.loads(outcome.output)
    top = {"bin", "dev", "etc", "given", "lib", "lib32", "lib64", "mnt", "proc", "sbin"}
    elsewhere = set(seen["root"]) - top - {"submission", "tmp", "usr"}
    # The other folders are only those where Python and the course are installed.
    tops = {path.parts[1] for path in sandbox._visible_paths()}
    assert elsewhere <= tops
    assert seen["cwd"] == "/submission"
    assert seen["folder"] == ["notes.txt"]
    assert len(seen["pids"]) <= 3
    assert set(seen["capabilities"]) == {"0000000000000000"}
    assert (seen["no_new_privs"], seen["seccomp"]) == ("1", "2")
    assert seen["interfaces"] in (None, ["lo"])
    assert not [name for name in seen["environment"] if name.startswith("TCPLAB_TEST")]
    assert seen["write_usr"] == seen["write_root"] == seen["write_given"] == "Read-only file system"
    assert seen["write_here"] == seen["loopback"] == "DONE"
    assert seen["network"] == "Network is unreachable"
    assert seen["raw"] == "Address family not supported by protocol"
    assert seen["vsock"] != "DONE"
    assert seen["kill_1"] in ("DONE", "Operation not permitted")  # process 1 ignores the signal
    assert 0 not in (seen["mount"], seen["remount"], seen["su"])
    assert seen["passwd"] == 1


def test_sources_next_to_the_package_are_not_visible() -> None:
    root = ROOT
    outcome = sandbox.run(["/bin/ls", "-A", str(root)])
    seen = set(outcome.output.decode().split())
    assert not seen & {"solutions", "exercises", "tests", ".git", "gradebook.db", "submitted"}


def run_python(script: str, **limits: Any) -> sandbox.Outcome:
    return sandbox.run(
        ["/usr/bin/env", "python3", "-c", script], limits=replace(Limits(), **limits)
    )


def test_each_limit_stops_a_program_and_is_named() -> None:
    assert run_python("while True: pass", cpu_s=1).stopped_by == "cpu"
    assert run_python("import time; time.sleep(60)", wall_s=1).stopped_by == "wall"
    eat = "x = []\nwhile True: x.append(bytearray(b'x' * (1 << 24)))"
    assert run_python(eat, memory_bytes=128 << 20).stopped_by == "memory"
    bomb = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
    assert run_python(bomb, processes=20).stopped_by == "processes"
    talk = "while True: print('x' * 1000)"
    chatty = run_python(talk, output_bytes=100_000)
    assert chatty.stopped_by == "output"
    assert len(chatty.output) == 100_000
    write = "open('x', 'wb').write(b'x' * (1 << 24))"
    assert not run_python(write, file_bytes=1 << 20).ok
    assert b"No space left" in run_python(write, folder_bytes=4 << 20).errors


def test_output_past_its_limit_is_cut_before_its_end_and_the_program_goes_on() -> None:
    talk = "import sys; sys.stderr.write('x' * 2_999_999 + '7'); print('y' * 50_000)"
    outcome = run_python(talk, output_bytes=100_000)
    assert outcome.ok, outcome.how_it_ended()
    assert (len(outcome.errors), outcome.output) == (100_000, b"y" * 50_000 + b"\n")
    assert outcome.errors.endswith(b"x7")
    assert outcome.dropped_bytes == 2_900_000
    assert outcome.how_it_ended().endswith("(2900000 bytes of its output were dropped)")


def test_processes_left_behind_are_killed_and_counted() -> None:
    outcome = sandbox.run(["/bin/sh", "-c", f"{SLEEP} & {SLEEP} & exit 3"])
    assert outcome.exit_status == 3
    assert outcome.left_behind == 2
    assert not _running(SLEEP)


def test_sandbox_ends_with_a_killed_grader() -> None:
    script = (
        "import sys, time\nfrom tcplab.grading import sandbox\n"
        f"started = sandbox.start(['/bin/sh', '-c', '{SLEEP} & {SLEEP}'])\n"
        "print('started', flush=True)\ntime.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as grader:
        assert grader.stdout is not None
        grader.stdout.readline()
        until(lambda: len(_running(SLEEP)) >= 2)
        grader.send_signal(signal.SIGKILL)
    until(lambda: not _running(SLEEP))


def _running(command: str) -> list[str]:
    return [folder.name for folder, arguments in processes() if " ".join(arguments) == command]


def test_reason_is_given_where_no_sandbox_can_be_made() -> None:
    with pytest.raises(SandboxError, match=r"^no sandbox: open_tree of /does/not/exist: ENOENT"):
        sandbox.run(["/bin/true"], given=Path("/does/not/exist"))


def test_failed_copy_is_not_the_commands_end(tmp_path: Path) -> None:
    """A failed copy used to be reported as exit status 1 of the learner's program."""
    tmp_path.chmod(0o755)
    (tmp_path / "large").write_bytes(b"1" * (3 << 20))
    small = replace(Limits(), folder_bytes=2 << 20)
    with pytest.raises(SandboxError, match="does not fit into its folder of 2097152 bytes"):
        sandbox.run(["/bin/true"], given=tmp_path, limits=small)
    assert sandbox.run(["/bin/true"], given=tmp_path).ok
    assert sandbox.run(["/no/such/program"], given=tmp_path).exit_status == 1


def test_python_in_the_home_itself_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", sys.prefix)
    with pytest.raises(SandboxError, match="would see your home; install them in a subfolder"):
        sandbox.run(["/bin/true"])


def test_unsafe_run_has_no_sandbox_and_says_so(given: Path) -> None:
    outcome = sandbox.run(["/bin/sh", "-c", "cat notes.txt; ls /"], given=given, unsafe=True)
    assert outcome.output.startswith(b"mine")
    assert {"etc", "root", "usr"} <= set(outcome.output[4:].decode().split())


def test_sandbox_as_an_ordinary_user(as_ordinary_user: Run) -> None:
    script = (
        "import os, sys\nfrom pathlib import Path\n"
        "from tcplab.grading.sandbox import run, why_no_sandbox\n"
        "reason = why_no_sandbox()\n"
        "if reason: sys.exit('SKIP ' + reason)\n"
        "diary = Path.home() / 'diary.txt'\n"
        "diary.write_text('private')\n"
        "outcome = run(['/bin/sh', '-c', f'id -u; touch /usr/x; cat {diary}'])\n"
        "print(int(outcome.output) == os.getuid(), outcome.errors.count(b'Read-only'), "
        "outcome.errors.count(b'No such file'))\n"
    )
    done = as_ordinary_user(["python", "-c", script])
    if "SKIP" in done.stderr:
        pytest.skip(done.stderr.strip().removeprefix("SKIP "))
    assert done.stdout.split() == ["True", "1", "1"], done.stderr


# ---- in the laboratory ---------------------------------------------------------------------------

FORGER = rb"""
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
/* Talks to a server of its own instead of the grader's, and tries to send packets by hand. */
int main(int argc, char **argv) {
    printf("raw %d packet %d namespace %d sysctl %d\n", socket(AF_INET, SOCK_RAW, 6) >= 0,
           socket(AF_PACKET, SOCK_RAW, 0) >= 0, unshare(CLONE_NEWUSER) == 0,
           system("echo 1 >/proc/sys/net/ipv4/ip_forward") == 0 && argc);
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_port = htons(9000)};
    inet_pton(AF_INET, "10.0.0.1", &own.sin_addr);
    int listener = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (void *)&own, sizeof own) || listen(listener, 1) ||
        connect(fd, (void *)&own, sizeof own))
        return 1;
    for (int i = 0; i < 10; i++)
        if (write(fd, "forged", 6) != 6)
            return 1;
    (void)argv;
    return 0;
}
"""


def test_faked_traffic_is_not_seen_on_the_wire() -> None:
    with Submission("ada", {}, {}, {"forger.c": FORGER}) as work:
        built = work.compile("forger.c")
        assert built.binary, built.messages
        run = work.run_in_lab(
            built,
            ["10.0.0.2", "{port}"],
            peer=["tcpsink", "--json", "--port", "0", "--deadline", "1"],
        )
    assert run.outcome.ok, run.outcome
    assert run.outcome.output == b"raw 0 packet 0 namespace 0 sysctl 0\n"
    assert run.peer is None
    assert run.peer_error
    assert len(run.client_segments) == 0
    assert departures(run) == []


SERVER = rb"""
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
int main(int argc, char **argv) {
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[1]))};
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (argc != 2 || bind(listener, (void *)&here, sizeof here) || listen(listener, 1))
        return 1;
    int fd = accept(listener, 0, 0);
    char data[65536];
    while (read(fd, data, sizeof data) > 0)
        ;
    return 0;
}
"""


@pytest.mark.parametrize("talk", ["", "talk(20000);", "talk(200);"])
def test_server_may_print_any_amount(talk: str) -> None:
    """The server may print before it listens and at each read. Output beyond the limit is cut."""
    spoken = "while (read(fd, data, sizeof data) > 0)\n        " + talk
    source = SERVER.decode().replace("while (read(fd, data, sizeof data) > 0)", spoken)
    source = source.replace("struct sockaddr_in here", f"{talk}\n    struct sockaddr_in here")
    source = source.replace(
        "int main",
        "static void talk(int lines) {\n    char line[100] = {0};\n    while (lines-- > 0)\n"
        "        if (write(2, line, 100) != 100)\n            exit(3);\n}\n"
        "int main",
    )
    with Submission("ada", {}, {}, {"server.c": source.encode()}) as work:
        run = work.run_in_lab(
            work.compile("server.c"),
            ["{port}"],
            server_port=9000,
            peer=["tcpsource", "--json", "-s1000", "-c20", "--port", "{port}", "10.0.0.2"],
        )
        assert run.answered
        assert run.outcome.ok, run.outcome.how_it_ended()
        assert run.peer is not None, run.peer_error
        assert departures(run)[-1].end_bytes == 20_000
    cut = [flag for flag in work.flags if flag.startswith("output-cut: server.c printed")]
    assert work.flags == cut
    assert bool(cut) == (talk == "talk(20000);")


def test_server_that_does_not_listen_has_not_answered() -> None:
    with Submission("ada", {}, {}, {"silent.c": b"int main(void) { return 0; }"}) as work:
        peer = ["tcpsource", "--json", "10.0.0.2"]
        assert not work.run_in_lab(
            work.compile("silent.c"), [], server_port=9000, peer=peer
        ).answered


def test_source_with_a_course_header_is_linked_in_the_sandbox() -> None:
    source = (
        b'#include "net.h"\n'
        b"int main(int argc, char **argv) {\n"
        b"    static const struct program_option none[] = {{0}};\n"
        b'    static const struct command command = {.usage = "mine", .options = none};\n'
        b"    start_program(argc, argv, &command);\n"
        b"    return clock_ns(0) > 0 ? 0 : 1;\n"
        b"}\n"
    )
    with Submission("ada", {}, {}, {"mine.c": source}) as work:
        built = work.compile("mine.c")
        assert built.binary, built.messages
        with work.start(built) as program:
            assert program.finish().ok
        assert work.compile("missing.c").messages == "missing.c was not handed in."
