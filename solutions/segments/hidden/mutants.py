"""Wrong solutions to the problem set "segments", and the share of points that each loses."""

from tcplab.grading.trial import Mutant

_DISCOVER = "int discover = IP_PMTUDISC_DO;"
_PIECE = "return (size_t)(mtu - IP_HEADER - UDP_HEADER - HEADER_BYTES);"

MUTANTS = {
    "room-for-time-stamps-that-it-does-not-offer": Mutant(
        loses={"q8": 1},
        then={
            "q8-answer": 'packet[TCP].options = [("MSS", n["first_flight_bytes"] // 10 + 12)]\n'
            "q8_packet = bytes(packet).hex()"
        },
    ),
    "announces-nothing": Mutant(
        loses={"q8": 1},
        then={"q8-answer": "packet[TCP].options = []\nq8_packet = bytes(packet).hex()"},
    ),
    "hands-in-a-number": Mutant(
        loses={"q8": 1}, answers={"q8-answer": 'q8_packet = n["first_flight_bytes"] // 10'}
    ),
    "sends-no-packet": Mutant(loses={"q8": 1}, answers={"q8-answer": "q8_packet = None"}),
    "maxseg-without-the-time-stamps": Mutant(
        loses={"q1": 0.25},
        answers={
            "q1-answer": 'q1_maxseg_bytes = 1500 - n["tunnel_bytes"] - 52\n'
            'q1_data_bytes = 1500 - n["tunnel_bytes"] - 52'
        },
    ),
    "no-time-stamps-at-all": Mutant(
        loses={"q1": 0.375},
        answers={
            "q1-answer": 'q1_maxseg_bytes = 1500 - n["tunnel_bytes"] - 40\n'
            'q1_data_bytes = 1500 - n["tunnel_bytes"] - 40'
        },
    ),
    "only-what-a-capture-shows": Mutant(
        loses={"q2": 0.5},
        answers={
            "q2-answer": 'q2_data_percent = 100 * (n["mtu_bytes"] - 52) / (n["mtu_bytes"] + 14)'
        },
    ),
    "sends-the-same-packets-again": Mutant(
        loses={"q3": 0.875},
        answers={
            "q3-answer": 'q3_again_bytes = n["flight_segments"] * n["wide_mtu_bytes"]\n'
            'q3_segments = n["flight_segments"]'
        },
    ),
    "the-mss-of-the-syn": Mutant(
        loses={"q4": 0.5}, then={"q4-answer": 'q4_full_bytes = int(min(syns["mss"]))'}
    ),
    "counts-the-copies-alone": Mutant(loses={"q5": 0.125}, then={"q5-answer": "q5_times -= 1"}),
    "names-the-byte-after-it": Mutant(loses={"q5": 0.375}, then={"q5-answer": "q5_last_byte += 1"}),
    "takes-the-first-of-them": Mutant(
        loses={"q5": 0.375}, then={"q5-answer": "q5_last_byte = sent.index(q5_times)"}
    ),
    "blames-the-wrong-one": Mutant(
        loses={"q6": 1},
        then={
            "q6-answer": 'q6_reason = {"segment-lost": "black-hole"}.get(q6_reason, "segment-lost")'
        },
    ),
    # The interface's MTU is known without discovery, but the path's MTU is not.
    "knows-only-the-interface": Mutant(
        loses={"q7": 0.5},
        files={"slices.c": [(_DISCOVER, "int discover = IP_PMTUDISC_DONT;")]},
        breaks="without DF, hosts and routers fragment packets that are too long",
    ),
    # This earns 0.4 of the points, because no datagram is fragmented but there are far too many.
    "always-536": Mutant(
        loses={"q7": 0.6},
        files={"slices.c": [(_PIECE, "return 536 - HEADER_BYTES;")]},
        breaks="the kernel knows how long a packet may be",
    ),
    "forgets-the-header-of-udp": Mutant(
        loses={"q7": 1},
        files={
            "slices.c": [
                (_DISCOVER, "int discover = IP_PMTUDISC_WANT;"),
                (_PIECE, "return (size_t)(mtu - IP_HEADER - HEADER_BYTES);"),
            ]
        },
        breaks="headers are part of the packet",
    ),
    "loses-the-end": Mutant(
        loses={"q7": 1}, files={"slices.c": [("while (sent < size)", "while (sent + 2000 < size)")]}
    ),
    "probes-in-fragments": Mutant(
        loses={"q7": 1},
        files={
            "slices.c": [
                (
                    "    int mtu = 0;",
                    """    int mtu = 0, off = IP_PMTUDISC_DONT, on = IP_PMTUDISC_DO;
    char probe[9000] = {1}; /* a piece that the receiver does not keep */
    setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &off, sizeof off);
    send(fd, probe, sizeof probe, 0);
    recv(fd, probe, sizeof probe, 0);
    setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &on, sizeof on);""",
                )
            ]
        },
        breaks="without DF, hosts and routers fragment packets that are too long",
    ),
    "does-not-compile": Mutant(loses={"q7": 1}, files={"slices.c": [("close(fd);", "close(fd)")]}),
    "never-ends": Mutant(
        loses={"q7": 1},
        files={"slices.c": [("    close(fd);\n", "    for (;;)\n        sleep(1);\n")]},
    ),
}
