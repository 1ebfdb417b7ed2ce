"""Wrong solutions to NAME, each with the share of points that it must lose."""

from tcplab.grading.trial import Mutant

MUTANTS = {
    "bits-instead-of-bytes": Mutant(
        loses={"q1": 0.5},
        answers={"q1-answer": 'q1_window_bytes = n["rate_mbit"] * n["rtt_ms"] * 1000'},
    ),
    "half-a-greeting": Mutant(loses={"q2": 1}, files={"hello.c": [("hello, world", "hello")]}),
}
