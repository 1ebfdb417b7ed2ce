"""Wrong solutions to the problem set "diagnosis", and the share of points that each loses."""

from tcplab.grading.trial import Mutant

NODELAY = """    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
"""
ALL_LATER = [
    (
        "    fclose(out);\n",
        (
            "    for (int number = 0; number < atoi(argv[3]); number++)\n"
            "        await_answer(fd);\n    fclose(out);\n"
        ),
    )
]

LAST_OPTION = "    {IPPROTO_TCP, TCP_NODELAY, 1},\n"
BUFFER = "    {{SOL_SOCKET, SO_RCVBUF, {} * BLOCK_BYTES}},\n"

MUTANTS = {
    "sleeps-instead-of-reading": Mutant(
        loses={"q7": 1},
        files={
            "lookup.c": [
                ("        await_answer(fd);\n", "        usleep(45000);\n"),
                ("    fclose(out);\n", "    await_answer(fd);\n    fclose(out);\n"),
            ]
        },
    ),
    # This costs a part of q1, and nothing in q2, since q2 follows from the answer to q1.
    "forgets-that-linux-doubles": Mutant(
        loses={"q1": 0.25},
        answers={
            "q1-answer": 'q1_bdp_bytes = n["rate_mbit"] * 125 * n["rtt_ms"]\n'
            'q1_window_bytes = n["rcvbuf_bytes"] * 1448 / 2304'
        },
    ),
    "bdp-in-bits": Mutant(
        loses={"q1": 0.25},
        answers={
            "q1-answer": 'q1_bdp_bytes = n["rate_mbit"] * 1000 * n["rtt_ms"]\n'
            'q1_window_bytes = 2 * n["rcvbuf_bytes"] * 1448 / 2304'
        },
    ),
    "wire-without-headers": Mutant(
        loses={"q2": 0.25},
        answers={
            "q2-answer": 'q2_now_mbit = q1_window_bytes * 8 / (n["rtt_ms"] * 1e3)\n'
            'q2_fixed_s = n["backup_mb"] * 8 / n["rate_mbit"]'
        },
    ),
    "thinks-a-line-is-a-segment": Mutant(
        loses={"q3": 1},
        answers={"q3-answer": 'q3_segments_per_s = 1000\nq3_segment_bytes = n["line_bytes"]'},
    ),
    "takes-one-word-for-another": Mutant(
        loses={"q4": 1},
        then={
            "q4-answer": 'other = {"segment-lost": "tiny-segments"}\n'
            'q4_causes = [other.get(cause, "segment-lost") for cause in q4_causes]'
        },
    ),
    "blames-the-subscriber": Mutant(
        loses={"q5": 0.5}, then={"q5-answer": 'q5_to_change = "subscriber"'}
    ),
    "pause-in-seconds": Mutant(
        loses={"q6": 0.25},
        answers={
            "q6-answer": "pauses = [longest_pause(rows) for rows in captures]\n"
            "q6_pauses_ms = [pause / 1e3 for pause, _ in pauses]\n"
            'q6_ended_by = [["client", "server"][after["direction"]] for _, after in pauses]'
        },
    ),
    "sends-what-comes-next": Mutant(
        loses={"q10": 1},
        then={
            "q10-answer": "packet[TCP].seq = max(came) + 1\nq10_packet = bytes(packet).hex()",
        },
    ),
    "starts-one-byte-late": Mutant(
        loses={"q10": 1},
        then={"q10-answer": "packet[TCP].seq += 1\nq10_packet = bytes(packet).hex()"},
    ),
    "sends-all-again": Mutant(
        loses={"q10": 1},
        then={
            "q10-answer": 'packet = IP() / TCP(flags="A", seq=1, ack=1) / bytes(missing[-1])\n'
            "q10_packet = bytes(packet).hex()"
        },
    ),
    "hands-in-a-number": Mutant(loses={"q10": 1}, then={"q10-answer": "q10_packet = missing[0]"}),
    "sends-no-packet": Mutant(loses={"q10": 1}, answers={"q10-answer": "q10_packet = None"}),
    # Each of the following mutants changes one file and leaves the other two correct.
    "lookup-nodelay-and-three-flushes": Mutant(
        loses={"q7": 0.5},
        files={
            "lookup.c": [
                ("VERSION);\n", "VERSION);\n    flush(out);\n"),
                ("    return fd;\n", NODELAY + "    return fd;\n"),
            ]
        },
        breaks="each flush is a write",
    ),
    "lookup-still-flushes-in-between": Mutant(
        loses={"q7": 1},
        files={"lookup.c": [("VERSION);\n", "VERSION);\n    flush(out);\n")]},
        breaks="a small segment waits for the ACK of the previous one",
    ),
    "lookup-cork-not-pulled": Mutant(
        loses={"q7": 0.75},
        files={
            "lookup.c": [
                ("    return fd;\n", NODELAY.replace("NODELAY", "CORK") + "    return fd;\n")
            ]
        },
        breaks="a cork holds the last partial segment until it is pulled",
    ),
    "lookup-all-at-once": Mutant(
        loses={"q7": 1},
        files={"lookup.c": [("        await_answer(fd);\n    }\n", "    }\n"), *ALL_LATER]},
    ),
    # Mostly the ACK comes with the answer.
    "lookup-asks-when-acknowledged": Mutant(
        loses={"q7": 1},
        files={
            "lookup.c": [
                (
                    "        await_answer(fd);\n    }\n",
                    (
                        "        for (int left = 1; left > 0; usleep(200))\n"
                        "            ioctl(fd, SIOCOUTQ, &left);\n    }\n"
                    ),
                ),
                *ALL_LATER,
                (
                    "#include <sys/socket.h>\n",
                    "#include <linux/sockios.h>\n#include <sys/ioctl.h>\n#include <sys/socket.h>\n",
                ),
            ]
        },
    ),
    "lookup-another-text": Mutant(loses={"q7": 1}, files={"lookup.c": [("%012d", "%12d")]}),
    "mirror-buffer-is-only-doubled": Mutant(
        loses={"q8": 1},
        files={"mirror.c": [(LAST_OPTION, BUFFER.format(4) + LAST_OPTION)]},
        breaks="a buffer with a fixed size no longer grows",
    ),
    "mirror-other-option-taken-out": Mutant(
        loses={"q8": 1},
        files={"mirror.c": [(LAST_OPTION, BUFFER.format(2))]},
        breaks="a buffer with a fixed size no longer grows",
    ),
    "mirror-skips-the-sum": Mutant(
        loses={"q8": 1}, files={"mirror.c": [("i < got; i++", "i < got; i += 2")]}
    ),
    "journal-lines-but-nagle": Mutant(
        loses={"q9": 0.5},
        files={"journal.c": [("int on = 1;", "int on = 0;")]},
        breaks="a small segment waits for the ACK of the previous one",
    ),
    "journal-nodelay-and-more": Mutant(
        loses={"q9": 1},
        files={"journal.c": [("put(fd, line, 0);", "put(fd, line, MSG_MORE);")]},
        breaks="data sent with MSG_MORE waits for more data",
    ),
    "journal-in-two-pieces": Mutant(
        loses={"q9": 1},
        files={
            "journal.c": [
                (
                    "    put(fd, line, 0);\n",
                    "    send(fd, line, 9, 0);\n    put(fd, line + 9, 0);\n",
                )
            ]
        },
        breaks="data written in pieces leaves in pieces",
    ),
    "lookup-naps": Mutant(
        loses={"q7": 0.75},
        files={
            "lookup.c": [
                ("        await_answer(fd);", "        await_answer(fd);\n        usleep(60000);")
            ]
        },
    ),
    "journal-in-pairs": Mutant(
        loses={"q9": 0.5},
        files={
            "journal.c": [
                ("    char line[80];", "    static char pair[160];\n    char line[80];"),
                (
                    "    put(fd, line, 0);",
                    (
                        "    strcat(pair, line);\n    if (number % 2 == 0)\n        return;\n"
                        "    put(fd, pair, 0);\n    *pair = 0;"
                    ),
                ),
            ]
        },
    ),
    "does-not-compile": Mutant(
        loses={"q9": 1}, files={"journal.c": [("int on = 1;", "int on = 1")]}
    ),
    "never-ends": Mutant(
        loses={"q9": 1},
        files={"journal.c": [("    close(fd);\n", "    for (;;)\n        sleep(1);\n")]},
    ),
}
