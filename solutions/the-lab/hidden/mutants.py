"""Wrong solutions to the problem set "the-lab", and the score that each must always get."""

from tcplab.grading.trial import Mutant

MUTANTS = {
    "no-time-stamps": Mutant(
        2.5, answers={"q1-answer": 'q1_frame_bytes = n["payload_bytes"] + 54'}
    ),
    "payload-alone": Mutant(2.0, answers={"q1-answer": 'q1_frame_bytes = n["payload_bytes"]'}),
    "half-a-greeting": Mutant(1.0, files={"hello.c": [("strlen(text)", "strlen(text) / 2")]}),
    "does-not-compile": Mutant(1.0, files={"hello.c": [("close(fd);", "close(fd)")]}),
    "never-ends": Mutant(
        1.0, files={"hello.c": [("    close(fd);\n", "    for (;;)\n        sleep(1);\n")]}
    ),
}
