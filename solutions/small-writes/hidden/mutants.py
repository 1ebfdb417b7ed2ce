"""Wrong solutions to the problem set "small-writes", and the share of points that each loses."""

from tcplab.grading.trial import Mutant

#: Code that sends segments at once, on connections that no program accepts.
_DECOYS = """
    int decoys[4], at_once = 1;
    for (int i = 0; i < 4; i++) {
        decoys[i] = open_connection(argv[1], argv[2]);
        setsockopt(decoys[i], IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once);
    }
    for (uint32_t i = 0; i < 36; i++)
        send_record(decoys[i % 4], (uint16_t)(20 + STEP_BYTES * (i / 4) % 81), i / 4);
"""

MUTANTS = {
    "indices-as-floats": Mutant(then={"q3-answer": "q3_waits = [float(i) for i in q3_waits]"}),
    "pause-in-seconds": Mutant(loses={"q5": 0.5}, then={"q5-answer": "q5_stall_ms /= 1e3"}),
    "acknowledges-what-has-not-left": Mutant(
        loses={"q8": 1},
        then={
            "q8-answer": "packet[TCP].ack = 1 + sum(n['withheld'])\nq8_packet = bytes(packet).hex()"
        },
    ),
    "sends-no-packet": Mutant(loses={"q8": 1}, answers={"q8-answer": "q8_packet = None"}),
    "hands-in-a-number": Mutant(
        loses={"q8": 1}, answers={"q8-answer": 'q8_packet = 1 + n["withheld"][0]'}
    ),
    "guesses-a-number": Mutant(
        loses={"q8": 1}, then={"q8-answer": "packet[TCP].ack = 1\nq8_packet = bytes(packet).hex()"}
    ),
    # The held bytes leave after the delay and a whole round trip, because the ACK also travels.
    "forgets-that-the-ack-travels": Mutant(
        loses={"q1": 1 / 3},
        answers={"q1-answer": 'q1_default_ms = n["rtt_ms"] + 40\nq1_nodelay_ms = n["rtt_ms"]'},
    ),
    "one-way-instead-of-round-trip": Mutant(
        loses={"q1": 1 / 6},
        answers={
            "q1-answer": 'q1_default_ms = 2 * n["rtt_ms"] + 40\nq1_nodelay_ms = n["rtt_ms"] / 2'
        },
    ),
    "fraction-instead-of-percent": Mutant(
        loses={"q2": 0.5},
        answers={"q2-answer": 'q2_payload_percent = n["write_bytes"] / (n["write_bytes"] + 66)'},
    ),
    # This is RFC 896 without Minshall's rule, so a small write waits behind any data in flight.
    "nagle-without-minshall": Mutant(
        loses={"q3": 1},
        answers={"q3-answer": 'q3_waits = [i for i, w in enumerate(n["patterns"]) if len(w) > 1]'},
    ),
    "takes-every-ack-for-a-delayed-one": Mutant(
        loses={"q4": 0.5}, then={"q4-answer": "q4_delayed_answers = 3"}
    ),
    "blames-the-wrong-one": Mutant(
        loses={"q6": 1},
        then={"q6-answer": 'q6_reason = {"corked": "held-by-nagle"}.get(q6_reason, "corked")'},
    ),
    "nodelay-and-pieces": Mutant(
        loses={"q7": 0.5},
        files={
            "records.c": [
                (
                    "    send_all(fd, record, length);\n",
                    "    send_all(fd, record, 2);\n    send_all(fd, record + 2, length - 2u);\n",
                )
            ]
        },
        breaks="data written in pieces leaves in pieces",
    ),
    "one-write-but-nagle": Mutant(
        loses={"q7": 0.5},
        files={"records.c": [("int on = 1;", "int on = 0;")]},
        breaks="a small segment waits for the ACK of the previous one",
    ),
    "two-records-at-a-time": Mutant(
        loses={"q7": 0.5},
        files={
            "records.c": [
                (
                    "    send_all(fd, record, length);\n",
                    "    send(fd, record, length, number % 2 ? MSG_MORE : 0);\n",
                )
            ]
        },
        breaks="data sent with MSG_MORE waits for more data",
    ),
    "every-fifth-record-waits": Mutant(
        loses={"q7": 0.5},
        files={
            "records.c": [
                (
                    "    send_all(fd, record, length);\n",
                    "    send(fd, record, length, number % 5 == 4 ? MSG_MORE : 0);\n",
                )
            ]
        },
        breaks="data sent with MSG_MORE waits for more data",
    ),
    "nagle-behind-decoys": Mutant(
        loses={"q7": 0.5},
        files={
            "records.c": [
                ("int on = 1;", "int on = 0;"),
                ("    const struct timespec pause", f"{_DECOYS}    const struct timespec pause"),
            ]
        },
        breaks="a small segment waits for the ACK of the previous one",
    ),
    "more-is-always-to-come": Mutant(
        loses={"q7": 0.5},
        files={"records.c": [("send(fd, at, size, 0)", "send(fd, at, size, MSG_MORE)")]},
        breaks="data sent with MSG_MORE waits for more data",
    ),
    "wrong-byte-order": Mutant(loses={"q7": 1}, files={"records.c": [("htonl(number)", "number")]}),
    "does-not-compile": Mutant(
        loses={"q7": 1}, files={"records.c": [("int on = 1;", "int on = 1")]}
    ),
    "never-ends": Mutant(
        loses={"q7": 1},
        files={"records.c": [("    close(fd);\n", "    for (;;)\n        sleep(1);\n")]},
    ),
}
