"""Wrong solutions of problem set 8, each with the score that the grader must give it, always."""

from tcplab.grading.trial import Mutant

_CAPTURES = "\n".join(
    [
        "from tcplab.capture import open_capture",
        'captures = [open_capture(name).segments for name in n["captures"]]',
        "def longest_pause(rows):",
        "    data = rows.carries_data.nonzero()[0]",
        "    during = rows[data[0] : data[-1] + 1]",
        '    pauses = during["time_ns"][1:] - during["time_ns"][:-1]',
        "    return float(pauses.max()) / 1e6, during[pauses.argmax() + 1]",
        "",
    ]
)

MUTANTS = {
    # Costs its half of q1 in part, and nothing in q2: that follows from it.
    "forgets-that-linux-doubles": Mutant(
        17.5,
        answers={
            "q1-answer": 'q1_bdp_bytes = n["rate_mbit"] * 125 * n["rtt_ms"]\n'
            'q1_window_bytes = n["rcvbuf_bytes"] * 1448 / 2304'
        },
    ),
    "bdp-in-bits": Mutant(
        17.5,
        answers={
            "q1-answer": 'q1_bdp_bytes = n["rate_mbit"] * 1000 * n["rtt_ms"]\n'
            'q1_window_bytes = 2 * n["rcvbuf_bytes"] * 1448 / 2304'
        },
    ),
    "wire-without-headers": Mutant(
        17.5,
        answers={
            "q2-answer": 'q2_now_mbit = q1_window_bytes * 8 / (n["rtt_ms"] * 1e3)\n'
            'q2_mended_s = n["backup_mb"] * 8 / n["rate_mbit"]'
        },
    ),
    "thinks-a-line-is-a-segment": Mutant(
        16.0,
        answers={"q3-answer": 'q3_segments_per_s = 1000\nq3_segment_bytes = n["line_bytes"]'},
    ),
    "takes-one-word-for-another": Mutant(
        15.0,
        then={
            "q4-answer": "\n".join(
                [
                    'other = {"segment-lost": "tiny-segments"}',
                    'q4_causes = [other.get(cause, "segment-lost") for cause in q4_causes]',
                ]
            )
        },
    ),
    "counts-all-packets": Mutant(
        17.0,
        answers={"q5-answer": "q5_data_segments = [len(rows) for rows in captures]"},
    ),
    "pause-in-seconds": Mutant(
        17.5,
        answers={
            "q6-answer": "found = [longest_pause(rows) for rows in captures]\n"
            "q6_pauses_ms = [pause / 1e3 for pause, _ in found]\n"
            'q6_ended_by = [["client", "server"][after["direction"]] for _, after in found]'
        },
    ),
    # One file each: the other two are mended.
    "request-nodelay-and-two-writes": Mutant(
        17.0,
        files={
            "faulty_request.c": [
                (
                    "    send_bytes(fd, request, HEADER_BYTES + BODY_BYTES);\n",
                    (
                        '    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY");\n'
                        "    send_bytes(fd, request, HEADER_BYTES);\n"
                        "    send_bytes(fd, request + HEADER_BYTES, BODY_BYTES);\n"
                    ),
                )
            ]
        },
    ),
    "request-cork-not-pulled": Mutant(
        16.5,
        files={
            "faulty_request.c": [
                (
                    "    send_bytes(fd, request, HEADER_BYTES + BODY_BYTES);\n",
                    (
                        '    set_option(fd, IPPROTO_TCP, TCP_CORK, 1, "TCP_CORK");\n'
                        "    send_bytes(fd, request, HEADER_BYTES + BODY_BYTES);\n"
                    ),
                )
            ]
        },
    ),
    "request-all-at-once": Mutant(
        16.0,
        files={
            "faulty_request.c": [
                ("        await_answer(fd, number);\n    }\n", "    }\n"),
                (
                    "}\n\n/* ---- the result ---- */",
                    (
                        "    for (int64_t number = 0; number < count; number++)\n"
                        "        await_answer(fd, number);\n}\n\n/* ---- the result ---- */"
                    ),
                ),
            ]
        },
    ),
    "request-another-text": Mutant(16.0, files={"faulty_request.c": [("%-92lld", "%92lld")]}),
    "backup-buffer-still-too-small": Mutant(
        16.0,
        files={
            "faulty_backup.c": [
                (
                    "    (void)fd;\n",
                    '    set_option(fd, SOL_SOCKET, SO_RCVBUF, 2 * BLOCK_BYTES, "SO_RCVBUF");\n',
                )
            ]
        },
    ),
    "backup-skips-the-sum": Mutant(
        16.0, files={"faulty_backup.c": [("i < size; i++", "i < size; i += 2")]}
    ),
    "ticker-lines-but-nagle": Mutant(
        17.0,
        files={"faulty_ticker.c": [('TCP_NODELAY, 1, "TCP', 'TCP_NODELAY, 0, "TCP')]},
    ),
    "ticker-pieces-and-nagle": Mutant(
        16.0,
        files={
            "faulty_ticker.c": [
                ('TCP_NODELAY, 1, "TCP', 'TCP_NODELAY, 0, "TCP'),
                ("if (character != '\\n' && length < sizeof line)", "if (length < 1)"),
            ]
        },
    ),
    "ticker-ten-lines-at-a-time": Mutant(
        17.0,
        files={
            "faulty_ticker.c": [
                ("static char line[128];", "static char line[1024];\nstatic int held;"),
                (
                    "if (character != '\\n' && length < sizeof line)\n        return;\n",
                    (
                        "held += character == '\\n';\n"
                        "    if (held < 10)\n        return;\n    held = 0;\n"
                    ),
                ),
            ]
        },
    ),
    "does-not-compile": Mutant(
        16.0, files={"faulty_ticker.c": [("static size_t length;", "static size_t length")]}
    ),
    "never-ends": Mutant(
        16.0,
        files={"faulty_ticker.c": [("    close(fd);\n", "    for (;;)\n        sleep(1);\n")]},
    ),
}
