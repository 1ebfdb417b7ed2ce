"""Wrong solutions to the problem set "sendfile", and the share of points that each loses."""

from tcplab.grading.trial import Mutant

MUTANTS = {
    "pause-in-seconds": Mutant(loses={"q5": 0.5}, then={"q5-answer": "q5_stall_ms /= 1e3"}),
    "hands-in-a-number": Mutant(
        loses={"q8": 1}, answers={"q8-answer": 'q8_packet = n["page_segments"]'}
    ),
    "sends-no-packet": Mutant(loses={"q8": 1}, answers={"q8-answer": "q8_packet = None"}),
    "announces-nothing": Mutant(
        loses={"q8": 1},
        then={"q8-answer": "packet[TCP].options = []\nq8_packet = bytes(packet).hex()"},
    ),
    "forgets-the-header": Mutant(
        loses={"q8": 1},
        then={
            "q8-answer": 'full -= n["page_header_bytes"]\n'
            'packet[TCP].options = [("MSS", full // (n["page_segments"] - 1))]\n'
            "q8_packet = bytes(packet).hex()"
        },
    ),
    # Before the lesson, a learner expects that less work takes less time.
    "work-is-time": Mutant(
        loses={"q1": 0.325},
        answers={
            "q1-answer": "from tcplab.models import goodput_mbyte_s\n"
            'q1_slow_s = n["size_mb"] / goodput_mbyte_s(n["slow_mbit"])\n'
            'times = n["read_send_cpu_s_per_gb"] / n["sendfile_cpu_s_per_gb"]\n'
            "q1_slow_times, q1_fast_times = times, times"
        },
    ),
    "wire-without-headers": Mutant(
        loses={"q1": 0.225},
        answers={
            "q1-answer": "from tcplab.models import goodput_mbyte_s\n"
            'q1_slow_s = n["size_mb"] * 8 / n["slow_mbit"]\n'
            "q1_slow_times = 1\n"
            'wire_s_per_gb = 1000 / goodput_mbyte_s(n["fast_mbit"])\n'
            'q1_fast_times = n["read_send_cpu_s_per_gb"] / wire_s_per_gb'
        },
    ),
    "one-call-for-everything": Mutant(
        loses={"q2": 0.5}, then={"q2-answer": "q2_calls_sendfile = 1"}
    ),
    "no-difference-by-a-cork": Mutant(
        loses={"q3": 0.5},
        answers={
            "q3-answer": 'whole, rest = divmod(n["header_bytes"] + n["small_file_bytes"], 1448)\n'
            "q3_plain_sizes = q3_corked_sizes = [1448] * whole + [rest] * (rest > 0)"
        },
    ),
    "header-is-of-the-file": Mutant(
        loses={"q4": 0.25}, then={"q4-answer": 'q4_file_bytes = int(data["payload_bytes"].sum())'}
    ),
    "blames-the-wrong-one": Mutant(
        loses={"q6": 1},
        then={"q6-answer": 'q6_reason = {"corked": "held-by-nagle"}.get(q6_reason, "corked")'},
    ),
    # A mutant that damages the bytes earns nothing for sendrange.c.
    "one-call-of-sendfile": Mutant(
        loses={"q7": 1},
        files={"sendrange.c": [("while (left > 0) {", "for (int i = 0; i < 1; i++) {")]},
        breaks="sendfile() may send less than it is asked for",
    ),
    "interrupted-is-an-error": Mutant(
        loses={"q7": 1},
        files={
            "sendrange.c": [
                (
                    "errno == EINTR)\n            continue;",
                    "errno == EAGAIN)\n            continue;",
                )
            ]
        },
        breaks="a signal interrupts a blocked call",
    ),
    "moves-the-offset-twice": Mutant(
        loses={"q7": 1},
        files={
            "sendrange.c": [
                ("        left -= sent;", "        left -= sent;\n        offset += sent;")
            ]
        },
        breaks="sendfile() advances the offset itself",
    ),
    "asks-for-all-again": Mutant(
        loses={"q7": 1},
        files={"sendrange.c": [("&offset, (size_t)left)", "&offset, (size_t)count)")]},
        breaks="sendfile() may send less than it is asked for",
    ),
    "header-promises-what-was-asked-for": Mutant(
        loses={"q7": 0.2},
        files={
            "sendrange.c": [("send_header(fd, offset, left);", "send_header(fd, offset, count);")]
        },
        breaks="a file may end before the requested range does",
    ),
    "never-ends-past-the-end-of-the-file": Mutant(
        loses={"q7": 0.2},
        files={
            "sendrange.c": [
                ("if (count < left)", "if (1)"),
                ("if (sent == 0) {", "if (sent == 0 && offset > status.st_size) {"),
            ]
        },
        breaks="a file may end before the requested range does",
    ),
    "header-alone": Mutant(
        loses={"q7": 0.15},
        files={"sendrange.c": [("MSG_MORE) != ", "0) != ")]},
        breaks="data written in pieces leaves in pieces",
    ),
    "small-blocks": Mutant(
        loses={"q7": 0.15},
        files={"sendrange.c": [("(size_t)left)", "left < 700 ? (size_t)left : 700)")]},
        breaks="small calls make small segments",
    ),
    "reads-and-sends": Mutant(
        loses={"q7": 0.2},
        files={
            "sendrange.c": [
                (
                    "ssize_t sent = sendfile(fd, file, &offset, (size_t)left);",
                    "\n        ".join(
                        [
                            "static char block[65536];",
                            "size_t next = left < 65536 ? (size_t)left : 65536;",
                            "ssize_t sent = pread(file, block, next, offset);",
                            "sent = send(fd, block, next, sent < left ? MSG_MORE : 0);",
                            "offset += sent > 0 ? sent : 0;",
                        ]
                    ),
                )
            ]
        },
        breaks="read() copies into the program",
    ),
    # The program reads the file with syscall(2), and names sendfile() without calling it.
    "copies-under-another-name": Mutant(
        loses={"q7": 0.2},
        files={
            "sendrange.c": [
                ("#include <unistd.h>", "#include <sys/syscall.h>\n#include <unistd.h>"),
                (
                    "ssize_t sent = sendfile(fd, file, &offset, (size_t)left);",
                    "\n        ".join(
                        [
                            'static const char talk[] = "\\0sendfile";',
                            "static char block[65536];",
                            "size_t next = left < 65536 ? (size_t)left : 65536;",
                            "ssize_t sent = syscall(SYS_pread64, file, block, next, offset);",
                            "sent = send(fd, block, next, sent < left + talk[0] ? MSG_MORE : 0);",
                            "offset += sent > 0 ? sent : 0;",
                        ]
                    ),
                ),
            ]
        },
        breaks="read() copies into the program",
    ),
    "maps-and-sends": Mutant(
        loses={"q7": 0.2},
        files={
            "sendrange.c": [
                ("#include <sys/stat.h>", "#include <sys/mman.h>\n#include <sys/stat.h>"),
                (
                    "ssize_t sent = sendfile(fd, file, &offset, (size_t)left);",
                    "\n        ".join(
                        [
                            "size_t size = (size_t)status.st_size;",
                            "char *all = mmap(NULL, size, PROT_READ, MAP_PRIVATE, file, 0);",
                            "ssize_t sent = send(fd, all + offset, (size_t)left, 0);",
                            "offset += sent > 0 ? sent : 0;",
                        ]
                    ),
                ),
            ]
        },
        breaks="read() copies into the program",
    ),
    # sendfile() feeds the program's own UDP socket, from which recvfrom() reads the bytes.
    "receives-from-itself": Mutant(
        loses={"q7": 0.2},
        files={
            "sendrange.c": [
                (
                    "ssize_t sent = sendfile(fd, file, &offset, (size_t)left);",
                    "\n        ".join(
                        [
                            "static char block[4096];",
                            "static int own = -1;",
                            "struct sockaddr_in me = {.sin_family = AF_INET};",
                            "socklen_t size = sizeof me;",
                            "me.sin_addr.s_addr = htonl(INADDR_LOOPBACK);",
                            "if (own < 0) {",
                            "    own = socket(AF_INET, SOCK_DGRAM, 0);",
                            "    bind(own, (void *)&me, size);",
                            "    getsockname(own, (void *)&me, &size);",
                            "    connect(own, (void *)&me, size);",
                            "}",
                            "size_t next = left < 4096 ? (size_t)left : 4096;",
                            "ssize_t sent = sendfile(own, file, &offset, next);",
                            "while (sent > 0 && recvfrom(own, block, next, 0, NULL, NULL) < 0)",
                            "    continue;",
                            "int more = sent < left ? MSG_MORE : 0;",
                            "for (ssize_t n, done = 0; done < sent; done += n > 0 ? n : 0)",
                            "    n = send(fd, block + done, (size_t)(sent - done), more);",
                        ]
                    ),
                )
            ]
        },
        breaks="read() copies into the program",
    ),
    "reads-what-is-long": Mutant(
        loses={"q7": 0.2},
        files={
            "sendrange.c": [
                (
                    "        ssize_t sent = sendfile(",
                    """        char block[60000];
        ssize_t sent = count > 50000 ? pread(file, block, sizeof block, offset) : 0;
        if (sent > left)
            sent = left;
        if (sent > 0) {
            sent = send(fd, block, (size_t)sent, left > sent ? MSG_MORE : 0);
            offset += sent > 0 ? sent : 0;
        } else
            sent = sendfile(""",
                )
            ]
        },
        breaks="read() copies into the program",
    ),
    # The kernel maps the file of a program that is executed, without read() or mmap(), so a copy of
    # the requested bytes in such a file could be sent.
    "executes-a-file": Mutant(
        loses={"q7": 0.2},
        files={
            "sendrange.c": [
                (
                    "    int file =",
                    '    if (!getenv("A") && !putenv("A=")) execv(argv[0], argv);\n    int file =',
                )
            ]
        },
        breaks="read() copies into the program",
    ),
    "does-not-compile": Mutant(
        loses={"q7": 1}, files={"sendrange.c": [("left -= sent;", "left -= sent")]}
    ),
    "never-ends": Mutant(
        loses={"q7": 1},
        files={"sendrange.c": [("    close(fd);\n", "    for (;;)\n        pause();\n")]},
    ),
}
