"""Wrong solutions to the problem set "real-programs", and the share of points that each loses."""

from tcplab.grading.trial import Mutant

FORK = """        pid_t clerk = fork();
        if (clerk < 0)
            fail("fork");
        if (clerk == 0) {
            serve(fd);
            _exit(0);
        }
        close(fd); /* the clerk has it; it would not end while we had it, too */
"""
IN_TURN = """        serve(fd);
        close(fd);
"""
IMPATIENT = """        struct timeval patience = {.tv_sec = 1};
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
"""
DRAIN = """    while (read(fd, block, sizeof block) > 0)
        ;
"""
LARGEST_BUFFER = """
    setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &much, sizeof much);"""
#: A child has the connection until the client ends it, and reads nothing.
WAIT_IN_A_CHILD = """    if (fork() == 0) {
        struct pollfd end = {.fd = fd, .events = 0x2000 /* POLLRDHUP */};
        poll(&end, 1, 10000);
        _exit(0);
    }
"""
ANSWER = '    snprintf(text, sizeof text, "413'
READ_ALL = """    char unread[BLOCK_BYTES];
    for (long long left = SIZE; left > 0;) {
        ssize_t got = read(fd, unread, left < BLOCK_BYTES ? (size_t)left : BLOCK_BYTES);
        if (got <= 0)
            break;
        left -= got;
    }
"""

MUTANTS = {
    "forgets-the-way-of-the-ack": Mutant(
        loses={"q1": 0.25},
        then={
            "q1-answer": 'q1_now_ms = n["requests"] * n["rtt_ms"]'
            ' + (n["requests"] - 1) * n["ack_delay_ms"]'
        },
    ),
    "waits-for-one-batch-only": Mutant(
        loses={"q2": 0.375}, then={"q2-answer": 'q2_pipelined_s = n["redis_rtt_ms"] / 1000'}
    ),
    "thinks-nopush-changes-nothing": Mutant(
        loses={"q3": 0.375}, then={"q3-answer": "q3_nopush_last_bytes = q3_plain_last_bytes"}
    ),
    "takes-one-word-for-another": Mutant(
        loses={"q4": 1},
        then={
            "q4-answer": 'q4_cause = "program-thinks" if q4_cause != "program-thinks"'
            ' else "many-small-writes"'
        },
    ),
    "pause-in-seconds": Mutant(loses={"q5": 0.25}, then={"q5-answer": "q5_pause_ms /= 1000"}),
    "forgets-that-a-syn-counts": Mutant(
        loses={"q8": 1}, then={"q8-answer": "q8_packet = bytes(packet / bytes(1)).hex()"}
    ),
    "sends-no-data": Mutant(
        loses={"q8": 1}, then={"q8-answer": "q8_packet = bytes(IP() / tcp).hex()"}
    ),
    "hands-in-a-number": Mutant(
        loses={"q8": 1}, answers={"q8-answer": 'q8_packet = n["reset_ack"] - 1'}
    ),
    "sends-no-packet": Mutant(loses={"q8": 1}, answers={"q8-answer": "q8_packet = None"}),
    # Each of the following mutants changes one file and leaves the other correct.
    "intake-ends-its-direction-and-closes": Mutant(
        loses={"q6": 1},
        files={"intake.c": [(DRAIN, "")]},
        breaks="closing a socket with unread bytes resets the connection",
    ),
    "intake-lingers": Mutant(
        loses={"q6": 1},
        files={
            "intake.c": [
                (
                    DRAIN,
                    (
                        "    struct linger wait = {1, 2};\n"
                        "    setsockopt(fd, SOL_SOCKET, SO_LINGER, &wait, sizeof wait);\n"
                    ),
                )
            ]
        },
        breaks="lingering waits for the peer's ACK, not for what the peer sends",
    ),
    "intake-reads-and-does-not-end": Mutant(
        loses={"q6": 1},
        files={"intake.c": [("    shutdown(fd, SHUT_WR);\n", "")]},
        breaks="a stream ends when its sender ends it",
    ),
    "intake-keeps-it-in-a-buffer": Mutant(
        loses={"q6": 1},
        files={
            "intake.c": [
                ("int on = 1;", f"int on = 1, much = 4 << 20;{LARGEST_BUFFER}"),
                (DRAIN, WAIT_IN_A_CHILD),
                ("#include <netinet/in.h>\n", "#include <netinet/in.h>\n#include <poll.h>\n"),
            ]
        },
        breaks="a buffer ends, and a client may send more than it holds",
    ),
    "intake-reads-first": Mutant(
        loses={"q6": 0.5},
        files={
            "intake.c": [
                (ANSWER, READ_ALL.replace("SIZE", "size") + ANSWER),
                (
                    "refuse_upload(int fd, long long limit)",
                    "refuse_upload(int fd, long long limit, long long size)",
                ),
                ("refuse_upload(fd, limit)", "refuse_upload(fd, limit, size)"),
            ]
        },
        breaks="an answer need not wait for the end of the request",
    ),
    "intake-skips-the-sum": Mutant(
        loses={"q6": 1}, files={"intake.c": [("i < got; i++", "i < got; i += 2")]}
    ),
    "desk-in-turn": Mutant(
        loses={"q7": 1},
        files={"desk.c": [(FORK, IN_TURN)]},
        breaks="a read that blocks stops the whole program",
    ),
    "desk-is-impatient": Mutant(
        loses={"q7": 1},
        files={"desk.c": [(FORK, IMPATIENT + IN_TURN)]},
        breaks="a connection without traffic is still a connection",
    ),
    "desk-keeps-the-descriptor": Mutant(
        loses={"q7": 0.5},
        files={"desk.c": [(FORK, FORK[: FORK.index("        close(fd)")])]},
        breaks="a connection ends when its last descriptor is closed",
    ),
    "desk-answers-one-line": Mutant(
        loses={"q7": 1},
        files={
            "desk.c": [
                ("    while (fgets(line", "    if (fgets(line"),
                ("            break;\n", "            return;\n"),
            ]
        },
        breaks="a segment may hold more than one message",
    ),
    "does-not-compile": Mutant(
        loses={"q7": 1}, files={"desk.c": [("while (wait(NULL) > 0)", "while wait(NULL)")]}
    ),
    "never-ends": Mutant(
        loses={"q6": 1},
        files={"intake.c": [("    close(fd);\n    return 0;", "    for (;;)\n        sleep(1);")]},
    ),
}
