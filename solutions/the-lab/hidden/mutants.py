"""Wrong solutions to the problem set "the-lab", and the share of points that each loses."""

from tcplab.grading.trial import Mutant

MUTANTS = {
    "no-time-stamps": Mutant(
        loses={"q1": 0.5}, answers={"q1-answer": 'q1_frame_bytes = n["payload_bytes"] + 54'}
    ),
    "payload-alone": Mutant(
        loses={"q1": 1}, answers={"q1-answer": 'q1_frame_bytes = n["payload_bytes"]'}
    ),
    "half-a-greeting": Mutant(
        loses={"q2": 1}, files={"hello.c": [("strlen(text)", "strlen(text) / 2")]}
    ),
    "another-text": Mutant(loses={"q2": 0.5}, files={"hello.c": [("hello, world", "hallo, welt")]}),
    "does-not-compile": Mutant(loses={"q2": 1}, files={"hello.c": [("close(fd);", "close(fd)")]}),
    "never-ends": Mutant(
        loses={"q2": 1},
        files={"hello.c": [("    close(fd);\n", "    for (;;)\n        sleep(1);\n")]},
    ),
}
