"""Test the shared parts of the checks of C programs."""

import numpy as np
import pytest

from tcplab.grading.checks import Verdict
from tcplab.grading.programs import (
    MOST_BESIDE_BYTES,
    Departure,
    always_held,
    compiled,
    departures,
    how_it_ended,
    run_into_file,
)
from tcplab.grading.sandbox import Limits, Outcome
from tcplab.grading.submission import LabRun, Submission
from tcplab.segments import DTYPE, SegmentArray

CLIENT_C = """
#include <arpa/inet.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

static int connected(const char *port) {
    struct sockaddr_in server = {.sin_family = AF_INET, .sin_port = htons(atoi(port))};
    inet_pton(AF_INET, "10.0.0.2", &server.sin_addr);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&server, sizeof server) < 0)
        exit(1);
    return fd;
}

int main(int argc, char **argv) {
    if (argc < 2)
        return 2;
    BODY
    return 0;
}
"""


def client(body: str) -> bytes:
    """Return a C program with these lines, whose first argument is the server's port."""
    return CLIENT_C.replace("BODY", body).encode()


def rows(*segments: tuple[int, int, int, int, bool]) -> SegmentArray:
    """Return rows from (direction, seq, ack, payload_bytes, is_retransmission) of each segment."""
    made = np.zeros(len(segments), DTYPE)
    for name, column in zip(
        ("direction", "seq", "ack", "payload_bytes", "is_retransmission"),
        zip(*segments, strict=True),
        strict=True,
    ):
        made[name] = column
    return made.view(SegmentArray)


def run_of(seen: SegmentArray, outcome: Outcome | None = None) -> LabRun:
    ended = outcome or Outcome(0, None, None, 0, b"", b"", b"")
    return LabRun(ended, None, None, seen, seen)


def test_departures_count_acknowledged_bytes() -> None:
    run = run_of(
        rows(
            (0, 0, 0, 0, False),  # SYN
            (1, 0, 1, 0, False),  # SYN, ACK
            (0, 1, 1, 100, False),
            (0, 101, 1, 50, False),  # the first 100 bytes are not acknowledged yet
            (0, 101, 1, 50, True),
            (1, 1, 151, 2, False),  # the server's ACK, which carries data
            (0, 151, 3, 7, False),
            (1, 3, 120, 0, False),  # an older ACK, late
            (0, 158, 3, 1, False),
        )
    )
    sent = departures(run)
    assert sent == [(0, 100, 0), (100, 150, 0), (150, 157, 150), (157, 158, 150)]
    assert [departure.size_bytes for departure in sent] == [100, 50, 7, 1]
    assert [departure.is_ahead for departure in sent] == [False, True, False, True]
    assert departures(run, from_client=False) == [Departure(0, 2, 0)]
    assert departures(run_of(rows((1, 0, 1, 0, False)))) == []


@pytest.mark.parametrize(
    ("seen", "fewest"), [("1", 0), ("2", 0), ("31", 0), ("332", 0), ("333", 1), ("33x", 1)]
)
def test_message_is_held_if_it_is_in_each_run_before_any_retransmission(
    seen: str, fewest: int
) -> None:
    syn = [(0, 0, 0, 0, False), (1, 0, 1, 0, False)]
    kinds = {
        "1": [(0, 1, 1, 10, False), (0, 11, 1, 10, False)],
        "2": [(0, 1, 1, 10, False), (0, 1, 1, 10, True), (0, 11, 1, 20, False)],
        "3": [(0, 1, 1, 20, False)],
        "x": [],
    }
    failed = Outcome(1, None, None, 0, b"", b"", b"")
    runs = [run_of(rows(*syn, *kinds[kind]), failed if kind == "x" else None) for kind in seen]
    assert always_held(runs[0], iter(runs[1:]).__next__, [10, 20, 30]) == fewest


@pytest.mark.parametrize(
    ("outcome", "start"),
    [
        (Outcome(0, None, None, 0, b"", b"", b""), "hello ended with exit status 0"),
        (
            Outcome(1, None, None, 0, b"", b"one\n\x1b[1mconnect: refused\n\n", b""),
            'hello ended with exit status 1 and printed "[1mconnect: refused"',
        ),
        (Outcome(None, "SIGSEGV", None, 0, b"", b"", b""), "hello was ended by SIGSEGV (did it "),
        (
            Outcome(None, "SIGKILL", "wall", 0, b"", b"\xff" * 500, b""),
            "hello did not end within its time limit and printed",
        ),
    ],
)
def test_end_of_a_program_is_one_line(outcome: Outcome, start: str) -> None:
    message = how_it_ended(run_of(rows((0, 0, 0, 0, False)), outcome), "hello")
    assert message.startswith(start)
    assert len(message) < 250
    assert message.isprintable()


def test_uncompiled_program_is_not_run() -> None:
    ran = []

    @compiled("x.c")
    def look(work: Submission, times: int, *, more: int = 0) -> Verdict:
        """Its own words."""
        assert work.compile("x.c").binary
        ran.append(times + more)
        return Verdict(1, "compiled.")

    assert look.__doc__ == "Its own words."
    with Submission("ada", {}, {}, {"x.c": b"int main(void) { return 0 }"}, unsafe=True) as work:
        verdict = look(work, 2)
    assert verdict.share == 0
    assert verdict.message.startswith("x.c does not compile:\nx.c")
    with Submission("ada", {}, {}, {}, unsafe=True) as work:
        assert look(work, 2).message == "x.c does not compile:\nx.c was not handed in."
    assert ran == []
    with Submission("ada", {}, {}, {"x.c": b"int main(void) { return 0; }"}, unsafe=True) as work:
        assert look(work, 2, more=5) == Verdict(1, "compiled.")
    assert ran == [7]


@pytest.mark.parametrize(
    ("unsafe", "share", "is_told"),
    [(True, 1, True), (False, 0, True), (False, 1, False)],
    ids=["by the learner's check", "after a loss", "not after full marks"],
)
def test_learner_is_told_that_grading_has_no_io_uring(
    unsafe: bool, share: int, is_told: bool
) -> None:
    look = compiled("x.c")(lambda _work: Verdict(share, "judged."))
    program = b"int main(void) { return 0; /* io_uring */ }"
    with Submission("ada", {}, {}, {"x.c": program}, unsafe=unsafe) as work:
        verdict = look(work)
    assert (verdict.share, "io_uring" in verdict.message) == (share, is_told)
    assert verdict.message.startswith("judged.")


def test_received_file_is_returned() -> None:
    data = np.random.default_rng(1).bytes(70_001)
    copy = client(
        "while (sendfile(connected(argv[1]), open(argv[2], O_RDONLY), NULL, 100000) < 0);"
    )
    with Submission("ada", {}, {}, {"copy.c": copy}, unsafe=True) as work:
        run, received = run_into_file(
            work,
            work.compile("copy.c"),
            ["{port}", "data"],
            lab={"rtt_ms": 2},
            files={"data": data},
            limits=Limits(wall_s=60, cpu_s=5, processes=8),
        )
    assert run.outcome.ok
    assert received == data
    assert departures(run)[-1].end_bytes == len(data)


DECOYS = """
    for (int i = 0; i < 4; i++)
        if (send(connected(argv[1]), "decoys", i + 1, 0) != i + 1)
            return 1;
    usleep(100000);
"""


@pytest.mark.needs_lab
def test_only_the_accepted_connection_is_seen_and_others_are_flagged() -> None:
    with Submission("ada", {}, {}, {"decoys.c": client(DECOYS)}) as work:
        built = work.compile("decoys.c")
        peer = ["tcpsink", "--json", "--port", "0"]
        run = work.run_in_lab(built, ["{port}"], peer=peer, lab={"rtt_ms": 2})
        assert run.outcome.ok, run.outcome
        assert run.peer is not None, run.peer_error
        assert [departure.end_bytes for departure in departures(run)] == [run.peer["bytes"]] == [1]
        assert len(set(run.server_segments["connection"])) == 1
        assert work.flags == ["other-connections: decoys.c made 3 more than allowed"]


@pytest.mark.needs_lab
def test_grader_does_not_wait_for_a_program_that_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tcplab.grading.submission._PATIENCE_S", 3600.0)
    with Submission("ada", {}, {}, {"idle.c": b"int main(void) { return 0; }"}) as work:
        built = work.compile("idle.c")
        run = work.run_in_lab(built, [], peer=["tcpsink", "--json", "--port", "0"])
        assert run.peer is None


TALKATIVE = """
    static char block[1 << 20];
    for (int fd = connected(argv[1]); send(fd, block, sizeof block, MSG_NOSIGNAL) > 0;)
        ;
"""


@pytest.mark.needs_lab
def test_a_receipt_without_end_is_given_up() -> None:
    with Submission("ada", {}, {}, {"talkative.c": client(TALKATIVE)}) as work:
        run, received = run_into_file(
            work,
            work.compile("talkative.c"),
            ["{port}"],
            lab={"rtt_ms": 2},
            files={"data": b"x" * 1000},
            limits=Limits(wall_s=20, cpu_s=10, processes=8),
        )
    assert run.outcome.ok
    assert len(received) <= 2000 + MOST_BESIDE_BYTES
    assert "more than the" in str(run.peer_error)
