"""Wrong solutions to the problem set "cork", and the share of points that each loses."""

from tcplab.grading.trial import Mutant

SEND_PART = "    send_part(fd, file, offset, part_bytes);\n"
SEND_TRAILER = "    send_all(fd, trailer, strlen(trailer));\n"

MUTANTS = {
    "waited-in-seconds": Mutant(loses={"q5": 0.5}, then={"q5-answer": "q5_waited_ms /= 1e3"}),
    "announces-what-shall-be-held": Mutant(
        loses={"q8": 1},
        then={
            "q8-answer": 'packet[TCP].options = [("MSS", n["held_bytes"])]\n'
            "q8_packet = bytes(packet).hex()"
        },
    ),
    "announces-nothing": Mutant(
        loses={"q8": 1},
        then={"q8-answer": "packet[TCP].options = []\nq8_packet = bytes(packet).hex()"},
    ),
    "knocks-with-an-ack": Mutant(
        loses={"q8": 1},
        then={"q8-answer": 'packet[TCP].flags = "A"\nq8_packet = bytes(packet).hex()'},
    ),
    "sends-no-packet": Mutant(loses={"q8": 1}, answers={"q8-answer": "q8_packet = None"}),
    "header-is-held": Mutant(
        loses={"q1": 1 / 3}, then={"q1-answer": "q1_default_sizes = q1_cork_sizes"}
    ),
    "a-cork-is-free": Mutant(
        loses={"q2": 0.45},
        answers={
            "q2-answer": 'q2_calls_cork = n["pieces"]\n'
            "q2_calls_writev = 1\n"
            'q2_saved_bytes = n["pieces"] * 66'
        },
    ),
    "believes-the-manual": Mutant(
        loses={"q3": 1}, answers={"q3-answer": "q3_young_ms = q3_old_ms = 200"}
    ),
    "young-and-old-alike": Mutant(
        loses={"q3": 0.25}, answers={"q3-answer": 'q3_young_ms = q3_old_ms = n["rtt_ms"] + 200'}
    ),
    "counts-both-directions": Mutant(
        loses={"q4": 0.25}, then={"q4-answer": "q4_data_segments = len(rows.data())"}
    ),
    "blames-the-wrong-one": Mutant(
        loses={"q6": 1},
        then={"q6-answer": 'q6_reason = "pulled-late" if q6_reason[0] != "p" else "unknown"'},
    ),
    "nodelay-and-pieces": Mutant(
        loses={"q7": 0.5},
        files={"respond.c": [("set_option(fd, TCP_CORK, 1);", "set_option(fd, TCP_CORK, 0);")]},
        breaks="data written in pieces leaves in pieces",
    ),
    "cork-and-nagle": Mutant(
        loses={"q7": 0.5},
        files={
            "respond.c": [("set_option(fd, TCP_NODELAY, 1);", "set_option(fd, TCP_NODELAY, 0);")]
        },
        breaks="Nagle's algorithm applies after the cork is pulled",
    ),
    "cork-never-pulled": Mutant(
        loses={"q7": 0.5},
        files={"respond.c": [("set_option(fd, TCP_CORK, 0);", "set_option(fd, TCP_CORK, 1);")]},
        breaks="a cork holds the last partial segment until it is pulled",
    ),
    "cork-around-the-header-only": Mutant(
        loses={"q7": 0.5},
        files={"respond.c": [(SEND_PART, "    set_option(fd, TCP_CORK, 0);\n" + SEND_PART)]},
        breaks="the cork must be pulled after the last piece",
    ),
    "every-fifth-answer-waits-for-the-next": Mutant(
        loses={"q7": 0.5},
        files={
            "respond.c": [
                (
                    "    set_option(fd, TCP_CORK, 0);\n",
                    "    if (number % 5 != 4)\n        set_option(fd, TCP_CORK, 0);\n",
                )
            ]
        },
        breaks="the cork must be pulled after the last piece",
    ),
    "trailer-comes-first": Mutant(
        loses={"q7": 1}, files={"respond.c": [(SEND_PART + SEND_TRAILER, SEND_TRAILER + SEND_PART)]}
    ),
    "does-not-compile": Mutant(
        loses={"q7": 1}, files={"respond.c": [("TCP_CORK, 0);", "TCP_CORK, 0)")]}
    ),
    "never-ends": Mutant(
        loses={"q7": 1},
        files={"respond.c": [("    close(fd);\n", "    for (;;)\n        sleep(1);\n")]},
    ),
}
