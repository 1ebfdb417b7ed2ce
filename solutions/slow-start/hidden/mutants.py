"""Wrong solutions to the problem set "slow-start", and the share of points that each loses."""

from tcplab.grading.trial import Mutant

MUTANTS = {
    "waited-in-seconds": Mutant(loses={"q5": 0.5}, then={"q5-answer": "q5_wait_ms /= 1e3"}),
    "no-window-of-the-receiver": Mutant(
        loses={"q1": 0.875},
        then={
            "q1-answer": 'page = flights(-(-n["page_bytes"] // 1448), 10)\n'
            'q1_last_segments, q1_took_ms = page[-1], len(page) * n["page_rtt_ms"]'
        },
    ),
    "counts-all-flights": Mutant(
        loses={"q2": 0.25}, then={"q2-answer": 'q2_more_ms = q2_more_ms + n["idle_rtt_ms"]'}
    ),
    "a-pause-forgets-nothing": Mutant(
        loses={"q2": 1},
        then={"q2-answer": 'q2_first_segments, q2_more_ms = n["idle_window_segments"], 0'},
    ),
    "loss-as-a-share": Mutant(
        loses={"q3": 0.25}, then={"q3-answer": "q3_loss_percent = q3_loss_percent / 100"}
    ),
    "without-the-constant": Mutant(
        loses={"q3": 0.5},
        then={
            "q3-answer": "q3_rate_mbit, q3_loss_percent ="
            " q3_rate_mbit / 1.31, q3_loss_percent / 1.31**2"
        },
    ),
    "goes-back-n": Mutant(
        loses={"q8": 1},
        then={"q8-answer": "packet[TCP].options = []\nq8_packet = bytes(packet).hex()"},
    ),
    "reports-the-lost-instead": Mutant(
        loses={"q8": 1},
        then={
            "q8-answer": 'packet[TCP].options = [("SAck", (1 + lost * mss, begin))]\n'
            "q8_packet = bytes(packet).hex()"
        },
    ),
    "hands-in-a-number": Mutant(
        loses={"q8": 1}, answers={"q8-answer": 'q8_packet = n["my_mss_bytes"]'}
    ),
    "sends-no-packet": Mutant(loses={"q8": 1}, answers={"q8-answer": "q8_packet = None"}),
    "counts-all-acks": Mutant(
        loses={"q4": 0.5}, then={"q4-answer": "q4_gap_segments = len(server)"}
    ),
    "blames-the-wrong-one": Mutant(
        loses={"q6": 1},
        then={"q6-answer": 'q6_reason = {"sack": "timeout"}.get(q6_reason, "sack")'},
    ),
    # This looks only at the time. A probe may take as long as a timeout.
    "goes-by-the-clock": Mutant(
        loses={"q6": 1},
        then={"q6-answer": 'q6_reason = "timeout" if q6_reason == "loss-probe" else "loss-probe"'},
    ),
    # It halves after its third flight, whatever is lost, as the check's network does.
    "goes-by-a-table": Mutant(
        loses={"q7": 0.3},
        files={
            "window.c": [
                (
                    "        if (turns[number] >= recovered) {",
                    "        if (turn >= 70 && turns[number] >= recovered) {",
                )
            ]
        },
        breaks="a loss halves the window",
    ),
    "begins-with-fewer": Mutant(
        loses={"q7": 0.2},
        files={"window.c": [("window = 10", "window = 7")]},
        breaks="a connection begins with ten segments",
    ),
    "sends-everything-at-once": Mutant(
        loses={"q7": 0.8},
        files={"window.c": [("window = 10", "window = MOST_PIECES")]},
        breaks="a connection begins with ten segments",
    ),
    "keeps-its-window": Mutant(
        loses={"q7": 0.35},
        files={"window.c": [("if (window < threshold) {\n            window++;", "if (0) {")]},
        breaks="in slow start, each acknowledged segment lets one more out",
    ),
    "never-halves": Mutant(
        loses={"q7": 0.6},
        files={
            "window.c": [
                ("threshold = window = window / 2 > 2 ? window / 2 : 2;\n            ", "")
            ]
        },
        breaks="a loss halves the window",
    ),
    "halves-for-each-packet": Mutant(
        loses={"q7": 0.2},
        files={"window.c": [("if (turns[number] >= recovered) {", "{")]},
        breaks="all losses in one flight count as one",
    ),
    "doubles-after-a-loss": Mutant(
        loses={"q7": 0.6},
        files={"window.c": [("threshold = window = window / 2", "window = window / 2")]},
        breaks="after a loss the window grows by one per round trip",
    ),
    "halves-at-a-timeout": Mutant(
        loses={"q7": 0.15},
        files={"window.c": [("    window = 1;\n", "    window = threshold;\n")]},
        breaks="a timeout reduces the window to one segment",
    ),
    "forgets-what-is-in-flight": Mutant(
        loses={"q7": 1},
        files={
            "window.c": [
                (
                    "if (!wait_for_ack(&ack)) {\n            time_out();",
                    "if (!wait_for_ack(&ack)) {",
                )
            ]
        },
        breaks="no later segment reveals the loss of the last one",
    ),
    "believes-single-acks": Mutant(
        loses={"q7": 0.4},
        files={
            "window.c": [
                (
                    "number < ack.next; number++)\n            acknowledge(number);",
                    "number < 0; number++)\n            acknowledge(number);",
                )
            ]
        },
        breaks="an ACK confirms all data before its number",
    ),
    "believes-the-first-number-alone": Mutant(
        loses={"q7": 0.25},
        files={"window.c": [("        acknowledge(ack.came);\n", "")]},
        breaks="an ACK reports the data that arrived after a gap",
    ),
    "takes-late-for-lost": Mutant(
        loses={"q7": 0.2},
        files={"window.c": [("turns[number] + 3 >", "turns[number] + 1 >")]},
        breaks="three segments after a gap indicate a loss, and one does not",
    ),
    "counts-by-number": Mutant(
        loses={"q7": 0.6},
        files={"window.c": [("turns[number] + 3 > turns[came]", "number + 3 > came")]},
        breaks="a retransmission is sent later than everything before it",
    ),
    "does-not-compile": Mutant(
        loses={"q7": 1}, files={"window.c": [("in_flight--;\n}", "in_flight--\n}")]}
    ),
    "never-ends": Mutant(
        loses={"q7": 1},
        files={"window.c": [("    close(connection);\n", "    for (;;)\n        pause();\n")]},
    ),
}
