"""Wrong solutions to the problem set "buffers", and the share of points that each loses."""

from tcplab.grading.trial import Mutant

_SOLUTION = "return (int)(rate_mbit * rtt_ms * 125);"
_SET = "    int granted = set_rcvbuf({}, rcvbuf_bytes);\n"
_TAKE = "    int fd = take_connection(listener);\n"

MUTANTS = {
    "window-of-the-client": Mutant(
        loses={"q4": 1},
        then={"q4-answer": 'q4_window_bytes = int(rows.sent_by("client")["window"].max())'},
    ),
    "bits-instead-of-bytes": Mutant(
        loses={"q1": 0.25},
        answers={
            "q1-answer": 'q1_bdp_bytes = n["rate_mbit"] * 1000 * n["rtt_ms"]\n'
            'q1_mbit = n["window_bytes"] * 8 / n["rtt_ms"] / 1000'
        },
        then={
            "q3-answer": "q3_scale = next(s for s in range(15) if 65_535 << s >= q1_bdp_bytes / 8)"
        },
    ),
    "two-windows-in-a-round-trip": Mutant(
        loses={"q1": 0.25}, then={"q1-answer": "q1_mbit = 2 * q1_mbit"}
    ),
    "everything-is-doubled": Mutant(
        loses={"q2": 0.75},
        answers={"q2-answer": 'q2_granted = [2 * each for each in n["requests"]]'},
    ),
    "the-limit-is-of-the-grant": Mutant(
        loses={"q2": 0.5},
        answers={
            "q2-answer": 'most = n["rmem_max_bytes"]\n'
            'q2_granted = [max(min(2 * each, most), 2304) for each in n["requests"]]'
        },
    ),
    "the-buffer-is-the-window": Mutant(
        loses={"q3": 0.7}, then={"q3-answer": "q3_window_percent = 100"}
    ),
    "one-scale-too-few": Mutant(
        loses={"q3": 0.225},
        then={
            "q3-answer": "q3_scale = next(s for s in range(15) if 65_535 << s + 1 >= q1_bdp_bytes)"
        },
    ),
    "all-that-was-sent": Mutant(
        loses={"q5": 1},
        answers={
            "q5-answer": 'sent = rows.sent_by("client")["payload_bytes"]\n'
            "q5_in_flight_bytes = int(sent.sum())"
        },
    ),
    "blames-the-wrong-one": Mutant(
        loses={"q6": 1},
        then={
            "q6-answer": 'q6_reason = {"application": "send-buffer"}.get(q6_reason, "application")'
        },
    ),
    "forgets-the-scale": Mutant(
        loses={"q8": 1},
        then={
            "q8-answer": 'packet[TCP].window = n["released_bytes"]\nq8_packet = bytes(packet).hex()'
        },
    ),
    "opens-the-window-elsewhere": Mutant(
        loses={"q8": 1},
        then={"q8-answer": "packet[TCP].ack = 70000\nq8_packet = bytes(packet).hex()"},
    ),
    "hands-in-a-number": Mutant(
        loses={"q8": 1}, answers={"q8-answer": 'q8_packet = n["released_bytes"]'}
    ),
    "sends-no-packet": Mutant(loses={"q8": 1}, answers={"q8-answer": "q8_packet = None"}),
    # Each of the two paths earns 0.3 of its half: (0.3 + 0.3) / 2.
    "set-after-accept": Mutant(
        loses={"q7": 0.7},
        files={
            "sink.c": [
                (_SET.format("listener") + _TAKE, _TAKE + _SET.format("fd")),
            ]
        },
        breaks="the SYN-ACK announces the window scale",
    ),
    "left-to-the-kernel": Mutant(
        loses={"q7": 0.7},
        files={"sink.c": [("set_rcvbuf(listener, rcvbuf_bytes);", "(int)sizeof rcvbuf_bytes;")]},
    ),
    "half-of-the-round-trip": Mutant(
        loses={"q7": 1},
        files={"sink.c": [(_SOLUTION, "return (int)(rate_mbit * rtt_ms * 125 / 2);")]},
        breaks="a path holds rate × RTT",
    ),
    # The link is full, but half of the window would be enough.
    "twice-as-much-to-be-safe": Mutant(
        loses={"q7": 0.5},
        files={"sink.c": [(_SOLUTION, "return (int)(rate_mbit * rtt_ms * 125 * 2);")]},
        breaks="the kernel grants twice the requested size, and 5/8 of that is the window",
    ),
    # This size is right for the short path, and too small for the long one.
    "one-size-for-all": Mutant(
        loses={"q7": 0.5},
        files={"sink.c": [(_SOLUTION, "return 90000;")]},
        breaks="a path holds rate × RTT",
    ),
    "limits-the-window-alone": Mutant(
        loses={"q7": 1},
        files={
            "sink.c": [
                (
                    "    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes) < 0)",
                    (
                        "    int clamp = bytes * 5 / 4;\n"
                        "    if (setsockopt(fd, IPPROTO_TCP, 10, &clamp, sizeof clamp) < 0)"
                    ),
                ),
                ("    return granted;", "    return 2 * bytes;"),
            ]
        },
    ),
    # A wrong report of the buffer's size costs a fifth.
    "says-what-was-asked-for": Mutant(
        loses={"q7": 0.2},
        files={"sink.c": [("return granted;", "return bytes;")]},
        breaks="the kernel grants twice the requested size, and 5/8 of that is the window",
    ),
    "counts-wrong": Mutant(
        loses={"q7": 1}, files={"sink.c": [("        bytes += got;", "        bytes++;")]}
    ),
    "prints-a-constant": Mutant(
        loses={"q7": 1}, files={"sink.c": [("(long long)bytes);", "40LL * 14480 + 0 * bytes);")]}
    ),
    "does-not-compile": Mutant(loses={"q7": 1}, files={"sink.c": [("close(fd);", "close(fd)")]}),
    "never-ends": Mutant(
        loses={"q7": 1},
        files={"sink.c": [("    close(fd);\n", "    for (;;)\n        sleep(1);\n")]},
    ),
}
