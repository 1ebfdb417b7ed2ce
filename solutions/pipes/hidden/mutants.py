"""Wrong solutions to the problem set "pipes", and the share of points that each loses."""

from tcplab.grading.trial import Mutant

MUTANTS = {
    # All of q1 is lost, because the second number is the same rate in another unit.
    "the-wire-is-all-data": Mutant(
        loses={"q1": 1},
        answers={
            "q1-answer": 'q1_mb_per_s = n["rate_mbit"] / 8\n'
            "q1_mib_per_s = q1_mb_per_s * 10**6 / 2**20"
        },
    ),
    "forgets-the-time-stamps": Mutant(
        loses={"q1": 0.5},
        answers={
            "q1-answer": 'size = n["mtu_bytes"]\n'
            'q1_mb_per_s = n["rate_mbit"] / 8 * (size - 40) / (size + 38)\n'
            "q1_mib_per_s = q1_mb_per_s * 10**6 / 2**20"
        },
    ),
    "a-mib-is-a-mb": Mutant(loses={"q1": 0.4}, then={"q1-answer": "q1_mib_per_s = q1_mb_per_s"}),
    # This counts all reads and writes, and earns half of q2.
    "dev-null-takes-a-copy": Mutant(
        loses={"q2": 0.5},
        answers={
            "q2-answer": "q2_copies = [\n"
            '    sum(0 if "--splice" in part else 2 for part in c.replace("→", "|").split("|"))\n'
            '    for c in n["chains"]\n'
            "]"
        },
    ),
    "nothing-but-copies-costs": Mutant(
        loses={"q3": 0.75},
        answers={
            "q3-answer": 'q3_copy_s_per_gb = n["netcat_file_s_per_gb"] / 3\n'
            "q3_splice_s_per_gb = q3_copy_s_per_gb"
        },
    ),
    "takes-all-that-is-saved-for-one": Mutant(
        loses={"q3": 0.75},
        answers={
            "q3-answer": "q3_copy_s_per_gb = "
            'n["dd_netcat_s_per_gb"] - n["netcat_file_s_per_gb"]\n'
            'q3_splice_s_per_gb = n["netcat_file_s_per_gb"] * 2'
        },
    ),
    "counts-headers-as-file": Mutant(
        loses={"q4": 0.5}, then={"q4-answer": 'q4_file_bytes = int(data["wire_bytes"].sum())'}
    ),
    "blames-the-wrong-one": Mutant(
        loses={"q5": 2 / 3},
        then={"q5-answer": 'q5_reason = "segment-lost" if q5_reason[-1] != "t" else "sender-idle"'},
    ),
    "counts-the-greeting": Mutant(
        loses={"q6": 0.5},
        answers={
            "q6-answer": 'q6_bytes_after_fin = int(rows.sent_by("server")["payload_bytes"].sum())'
        },
    ),
    "the-syn-is-all": Mutant(
        loses={"q8": 0.5},
        then={
            "q8-answer": 'first[TCP].seq = n["my_ack"] - 1\nq8_first_packet = bytes(first).hex()'
        },
    ),
    "refuses-a-reset": Mutant(
        loses={"q8": 0.5},
        then={"q8-answer": 'second[TCP].flags = "R"\nq8_second_packet = bytes(second).hex()'},
    ),
    "sends-no-packet": Mutant(
        loses={"q8": 1}, answers={"q8-answer": "q8_first_packet = q8_second_packet = None"}
    ),
    "guesses-the-numbers": Mutant(
        loses={"q8": 1},
        then={
            "q8-answer": 'first[TCP].seq, second[TCP].ack = n["my_ack"], n["my_seq"] + 1\n'
            "q8_first_packet, q8_second_packet = bytes(first).hex(), bytes(second).hex()"
        },
    ),
    "counts-blocks": Mutant(
        loses={"q7": 0.4},
        files={"meter.c": [("found.bytes += got;", "found.bytes += BLOCK_BYTES;")]},
        breaks="read() returns what has arrived, not what was asked for",
    ),
    "reads-once": Mutant(
        loses={"q7": 1},
        files={"meter.c": [("while ((got = read", "if ((got = read")]},
        breaks="read() returns what has arrived, not what was asked for",
    ),
    "clock-from-the-connection": Mutant(
        loses={"q7": 0.4},
        files={
            "meter.c": [
                ("double start_s = 0;", "double start_s = now_s();"),
                ("            start_s = now_s();\n", "            start_s += 0;\n"),
            ]
        },
        breaks="a connection is open before its data arrives, and stays open afterwards",
    ),
    "clock-to-the-end": Mutant(
        loses={"q7": 0.4},
        files={
            "meter.c": [
                ("    if (got < 0)\n", "    found.seconds = now_s() - start_s;\n    if (got < 0)\n")
            ]
        },
        breaks="a connection is open before its data arrives, and stays open afterwards",
    ),
    "mib-for-mb": Mutant(loses={"q7": 0.2}, files={"meter.c": [("/ 1e6;", "/ (1 << 20);")]}),
    "prints-a-constant": Mutant(
        loses={"q7": 1},
        files={
            "meter.c": [
                ("    printf(", "    found.bytes = 200000, found.seconds = 10;\n    printf(")
            ]
        },
    ),
    "does-not-compile": Mutant(loses={"q7": 1}, files={"meter.c": [("close(fd);", "close(fd)")]}),
    "never-ends": Mutant(
        loses={"q7": 1},
        files={"meter.c": [("    close(fd);\n", "    for (;;)\n        sleep(1);\n")]},
    ),
}
