"""Wrong solutions to the problem set "tcp-vs-udp", and the share of points that each loses."""

from tcplab.grading.trial import Mutant

MUTANTS = {
    "forgets-ethernet": Mutant(
        loses={"q1": 0.25},
        answers={
            "q1-answer": 'wire = n["rate_mbit"] / 8\n'
            'q1_udp_mb_per_s = wire * n["block_bytes"] / (n["block_bytes"] + 28)\n'
            "q1_tcp_mb_per_s = wire * 1448 / 1538"
        },
    ),
    "a-packet-for-each-block-of-tcp": Mutant(
        loses={"q1": 0.25},
        answers={
            "q1-answer": 'wire = n["rate_mbit"] / 8\n'
            'q1_udp_mb_per_s = wire * n["block_bytes"] / (n["block_bytes"] + 66)\n'
            'q1_tcp_mb_per_s = wire * n["block_bytes"] / (n["block_bytes"] + 90)'
        },
    ),
    "the-kernel-grants-what-is-asked": Mutant(
        loses={"q2": 0.5},
        answers={
            "q2-answer": 'q2_kept = n["rcvbuf_bytes"] // n["kernel_bytes"]\n'
            'q2_ask_bytes = n["burst"] * n["kernel_bytes"]'
        },
    ),
    # Two of three numbers are right, which earns a third of the points.
    "a-call-takes-what-it-likes": Mutant(
        loses={"q3": 2 / 3},
        answers={
            "q3-answer": 'data_bytes = n["blocks"] * n["small_bytes"]\n'
            'full = n["loopback_mtu"] - 52\n'
            'q3_trips = [n["blocks"], -(-data_bytes // full), data_bytes // 65507 + 1000]'
        },
    ),
    # The right count is restored while q6 is computed from it, so only q4 is wrong.
    "counts-rows-and-not-numbers": Mutant(
        loses={"q4": 0.5},
        then={
            "q4-answer": "right, q4_lost_on_the_way = q4_lost_on_the_way, sent - len(came)",
            "q5-answer": "wrong, q4_lost_on_the_way = q4_lost_on_the_way, right",
            "q6-answer": "q4_lost_on_the_way = wrong",
        },
    ),
    "what-comes-twice-is-late": Mutant(
        loses={"q5": 0.5},
        then={
            "q6-answer": "q5_reordered = sum(\n"
            "    number <= max(came[:i], default=-1) for i, number in enumerate(came)\n"
            ")"
        },
    ),
    # Two thirds of q6 are for the remedy; a known mistake earns half of the other third.
    "all-is-lost-in-the-buffer": Mutant(
        loses={"q6": 5 / 6},
        then={
            "q6-answer": "q6_lost_in_the_buffer = sent - read\n"
            'wrong = "slower-sender" if q6_fix != "slower-sender" else "sort-by-number"\n'
            "q6_fix = wrong"
        },
    ),
    "leaves-checksums-to-scapy": Mutant(
        loses={"q8": 1},
        then={
            "q8-answer": 'packets = [IP() / UDP() / bytes([i]) for i, _ in n["datagrams"]]\n'
            "q8_packets = [bytes(packet).hex() for packet in packets]"
        },
    ),
    "checksums-not-verified": Mutant(
        loses={"q8": 1},
        then={
            "q8-answer": "q8_packets = [bytes(IP() / UDP(chksum=0) / packet.load).hex() for packet"
            " in packets]"
        },
    ),
    "hands-in-numbers": Mutant(
        loses={"q8": 1},
        answers={"q8-answer": 'q8_packets = [i for i, fate in n["datagrams"] if fate]'},
    ),
    "sends-no-packet": Mutant(loses={"q8": 1}, answers={"q8-answer": "q8_packets = None"}),
    "forgets-what-was-sent-last": Mutant(
        loses={"q7": 0.4},
        files={"tally.c": [("lost = count - arrived;", "lost = next_number - arrived;")]},
        breaks="only the sender knows how many datagrams there were",
    ),
    "what-comes-twice-arrived-twice": Mutant(
        loses={"q7": 0.7},
        files={
            "tally.c": [("        duplicated++;\n        return;\n", "        duplicated++;\n")]
        },
        breaks="a datagram may arrive twice",
    ),
    "takes-a-gap-for-reordering": Mutant(
        loses={"q7": 0.3},
        files={"tally.c": [("number < next_number)", "number != next_number)")]},
        breaks="a datagram may arrive late, so a gap is not yet a loss",
    ),
    "does-not-compile": Mutant(
        loses={"q7": 1}, files={"tally.c": [("bool ended = false;", "bool ended = false")]}
    ),
    "never-ends": Mutant(
        loses={"q7": 1},
        files={
            "tally.c": [
                ("if (got < 0 && ended)\n            break;", "if (got < 0 && ended)\n continue;"),
                ('is_kind(&header, "bye.")', 'is_kind(&header, "stop")'),
            ]
        },
    ),
}
