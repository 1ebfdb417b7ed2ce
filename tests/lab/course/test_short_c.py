"""The short C programs of the lessons are plain, free of warnings, and checked on the wire."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.nonempty import each
from tests.support.paths import ROOT
from tests.support.timeline.made_up import ack, capture, data, handshake

from tcplab import Lab
from tcplab.course import short_c
from tcplab.course.short_c import Ran
from tcplab.errors import ParameterError
from tcplab.experiments.diagnosis.repair import Verdict
from tcplab.programs.compile import compile_program

PROGRAMS = sorted((ROOT / "lessons/c").glob("*.c"))
#: Lesson -> name of a case -> the replacements in its program's text, and the verdict. The verdict
#: is whether the program passes, or words of its complaint.
CHECKS: dict[str, dict[str, tuple[dict[str, str], bool | str]]] = {}
CHOICE = "argv[3][0] == 'w' ? write_at_once(fd) : send_pieces(fd);"
CALL = "send(fd, text + i * PIECE_BYTES, PIECE_BYTES, 0);"


def judged(slug: str, changes: Mapping[str, str], folder: Path) -> Verdict:
    """Return the verdict on a copy of a program, with all changes made at once."""
    path = short_c.copy(slug, folder)
    text = path.read_text()
    assert all(old in text for old in changes)
    if changes:
        pattern = "|".join(map(re.escape, changes))
        path.write_text(re.sub(pattern, lambda found: changes[found[0]], text))
    return short_c.check(slug, path)


def test_each_program_has_a_check_and_compiles_without_a_warning() -> None:
    assert [path.stem for path in PROGRAMS] == sorted(short_c.CASES)
    for path in each(PROGRAMS):
        text = path.read_text()
        assert len(text.splitlines()) <= 50
        assert '#include "' not in text  # only the system's headers
        built = compile_program(path.name, text.encode(), flags=["-Wpedantic", "-Werror"])
        assert built.binary is not None, built.messages


def test_a_copy_is_kept_and_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert short_c.path_of("small-writes") == ROOT / "lessons/c/small-writes.c"
    path = short_c.copy("small-writes")
    path.write_text("mine")
    assert short_c.copy("small-writes").read_text() == "mine"
    assert short_c.path_of("small-writes") == path
    with pytest.raises(ParameterError, match="slug 'no-such-lesson'"):
        short_c.copy("no-such-lesson")


@pytest.mark.needs_lab
def test_the_two_ways_of_small_writes() -> None:
    with Lab() as lab:
        pieces, whole = (short_c.run(lab, "small-writes", how) for how in ("send", "writev"))
    assert whole.sizes == [30] * 10
    assert sum(pieces.sizes) == 300
    assert len(pieces.sizes) >= 20
    assert pieces.stream == whole.stream
    assert str(whole).splitlines()[1].endswith(" writev")


CHECKS["small-writes"] = {
    "as it is": ({}, False),
    "one call": ({CHOICE: "send(fd, text, sizeof text - 1, 0);"}, True),
    "MSG_MORE": ({CALL: CALL.replace(", 0)", ", i < PIECES - 1 ? MSG_MORE : 0)")}, True),
    "other bytes": ({CHOICE: "text[0]++, send(fd, text, sizeof text - 1, 0);"}, False),
    "too few bytes": (
        {"i < PIECES; i++)\n        send": "i < PIECES - 1; i++)\n        send"},
        False,
    ),
    "no C": ({"int main": "int man("}, False),
}

ON, OFF, EARLY = "set_cork(fd, corked);", "set_cork(fd, 0);", "return -1;"
HEADER, BODY = "send(fd, header, HEADER, 0);", "send(fd, body, BODY, 0);"
BLANK, REPLY = "send(fd, blank, BODY + TRAILER, 0);", "if (recv("
MORE = {each: each.replace(", 0)", ", MSG_MORE)") for each in (HEADER, BODY)}
NODELAY = "int on = 1; setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);"
CHECKS["cork"] = {
    "as it is": ({}, False),
    "pulled on the error path": ({EARLY: OFF + EARLY}, True),
    "pulled by the caller": ({OFF: "", REPLY: OFF + REPLY}, True),
    "MSG_MORE": ({ON: "", **MORE}, True),
    "pulled too early": ({BLANK: OFF + BLANK}, False),
    "no cork": ({ON: ""}, False),
    "TCP_NODELAY in place of it": ({ON: NODELAY}, False),
    "nothing in place of the blank": ({BLANK: "", EARLY: OFF + EARLY}, False),
    "no sensor fails": ({"if (failed)": "if (0)"}, False),
}


ASK = 'report("answered");'
AGAIN = 'if (!ask(fd)) return 1; report("again");'
CONNECT = "connect(fd, (struct sockaddr *)&peer, sizeof peer);"
CHECKS["the-lab"] = {
    "as it is": ({}, False),
    "asked again": ({ASK: ASK + AGAIN}, True),
    "twice at once": ({'"hello", 5, 0': '"hellohello", 10, 0'}, False),
    "a second connection": (
        {ASK: f"close(fd); fd = socket(AF_INET, SOCK_STREAM, 0); {CONNECT} {AGAIN}"},
        False,
    ),
}


LOOP = "        if (argv[3][0] != 'b')\n            wait_for_ack(fd);\n"
SEND = "send(fd, record, sizeof record, 0);"
CHECKS["records-and-quotes"] = {
    "as it is": ({}, False),
    "one wait at the end": ({LOOP: ""}, True),
    "the same with TCP_NODELAY": ({LOOP: "", "on = argv[3][0] == 'n'": "on = 1"}, True),
    "TCP_NODELAY alone": ({"on = argv[3][0] == 'n'": "on = 1"}, False),
    "every second record": ({"if (argv[3][0] != 'b')": "if (i % 2)"}, False),
    "fewer records": ({LOOP: "", "RECORDS = 60": "RECORDS = 40"}, False),
    "one record more": ({LOOP: "", SEND: SEND + "if (i == 0) " + SEND}, False),
}


@pytest.mark.needs_lab
def test_the_three_ways_of_cork() -> None:
    with Lab(rtt_ms=20) as lab:
        alone, joined, broken = (
            short_c.run(lab, "cork", how) for how in ("default", "cork", "broken")
        )
    assert alone.sizes == 5 * [200, 1448, 1448, 124]
    assert joined.bursts == 5 * [[1448, 1448, 324]]
    late, whole = [[1448, 1448], [324]], [[1448, 1448, 324]]
    assert broken.bursts == whole + late + whole + late + whole
    assert alone.stream == joined.stream != broken.stream


BEFORE = "ask_for(listener, atoi(argv[3]));"
AFTER = "ask_for(fd, atoi(argv[4]));"
PEEK = "recv(fd, &(char){0}, 1, MSG_PEEK);"
CHECKS["buffers"] = {
    "as it is": ({}, False),
    "moved": ({AFTER: "", BEFORE: BEFORE + "ask_for(listener, atoi(argv[4]));"}, True),
    "the large size before, and after": ({BEFORE: "ask_for(listener, atoi(argv[4]));"}, True),
    "nothing asked for": ({BEFORE: "", AFTER: ""}, True),
    "only after the first data": ({BEFORE: "", AFTER: PEEK + AFTER}, False),
    "exchanged": ({"argv[3]": "argv[4]", "argv[4]": "argv[3]"}, False),
    "before, but for bind()": ({AFTER: "", "int fd =": f"{BEFORE} int fd ="}, False),
    "too small": ({BEFORE: "ask_for(listener, 131072);", AFTER: ""}, False),
    "stops early": ({BEFORE: "", "(got = recv": "total < 999999 && (got = recv"}, False),
    "does not listen": ({"|| listen(listener, 1) < 0": ""}, False),
    "fails": ({"printf(": "exit(3); printf("}, False),
}


CONNECT = "if (connect("
LOWAT = "setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &(int){16384}, sizeof(int));"
SNDBUF = "setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &(int){16384}, sizeof(int));"
HEADERS = {"#include <arpa/": "#include <netinet/tcp.h>\n#include <poll.h>\n#include <arpa/"}
MADE = "memset(record, '.', sizeof record);"
POLL = "poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, -1);"
WAIT = "for (int n = 16385; n > 16384; poll(NULL, 0, 1)) ioctl(fd, SIOCOUTQNSD, &n);"
CHECKS["send-buffer"] = {
    "as it is": ({}, "older records left between a question and its answer"),
    "a limit for unsent data": ({CONNECT: LOWAT + CONNECT, **HEADERS}, True),
    "a limit and poll()": ({CONNECT: LOWAT + CONNECT, MADE: POLL + MADE, **HEADERS}, True),
    "waits until little is unsent": ({MADE: WAIT + MADE, **HEADERS}, True),
    "a small buffer": ({CONNECT: SNDBUF + CONNECT}, "bytes were in flight, and the path"),
    "each record an answer": ({"'.'": "'!'"}, "1600 records begin with '!'"),
    "no answer": ({"record[0] = '!';": ""}, "0 records begin with '!', for 4 questions"),
    "few records": ({"RECORDS = 1600": "RECORDS = 400"}, "client closed|bytes sent are not 1600"),
    "other bytes": ({"record[0] = '!'": "record[9] = 'x', record[0] = '!'"}, "bytes sent are not"),
}


@pytest.mark.needs_lab
def test_a_program_that_listens() -> None:
    with Lab(rtt_ms=10, rate_mbit=50) as lab:
        ran = short_c.run(lab, "buffers", "65536", "0")
        lines = str(ran).splitlines()
        assert lines[0] == "server$ ./buffers 10.0.0.2 7000 65536 0"
        assert lines[1].startswith("client$ tcpsource ")
        assert lines[2].startswith("2621440 bytes at ")
        again = short_c.run(lab, "buffers", "0", "65536")  # the port is free again
    assert again.stream == ran.stream


CONNECT = "        int fd = connect_to(argv[1], argv[2]);\n"
LOOP = "    for (int i = 0; i < UPLOADS; i++) {\n"
CLOSE = "        close(fd);\n"
UPLOAD = "        upload(fd, data, bytes);\n"
ONE_CONNECTION = {LOOP: CONNECT[4:] + LOOP, CONNECT: "", CLOSE: ""}

CHECKS["slow-start"] = {
    "as it is": ({}, "opened 5 connections"),
    "one connection": (ONE_CONNECTION, True),
    "closed in the loop": ({LOOP: CONNECT[4:] + LOOP, CONNECT: ""}, False),
    "not closed": ({CLOSE: ""}, "opened 5 connections"),
    "one upload": ({"UPLOADS = 5": "UPLOADS = 1"}, "43,440 bytes sent are not the 217,200"),
    "a long rest": (
        ONE_CONNECTION | {UPLOAD: UPLOAD + "        usleep(700000);\n"},
        "flights, as if each began with a new window",
    ),
}


RECEIPT = "    char receipt[2];\n"
SENDS = "        send_message(fd, 'a' + i);\n"
CHECKS["loss"] = {
    "as it is": ({}, "came back by a probe"),
    "the end of the stream": ({RECEIPT: "    shutdown(fd, SHUT_WR);\n" + RECEIPT}, True),
    "one more message": ({RECEIPT: "    send_message(fd, 'z');\n" + RECEIPT}, True),
    "a byte": ({RECEIPT: '    send(fd, "!", 1, 0);\n' + RECEIPT}, True),
    "a byte, too late": (
        {RECEIPT: '    usleep(600000);\n    send(fd, "!", 1, 0);\n' + RECEIPT}
        | {"#include <time.h>\n": "#include <time.h>\n#include <unistd.h>\n"},
        "came back by a probe",
    ),
    "Nagle's algorithm": ({"TCP_NODELAY, &on": "TCP_MAXSEG, &(int){1460}"}, "not in 8 of 1000"),
    "other messages": ({SENDS: SENDS.replace("'a'", "'b'")}, "do not begin with the 8 messages"),
    "no receipt": ({RECEIPT: "    return 0;\n" + RECEIPT}, "ended without"),
}


@pytest.mark.parametrize(("reported_ms", "passed"), [(42, True), (330, False)])
def test_a_report_after_the_second_copy_is_too_late(reported_ms: float, passed: bool) -> None:
    """A loss probe of a segment that had already arrived also draws a SACK block (a DSACK)."""
    rows = [*handshake(), *(data(0, 1000 * number, 1000) for number in range(8))]
    rows += [data(290, 7000, 1000, is_retransmission=True), ack(reported_ms, 7000, sack_blocks=1)]
    stream = b"".join(1000 * letter.encode() for letter in "abcdefgh")
    complaint = short_c.CASES["loss"].complaint(
        Ran([], "receipt after 1 ms", capture(rows), stream)
    )
    assert (not complaint) is passed


@pytest.mark.needs_lab
@pytest.mark.parametrize(("lost", "gaps"), [(5, True), (8, False)])
def test_only_what_comes_after_a_loss_reports_it(lost: int, gaps: bool) -> None:
    with Lab(rtt_ms=40) as lab:
        lab.link.script("client->server", f"drop data nth={lost}")
        ran = short_c.run(lab, "loss")
    assert ran.sizes == [1000] * 8
    assert bool((ran.segments.sent_by("server")["sack_blocks"] > 0).any()) is gaps
    assert "receipt after" in ran.output


WHOLE = "sendfile(fd, file, NULL, size);"
CHECKS["sendfile"] = {
    "as it is": ({WHOLE: WHOLE}, False),
    "loop": ({WHOLE: "while (size > 0) size -= sendfile(fd, file, NULL, size);"}, True),
    "until the end": ({WHOLE: "while (sendfile(fd, file, NULL, size) > 0);"}, True),
    "own offset": (
        {WHOLE: "for (off_t at = 0; at < (off_t)size;) sendfile(fd, file, &at, size - at);"},
        True,
    ),
    "always from the start": (
        {
            WHOLE: "for (size_t n = 0; n < size;) { off_t at = 0;"
            " n += sendfile(fd, file, &at, size - n); }"
        },
        False,
    ),
    "small blocks": ({WHOLE: "(void)size; while (sendfile(fd, file, NULL, 4096) > 0);"}, False),
    "read and send": ({WHOLE: "(void)size; send_by_read(fd, file);"}, False),
}


@pytest.mark.needs_lab
def test_both_ways_of_sendfile_send_the_file() -> None:
    with Lab() as lab:
        for how in ("read", "sendfile"):
            ran = short_c.run(lab, "sendfile", how, file_mb=1)
            assert ran.stream == ran.file
            assert len(ran.file) == 1_000_000
            assert ran.commands[1].endswith(f" {how} FILE")


SENDS_FILES = {"#include <sys/socket.h>": "#include <sys/sendfile.h>\n#include <sys/socket.h>"}
LOOP = """    static char block[131072];
    ssize_t bytes;
    while ((bytes = read(from, block, sizeof block)) > 0)
        if (write(to, block, bytes) != bytes)
            exit(1);
"""
CHECKS["pipes"] = {
    "as it is": (SENDS_FILES | {LOOP: LOOP}, False),
    "splice": (
        SENDS_FILES | {LOOP: "while (splice(from, NULL, to, NULL, 1 << 20, 0) > 0) {}"},
        True,
    ),
    "splice, or else read": (
        SENDS_FILES
        | {LOOP: f"while (splice(from, NULL, to, NULL, 65536, SPLICE_F_MORE) > 0) {{}}\n{LOOP}"},
        True,
    ),
    "splice once": (SENDS_FILES | {LOOP: "splice(from, NULL, to, NULL, 1 << 20, 0);"}, False),
    "sendfile, which takes no pipe": (
        SENDS_FILES | {LOOP: "sendfile(to, from, NULL, 4000000);"},
        False,
    ),
    "other bytes": (
        SENDS_FILES | {LOOP: LOOP.replace("if (write", "if (block[0]++, write")},
        False,
    ),
}


@pytest.mark.needs_lab
def test_both_inputs_of_pipes_are_read_and_counted() -> None:
    with Lab() as lab:
        piped = short_c.run(lab, "pipes", stdin="cat FILE", file_mb=1)
        direct = short_c.run(lab, "pipes", stdin="FILE", file_mb=1)
    for ran in (piped, direct):
        assert ran.stream == ran.file
        assert "wchar: 1000000" in ran.output
    assert 1_000_000 <= piped.entered_bytes < 1_100_000
    uncounted = replace(piped, entered_bytes=-1)
    assert "does not count here" in short_c.CASES["pipes"].complaint(uncounted)
    assert piped.commands[1].startswith("client$ cat FILE | ./pipes ")
    assert direct.commands[1].endswith(" < FILE")


@pytest.mark.needs_lab
def test_a_stream_in_large_segments_is_left_out() -> None:
    with Lab(offload=True) as lab:
        ran = short_c.run(lab, "pipes", stdin="FILE", file_mb=1)
    assert ran.stream == b""
    assert sum(ran.sizes) == 1_000_000


BEFORE = "    if (connect("
AFTER = "    if (send("
SET = "setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &(int){%d}, sizeof(int));\n"
SEND = "send(fd, data, count, 0) != (ssize_t)count"

CHECKS["segments"] = {
    "as it is": ({}, False),
    "announced before connect()": ({BEFORE: SET % 1380 + BEFORE}, True),
    "after connect()": ({AFTER: SET % 1380 + AFTER}, False),
    "the packet's size": ({BEFORE: SET % 1420 + BEFORE}, False),
    "the data's size": ({BEFORE: SET % 1368 + BEFORE}, False),
    "another amount": ({SEND: "send(fd, data, 1368, 0) != 1368"}, False),
    "nothing sent": ({SEND: "0"}, False),
}


@pytest.mark.needs_lab
@pytest.mark.parametrize("mtu", [1500, 9000])
def test_segments_asks_for_the_mss_that_it_sends(mtu: int) -> None:
    with Lab(mtu=mtu) as lab:
        ran = short_c.run(lab, "segments", "100000")
    assert max(ran.sizes) == mtu - 52
    assert len(ran.stream) == 100_000
    expected = f"TCP_MAXSEG: 536 before connect(), {mtu - 52} after it, {mtu - 52} at the end"
    assert ran.output == expected


SEND_ALL = "send_message(fd, atoi(argv[i]));"
IN_HALVES = "for (int half = 0; half < 2; half++) send_message(fd, atoi(argv[i]) / 2);"
DISCOVER = "setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &(int){%s}, sizeof(int));\n"
MAXSEG = "setsockopt(fd, IPPROTO_TCP, 2 /* TCP_MAXSEG */, &(int){%d}, sizeof(int));\n"

CHECKS["path-mtu"] = {
    "as it is": ({}, False),
    "a smaller MSS": ({BEFORE: MAXSEG % 1160 + BEFORE}, True),
    "one byte too many": ({BEFORE: MAXSEG % 1161 + BEFORE}, False),
    "no DF": ({BEFORE: DISCOVER % "IP_PMTUDISC_DONT" + BEFORE}, True),
    "DF always": ({BEFORE: DISCOVER % "IP_PMTUDISC_DO" + BEFORE}, False),
    "messages that fit": ({SEND_ALL: IN_HALVES}, True),
    "less data": ({SEND_ALL: "send_message(fd, 100);"}, False),
}


@pytest.mark.needs_lab
@pytest.mark.parametrize(("icmp", "left"), [("off", 2000), ("on", 0)])
def test_path_mtu_waits_for_what_is_not_acknowledged(icmp: str, left: int) -> None:
    with Lab() as lab:
        lab.link.update("client->server", mtu=1200, icmp=icmp)
        ran = short_c.run(lab, "path-mtu", "100", "2000")
    assert ran.output.splitlines() == [
        "100 bytes sent, 0 not acknowledged",
        f"2000 bytes sent, {left} not acknowledged",
    ]


ONE_BY_ONE = """    for (int i = 0; i < BLOCKS; i++, calls++)
        if (send(fd, blocks + i * BLOCK_BYTES, BLOCK_BYTES, 0) < 0)"""
BATCHES = """    setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &(int){BLOCK_BYTES}, sizeof(int));
    for (int i = 0; i < BLOCKS; i += %d, calls++)
        if (send(fd, blocks + i * BLOCK_BYTES, %d * BLOCK_BYTES, 0) < 0)"""
NO_OPTION = (BATCHES % (45, 45)).partition("\n")[2]

CHECKS["tcp-vs-udp"] = {
    "as it is": ({}, False),
    "45 per call": ({ONE_BY_ONE: BATCHES % (45, 45)}, True),
    "10 per call": ({ONE_BY_ONE: BATCHES % (10, 10)}, False),
    "fragments": ({ONE_BY_ONE: NO_OPTION}, False),
    "every other block": ({ONE_BY_ONE: BATCHES % (90, 45)}, False),
}


@pytest.mark.needs_lab
def test_tcp_joins_blocks_and_udp_does_not() -> None:
    with Lab(offload=True) as lab:
        udp = short_c.run(lab, "tcp-vs-udp", "udp")
        tcp = short_c.run(lab, "tcp-vs-udp", "tcp", server=["tcpsink", "-p", "0"])
    assert udp.sizes == [1440] * 900
    assert sum(tcp.sizes) == sum(udp.sizes)
    assert len(tcp.sizes) < 900 - 1
    assert udp.output == tcp.output == "900 blocks, 900 calls"


def test_nothing_is_judged_without_a_laboratory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCPLAB_MODE", "recorded")
    assert short_c.check("small-writes").passed is None


CONNECT = "    if (connect(fd"
SEND = "        if (send(fd, block"
FIRST = "#include <arpa/inet.h>\n"
INCLUDED = {
    FIRST: FIRST + "#include <linux/sockios.h>\n#include <sys/ioctl.h>\n#include <unistd.h>\n"
}


def option(name: str, value: int) -> str:
    return f"int v = {value};\n    setsockopt(fd, {name}, &v, sizeof v);\n{CONNECT}"


def wait_while_more_than(left_bytes: int) -> str:
    condition = f"ioctl(fd, SIOCOUTQ, &left) == 0 && left > {left_bytes}"
    return f"int left;\n        while ({condition})\n            usleep(1000);\n{SEND}"


CHECKS["queues"] = {
    "as it is": (INCLUDED, False),
    "a BDP unacknowledged": (INCLUDED | {SEND: wait_while_more_than(25000)}, True),
    "paced": (INCLUDED | {CONNECT: option("SOL_SOCKET, SO_MAX_PACING_RATE", 1100000)}, True),
    "a small send buffer": (INCLUDED | {CONNECT: option("SOL_SOCKET, SO_SNDBUF", 16384)}, False),
    "little unsent": (INCLUDED | {CONNECT: option("IPPROTO_TCP, TCP_NOTSENT_LOWAT", 16384)}, False),
    "one block at a time": (INCLUDED | {SEND: wait_while_more_than(0)}, False),
    "half of the bytes": (INCLUDED | {"atoi(argv[3]) / 10;": "atoi(argv[3]) / 20;"}, False),
}


@pytest.mark.needs_lab
def test_a_longer_queue_makes_the_round_trip_of_queues_longer_and_the_copy_no_faster() -> None:
    found = []
    for queue_packets in (20, 1000):
        with Lab(rtt_ms=20, rate_mbit=10, congestion="reno", queue_packets=queue_packets) as lab:
            found.append(short_c.run(lab, "queues", "1000"))
    short, long = found
    assert len(short.stream) == len(long.stream) == 1_000_000
    assert 3 * max(short.in_flight) < max(long.in_flight)
    assert re.fullmatch(r"RTT \d+( \d+){10} ms, [\d.]+ Mbit/s", long.output)


SOCKET = "    int fd = socket("
CHECKS["sharing"] = {
    "as it is": (INCLUDED, False),
    "two connections": (INCLUDED | {SOCKET: f"fork();\n{SOCKET}"}, True),
    "four connections": (INCLUDED | {SOCKET: f"fork();\n    fork();\n{SOCKET}"}, True),
    "larger writes": (INCLUDED | {"block[10000]": "block[100000]"}, False),
    "nothing sent": (INCLUDED | {"while (now() - start < atof(argv[4]))": "if (start < 0)"}, False),
}


@pytest.mark.needs_lab
def test_programs_that_run_together_have_arguments_each_and_share_a_line() -> None:
    with Lab(clients=[10, 40], rate_mbit=10, queue_packets=20) as lab:
        near, far = short_c.run_together(lab, "sharing", "reno 1", "reno 1.5")
    command, rate = str(far).splitlines()
    assert re.fullmatch(r"client2\$ ./sharing 10.0.0.2 \d+ reno 1.5", command)
    assert re.fullmatch(r"reno: [\d.]+ Mbit/s", rate)
    assert min(sum(near.sizes), sum(far.sizes)) > 10_000
    assert sum(near.sizes) + sum(far.sizes) < 3_000_000  # one line and its queue can carry no more


@pytest.mark.needs_lab
@pytest.mark.parametrize(
    ("slug", "name"), [(slug, name) for slug, cases in CHECKS.items() for name in cases]
)
def test_changed_program_is_judged(slug: str, name: str, tmp_path: Path) -> None:
    changes, expected = CHECKS[slug][name]
    verdict = judged(slug, changes, tmp_path)
    assert verdict.passed is (expected is True), verdict
    if isinstance(expected, str):
        assert re.search(expected, verdict.message)
    if slug == "sendfile":
        assert 0 < verdict.counts["bytes"] <= 4_000_000


def test_every_program_is_judged_as_it_is_and_right() -> None:
    assert CHECKS.keys() == short_c.CASES.keys()
    for cases in each(CHECKS.values()):
        assert {True} < {expected for _changes, expected in cases.values()}
