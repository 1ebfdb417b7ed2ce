"""Wrong solutions of problem set 1, each with the score that the grader must give it, always."""

from tcplab.grading.trial import Mutant

_OPENED = "\n".join(
    [
        "from tcplab.capture import open_capture",
        'rows = open_capture(n["capture"]).segments',
        'data = rows.data("client")',
    ]
)

MUTANTS = {
    # All of q1 is lost: the second number is the same rate in the other unit.
    "the-wire-is-all-data": Mutant(
        16.0,
        answers={
            "q1-answer": 'q1_mb_per_s = n["rate_mbit"] / 8\n'
            "q1_mib_per_s = q1_mb_per_s * 10**6 / 2**20"
        },
    ),
    "forgets-the-time-stamps": Mutant(
        17.0,
        answers={
            "q1-answer": 'size = n["mtu_bytes"]\n'
            'q1_mb_per_s = n["rate_mbit"] / 8 * (size - 40) / (size + 38)\n'
            "q1_mib_per_s = q1_mb_per_s * 10**6 / 2**20"
        },
    ),
    "a-mib-is-a-mb": Mutant(
        17.2,
        answers={
            "q1-answer": 'size = n["mtu_bytes"]\n'
            'q1_mb_per_s = n["rate_mbit"] / 8 * (size - 52) / (size + 38)\n'
            "q1_mib_per_s = q1_mb_per_s"
        },
    ),
    # So the text counts: half of q2.
    "dev-null-takes-a-copy": Mutant(
        17.0,
        answers={
            "q2-answer": "q2_copies = [\n"
            '    sum(0 if "--splice" in part else 2 for part in c.replace("→", "|").split("|"))\n'
            '    for c in n["chains"]\n'
            "]"
        },
    ),
    "nothing-but-copies-costs": Mutant(
        16.5,
        answers={
            "q3-answer": 'q3_copy_s_per_gb = n["netcat_file_s_per_gb"] / 3\n'
            "q3_splice_s_per_gb = q3_copy_s_per_gb"
        },
    ),
    "takes-all-that-is-saved-for-one": Mutant(
        16.5,
        answers={
            "q3-answer": "q3_copy_s_per_gb = "
            'n["dd_netcat_s_per_gb"] - n["netcat_file_s_per_gb"]\n'
            'q3_splice_s_per_gb = n["netcat_file_s_per_gb"] * 2'
        },
    ),
    "counts-headers-as-file": Mutant(
        17.0, answers={"q4-answer": f'{_OPENED}\nq4_file_bytes = int(data["wire_bytes"].sum())'}
    ),
    "blames-the-wrong-one": Mutant(
        16.0,
        then={"q5-answer": 'q5_reason = "segment-lost" if q5_reason[-1] != "t" else "sender-idle"'},
    ),
    "counts-the-greeting": Mutant(
        17.0,
        answers={
            "q6-answer": 'q6_bytes_after_fin = int(rows.sent_by("server")["payload_bytes"].sum())'
        },
    ),
    "closes-both-directions": Mutant(13.0, files={"halfcat.c": [("SHUT_WR", "SHUT_RDWR")]}),
    "stops-when-its-input-ends": Mutant(
        13.0,
        files={
            "halfcat.c": [
                (
                    "    copy(fd, STDOUT_FILENO);\n    pthread_join(sender, NULL);\n",
                    "    pthread_join(sender, NULL);\n",
                )
            ]
        },
    ),
    "reads-the-answer-once": Mutant(
        13.0,
        files={
            "halfcat.c": [
                (
                    "    copy(fd, STDOUT_FILENO);\n",
                    "    char b[BLOCK];\n    write_fully(1, b, (size_t)read(fd, b, BLOCK));\n",
                )
            ]
        },
    ),
    "takes-bytes-for-text": Mutant(
        13.0,
        files={
            "halfcat.c": [
                ("#include <unistd.h>\n", "#include <string.h>\n#include <unistd.h>\n"),
                (
                    "write_fully(to, block, (size_t)got);",
                    "write_fully(to, block, strnlen(block, (size_t)got));",
                ),
            ]
        },
    ),
    "writes-whole-blocks": Mutant(13.0, files={"halfcat.c": [("(size_t)got);", "sizeof block);")]}),
    # Fine as long as little comes back; the echo stands still.
    "sends-first-and-reads-later": Mutant(
        16.0,
        files={
            "halfcat.c": [
                (
                    "    copy(fd, STDOUT_FILENO);\n    pthread_join(sender, NULL);\n",
                    "    pthread_join(sender, NULL);\n    copy(fd, STDOUT_FILENO);\n",
                )
            ]
        },
    ),
    "does-not-compile": Mutant(
        13.0, files={"halfcat.c": [("pthread_t sender;", "pthread_t sender")]}
    ),
    "never-ends-its-direction": Mutant(
        13.0, files={"halfcat.c": [("shutdown(flow->to, SHUT_WR) < 0", "flow->to < 0")]}
    ),
}
