"""Changes to the lessons' short C programs, and the verdict that the check must give on each."""

from __future__ import annotations

import re
from pathlib import Path

from tcplab.course import short_c

#: For each lesson and named change, the replacements in its program's text, and whether the program
#: then passes its check. A string means that it fails with this complaint, a regular expression.
CHECKS: dict[str, dict[str, tuple[dict[str, str], bool | str]]] = {}
CHOICE = "argv[3][0] == 'w' ? write_at_once(fd) : send_pieces(fd);"
CALL = "send(fd, text + i * PIECE_BYTES, PIECE_BYTES, 0);"
CHECKS["small-writes"] = {
    "as it is": ({}, False),
    "one call": ({CHOICE: "send(fd, text, sizeof text - 1, 0);"}, True),
    "MSG_MORE": ({CALL: CALL.replace(", 0)", ", i < PIECES - 1 ? MSG_MORE : 0)")}, True),
    "other bytes": ({CHOICE: "text[0]++, send(fd, text, sizeof text - 1, 0);"}, False),
    "no C": ({"int main": "int man("}, False),
}

ON, OFF, EARLY = "set_cork(fd, corked);", "set_cork(fd, 0);", "return -1;"
HEADER, BODY = "send(fd, header, HEADER, 0);", "send(fd, body, BODY, 0);"
BLANK, REPLY = "send(fd, blank, BODY + TRAILER, 0);", "if (recv("
CHECKS["cork"] = {
    "as it is": ({}, False),
    "pulled on the error path": ({EARLY: OFF + EARLY}, True),
    "pulled by the caller": ({OFF: "", REPLY: OFF + REPLY}, True),
    "pulled too early": ({BLANK: OFF + BLANK}, "not in 15"),
    "no cork": ({ON: ""}, False),
    "no sensor fails": ({"if (failed)": "if (0)"}, False),
}

ASK = 'report("answered");'
AGAIN = 'if (!ask(fd)) return 1; report("again");'
CONNECT = "connect(fd, (struct sockaddr *)&peer, sizeof peer);"
CHECKS["the-lab"] = {
    "as it is": ({}, "not 'hello' twice"),
    "asked again": ({ASK: ASK + AGAIN}, True),
    "twice at once": ({'"hello", 5, 0': '"hellohello", 10, 0'}, False),
    "a second connection": (
        {ASK: f"close(fd); fd = socket(AF_INET, SOCK_STREAM, 0); {CONNECT} {AGAIN}"},
        "opened 2 connections",
    ),
}

LOOP = "        if (argv[3][0] != 'b')\n            wait_for_ack(fd);\n"
SEND = "send(fd, record, sizeof record, 0);"
CHECKS["records-and-quotes"] = {
    "as it is": ({}, False),
    "one wait at the end": ({LOOP: ""}, True),
    "TCP_NODELAY alone": ({"on = argv[3][0] == 'n'": "on = 1"}, False),
    "fewer records": ({LOOP: "", "RECORDS = 60": "RECORDS = 40"}, False),
}

BEFORE = "ask_for(listener, atoi(argv[3]));"
AFTER = "ask_for(fd, atoi(argv[4]));"
PEEK = "recv(fd, &(char){0}, 1, MSG_PEEK);"
CHECKS["buffers"] = {
    "as it is": ({}, False),
    "moved": ({AFTER: "", BEFORE: BEFORE + "ask_for(listener, atoi(argv[4]));"}, True),
    "nothing asked for": ({BEFORE: "", AFTER: ""}, True),
    "only after the first data": ({BEFORE: "", AFTER: PEEK + AFTER}, False),
    "too small": ({BEFORE: "ask_for(listener, 131072);", AFTER: ""}, False),
    "fails": ({"printf(": "exit(3); printf("}, False),
    "does not listen": ({"|| listen(listener, 1) < 0": ""}, False),
}

CONNECT = "if (connect("
LOWAT = "setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &(int){16384}, sizeof(int));"
SNDBUF = "setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &(int){16384}, sizeof(int));"
HEADERS = {"#include <arpa/": "#include <netinet/tcp.h>\n#include <poll.h>\n#include <arpa/"}
MADE = "memset(record, '.', sizeof record);"
POLL = "poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, -1);"
CHECKS["send-buffer"] = {
    "as it is": ({}, "older records left between a question and its answer"),
    "a limit for unsent data": ({CONNECT: LOWAT + CONNECT, **HEADERS}, True),
    "a limit and poll()": ({CONNECT: LOWAT + CONNECT, MADE: POLL + MADE, **HEADERS}, True),
    "a small buffer": ({CONNECT: SNDBUF + CONNECT}, "bytes were in flight, and the path"),
    "each record an answer": ({"'.'": "'!'"}, "1600 records begin with '!'"),
    "no answer": ({"record[0] = '!';": ""}, "0 records begin with '!', for 4 questions"),
    "few records": ({"RECORDS = 1600": "RECORDS = 400"}, "client closed|bytes sent are not 1600"),
}

CONNECT = "        int fd = connect_to(argv[1], argv[2]);\n"
LOOP = "    for (int i = 0; i < UPLOADS; i++) {\n"
CLOSE = "        close(fd);\n"
UPLOAD = "        upload(fd, data, bytes);\n"
ONE_CONNECTION = {LOOP: CONNECT[4:] + LOOP, CONNECT: "", CLOSE: ""}
CHECKS["slow-start"] = {
    "as it is": ({}, "opened 5 connections"),
    "one connection": (ONE_CONNECTION, True),
    "closed in the loop": ({LOOP: CONNECT[4:] + LOOP, CONNECT: ""}, False),
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
    "a byte, too late": (
        {RECEIPT: '    usleep(600000);\n    send(fd, "!", 1, 0);\n' + RECEIPT}
        | {"#include <time.h>\n": "#include <time.h>\n#include <unistd.h>\n"},
        "came back by a probe",
    ),
    "Nagle's algorithm": ({"TCP_NODELAY, &on": "TCP_MAXSEG, &(int){1460}"}, "not in 8 of 1000"),
    "other messages": ({SENDS: SENDS.replace("'a'", "'b'")}, "do not begin with the 8 messages"),
    "no receipt": ({RECEIPT: "    return 0;\n" + RECEIPT}, "ended without"),
}

WHOLE = "sendfile(fd, file, NULL, size);"
CHECKS["sendfile"] = {
    "as it is": ({WHOLE: WHOLE}, "of the file's 4,000,000 bytes arrived"),
    "loop": ({WHOLE: "while (size > 0) size -= sendfile(fd, file, NULL, size);"}, True),
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
    "splice once": (
        SENDS_FILES | {LOOP: "splice(from, NULL, to, NULL, 1 << 20, 0);"},
        "of the 4,000,000 bytes arrived",
    ),
}

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
}

SEND_ALL = "send_message(fd, atoi(argv[i]));"
IN_HALVES = "for (int half = 0; half < 2; half++) send_message(fd, atoi(argv[i]) / 2);"
DISCOVER = "setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &(int){%s}, sizeof(int));\n"
MAXSEG = "setsockopt(fd, IPPROTO_TCP, 2 /* TCP_MAXSEG */, &(int){%d}, sizeof(int));\n"
CHECKS["path-mtu"] = {
    "as it is": ({}, False),
    "a smaller MSS": ({BEFORE: MAXSEG % 1160 + BEFORE}, True),
    "no DF": ({BEFORE: DISCOVER % "IP_PMTUDISC_DONT" + BEFORE}, True),
    "DF always": ({BEFORE: DISCOVER % "IP_PMTUDISC_DO" + BEFORE}, False),
    "messages that fit": ({SEND_ALL: IN_HALVES}, True),
    "less data": ({SEND_ALL: "send_message(fd, 100);"}, False),
}

ONE_BY_ONE = """    for (int i = 0; i < BLOCKS; i++, calls++)
        if (send(fd, blocks + i * BLOCK_BYTES, BLOCK_BYTES, 0) < 0)"""
BATCHES = """    setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &(int){BLOCK_BYTES}, sizeof(int));
    for (int i = 0; i < BLOCKS; i += %d, calls++)
        if (send(fd, blocks + i * BLOCK_BYTES, %d * BLOCK_BYTES, 0) < 0)"""
NO_OPTION = (BATCHES % (45, 45)).partition("\n")[2]
CHECKS["tcp-vs-udp"] = {
    "as it is": ({}, False),
    "45 per call": ({ONE_BY_ONE: BATCHES % (45, 45)}, True),
    "fragments": ({ONE_BY_ONE: NO_OPTION}, False),
    "every other block": ({ONE_BY_ONE: BATCHES % (90, 45)}, False),
}

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
    "one block at a time": (INCLUDED | {SEND: wait_while_more_than(0)}, False),
    "half of the bytes": (
        INCLUDED | {"atoi(argv[3]) / 10;": "atoi(argv[3]) / 20;"},
        "not the 2,000,000",
    ),
}

SOCKET = "    int fd = socket("
CHECKS["sharing"] = {
    "as it is": (INCLUDED, False),
    "two connections": (INCLUDED | {SOCKET: f"fork();\n{SOCKET}"}, True),
    "nothing sent": (INCLUDED | {"while (now() - start < atof(argv[4]))": "if (start < 0)"}, False),
}


#: Lessons whose programs differ in kind: a client, a server, one with a file, and one with UDP.
FEW = ("small-writes", "buffers", "sendfile", "tcp-vs-udp")


def first_two() -> list[tuple[str, str]]:
    """Return (lesson, name) of a few lessons' first change that fails and first that passes."""
    return [
        (slug, next(name for name in CHECKS[slug] if (CHECKS[slug][name][1] is True) is passes))
        for slug in FEW
        for passes in (False, True)
    ]


def assert_judged_as_expected(slug: str, name: str, folder: Path) -> None:
    """Make a change in a copy of the program, and let its check judge the copy."""
    changes, expected = CHECKS[slug][name]
    path = short_c.copy(slug, folder)
    text = path.read_text()
    assert all(old in text for old in changes)
    if changes:
        pattern = "|".join(map(re.escape, changes))
        path.write_text(re.sub(pattern, lambda old: changes[old[0]], text))
    verdict = short_c.check(slug, path)
    assert verdict.passed is (expected is True), verdict
    if isinstance(expected, str):
        assert re.search(expected, verdict.message)
    if slug == "sendfile":
        assert 0 < verdict.counts["bytes"] <= 4_000_000
