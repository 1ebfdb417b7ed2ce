"""Wrong solutions to the problem set "cork", and the score that each must always get."""

from tcplab.grading.trial import Mutant

SEND_PART = "    send_part(fd, file, offset, part_bytes);\n"
SEND_TRAILER = "    send_all(fd, trailer, strlen(trailer));\n"

MUTANTS = {
    "announces-what-shall-be-held": Mutant(
        17.0,
        then={
            "q8-answer": 'packet[TCP].options = [("MSS", n["held_bytes"])]\n'
            "q8_packet = bytes(packet).hex()"
        },
    ),
    "announces-nothing": Mutant(
        17.0, then={"q8-answer": "packet[TCP].options = []\nq8_packet = bytes(packet).hex()"}
    ),
    "knocks-with-an-ack": Mutant(
        17.0, then={"q8-answer": 'packet[TCP].flags = "A"\nq8_packet = bytes(packet).hex()'}
    ),
    "sends-no-packet": Mutant(17.0, answers={"q8-answer": "q8_packet = None"}),
    "header-is-held": Mutant(17.33, then={"q1-answer": "q1_default_sizes = q1_cork_sizes"}),
    "a-cork-is-free": Mutant(
        17.1,
        answers={
            "q2-answer": 'q2_calls_cork = n["pieces"]\n'
            "q2_calls_writev = 1\n"
            'q2_saved_bytes = n["pieces"] * 66'
        },
    ),
    "believes-the-manual": Mutant(16.0, answers={"q3-answer": "q3_young_ms = q3_old_ms = 200"}),
    "young-and-old-alike": Mutant(
        17.5, answers={"q3-answer": 'q3_young_ms = q3_old_ms = n["rtt_ms"] + 200'}
    ),
    "counts-both-directions": Mutant(
        17.5, then={"q4-answer": "q4_data_segments = len(rows.data())"}
    ),
    "blames-the-wrong-one": Mutant(
        16.0,
        then={"q6-answer": 'q6_reason = "pulled-late" if q6_reason[0] != "p" else "unknown"'},
    ),
    "nodelay-and-pieces": Mutant(
        15.5,
        files={"respond.c": [("set_option(fd, TCP_CORK, 1);", "set_option(fd, TCP_CORK, 0);")]},
        breaks="data written in pieces leaves in pieces",
    ),
    "cork-and-nagle": Mutant(
        15.5,
        files={
            "respond.c": [("set_option(fd, TCP_NODELAY, 1);", "set_option(fd, TCP_NODELAY, 0);")]
        },
        breaks="Nagle's algorithm applies after the cork is pulled",
    ),
    "cork-never-pulled": Mutant(
        15.5,
        files={"respond.c": [("set_option(fd, TCP_CORK, 0);", "set_option(fd, TCP_CORK, 1);")]},
        breaks="a cork holds the last partial segment until it is pulled",
    ),
    "cork-around-the-header-only": Mutant(
        15.5,
        files={"respond.c": [(SEND_PART, "    set_option(fd, TCP_CORK, 0);\n" + SEND_PART)]},
        breaks="the cork must be pulled after the last piece",
    ),
    "trailer-comes-first": Mutant(
        13.0, files={"respond.c": [(SEND_PART + SEND_TRAILER, SEND_TRAILER + SEND_PART)]}
    ),
    "does-not-compile": Mutant(13.0, files={"respond.c": [("TCP_CORK, 0);", "TCP_CORK, 0)")]}),
    "never-ends": Mutant(
        13.0, files={"respond.c": [("    close(fd);\n", "    for (;;)\n        sleep(1);\n")]}
    ),
}
