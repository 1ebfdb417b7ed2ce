"""Wrong solutions to the problem set "queues", and the share of points that each loses."""

from tcplab.grading.trial import Mutant

MUTANTS = {
    "ping-without-the-way": Mutant(
        loses={"q1": 0.25}, then={"q1-answer": 'q1_ping_ms = q1_ping_ms - n["home_rtt_ms"]'}
    ),
    "one-product-for-all-flows": Mutant(
        loses={"q1": 0.375}, then={"q1-answer": "q1_buffer_packets = core_packets"}
    ),
    "three-quarters-of-the-line": Mutant(
        loses={"q2": 0.5}, then={"q2-answer": "q2_used_percent = 75"}
    ),
    "slowest-over-fastest": Mutant(
        loses={"q2": 0.5}, then={"q2-answer": "q2_jain = max(0.2, min(rates) / max(rates))"}
    ),
    "age-until-the-ack": Mutant(
        loses={"q3": 0.25}, then={"q3-answer": 'q3_age_ms = q3_age_ms + n["live_rtt_ms"] / 2'}
    ),
    "limit-bounds-all": Mutant(
        loses={"q3": 0.5},
        then={"q3-answer": 'q3_limit_bytes = q3_limit_bytes + n["live_in_flight_bytes"]'},
    ),
    "marks-every-echo-but-never-answers": Mutant(
        loses={"q8": 1},
        then={
            "q8-answer": "packets = [IP(tos=3 if e else 2) / TCP(flags='PA', seq=1 + 100 * i,"
            " ack=1) / bytes(100) for i, e in enumerate(n['echoes'])]\n"
            "q8_packets = [bytes(packet).hex() for packet in packets]"
        },
    ),
    "sends-no-packets": Mutant(loses={"q8": 1}, answers={"q8-answer": "q8_packets = None"}),
    "forgets-that-data-count": Mutant(
        loses={"q8": 1},
        then={
            "q8-answer": "for packet in packets:\n    packet[TCP].seq = 1\n"
            "q8_packets = [bytes(packet).hex() for packet in packets]"
        },
    ),
    "sets-ece-itself": Mutant(
        loses={"q8": 1},
        then={
            "q8-answer": "packets = [IP(tos=2) / TCP(flags='PAE' if e else 'PA', seq=1 + 100 * i,"
            " ack=1) / bytes(100) for i, e in enumerate(n['echoes'])]\n"
            "q8_packets = [bytes(packet).hex() for packet in packets]"
        },
    ),
    "all-bytes-in-flight": Mutant(
        loses={"q4": 0.5},
        then={"q4-answer": 'q4_in_flight_bytes = int(data["payload_bytes"].sum())'},
    ),
    "queue-with-the-way": Mutant(
        loses={"q5": 0.5}, then={"q5-answer": "q5_queue_ms = q5_queue_ms + path_ms"}
    ),
    "blames-the-wrong-one": Mutant(
        loses={"q6": 1},
        then={"q6-answer": 'q6_reason = {"marked": "kept-everything"}.get(q6_reason, "marked")'},
    ),
    # A round trip that has grown does not prove that a queue is full.
    "believes-in-long-queues": Mutant(
        loses={"q6": 1},
        then={
            "q6-answer": 'full = "dropped-when-full"\n'
            'q6_reason = "lost-by-chance" if q6_reason == full else full'
        },
    ),
    "lets-the-buffer-fill": Mutant(
        loses={"q7": 1},
        files={"live.c": [("limit_bytes = LIMIT_BYTES", "limit_bytes = 1 << 30")]},
        breaks="the send buffer also holds unsent data, and grows with the window",
    ),
    # Its records pass for newer than any number that comes.
    "invents-a-number": Mutant(
        loses={"q7": 1},
        files={
            "live.c": [
                ("limit_bytes = LIMIT_BYTES", "limit_bytes = 1 << 30"),
                ("fill(record, number);", "fill(record, UINT32_MAX);"),
            ]
        },
        breaks="the send buffer also holds unsent data, and grows with the window",
    ),
    "bounds-what-is-in-flight": Mutant(
        loses={"q7": 0.2},
        files={
            "live.c": [
                (
                    "setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT",
                    "setsockopt(fd, SOL_SOCKET, SO_SNDBUF",
                )
            ]
        },
        breaks="SO_SNDBUF also limits the data in flight",
    ),
    "drops-events": Mutant(
        loses={"q7": 0.5},
        files={"live.c": [("if (number % 2 == 1)\n            return number;", "")]},
        breaks="newer data may replace a state, and may not replace an event",
    ),
    "repeats-the-last-event": Mutant(
        loses={"q7": 0.5},
        files={
            "live.c": [
                ("    size_t left = 0;", "    uint32_t number = 0;\n    size_t left = 0;"),
                ("uint32_t number = newest(fd, state);", "number = newest(fd, number);"),
            ]
        },
    ),
    "looks-for-numbers-at-every-fifth-record": Mutant(
        loses={"q7": 0.5},
        files={
            "live.c": [
                ("    size_t left = 0;", "    int turn = 0;\n    size_t left = 0;"),
                ("newest(fd, state); /*", "turn++ % 5 && state ? state : newest(fd, state); /*"),
            ]
        },
    ),
    "forgets-the-state-before-an-event": Mutant(
        loses={"q7": 0.5},
        files={
            "live.c": [
                ("        state = number;\n", ""),
                (
                    "            fill(record, number);",
                    "            if (number % 2 == 0) state = number;\n fill(record, number);",
                ),
            ]
        },
    ),
    "bounds-what-is-in-flight-on-a-short-path": Mutant(
        loses={"q7": 1},
        files={
            "live.c": [
                (
                    "    if (setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT",
                    (
                        "    struct tcp_info info;\n    socklen_t length = sizeof info;\n"
                        "    getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length);\n"
                        "    if (info.tcpi_rtt < 30000 && setsockopt(fd, SOL_SOCKET, SO_SNDBUF"
                    ),
                )
            ]
        },
        breaks="the send buffer also holds unsent data, and grows with the window",
    ),
    "limits-nothing-where-the-window-is-large": Mutant(
        loses={"q7": 0.2},
        files={
            "live.c": [
                (
                    "    if (setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT",
                    (
                        "    unsigned info[64] = {0}; /* number 57 is tcpi_snd_wnd */\n"
                        "    socklen_t length = sizeof info;\n"
                        "    getsockopt(fd, IPPROTO_TCP, TCP_INFO, info, &length);\n"
                        "    if (info[57] < 20000 && setsockopt(fd, SOL_SOCKET, SO_SNDBUF"
                    ),
                )
            ]
        },
        breaks="the send buffer also holds unsent data, and grows with the window",
    ),
    "sends-the-number-alone": Mutant(
        loses={"q7": 1},
        files={"live.c": [("memset(record, (int)(number & 0xff), RECORD_BYTES);", "")]},
    ),
    "does-not-compile": Mutant(
        loses={"q7": 1}, files={"live.c": [("left = sizeof record;", "left = ")]}
    ),
    "never-ends": Mutant(
        loses={"q7": 1},
        files={"live.c": [("    close(fd);\n", "    for (;;)\n        pause();\n")]},
    ),
}
