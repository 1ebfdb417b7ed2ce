"""Wrong solutions to NAME, each with the score that it must always get."""

from tcplab.grading.trial import Mutant

MUTANTS = {
    "bits-instead-of-bytes": Mutant(
        7.5, answers={"q1-answer": 'q1_window_bytes = n["rate_mbit"] * n["rtt_ms"] * 1000'}
    ),
    "half-a-greeting": Mutant(5.0, files={"hello.c": [("hello, world", "hello")]}),
}
