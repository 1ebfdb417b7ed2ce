"""Test the lessons' programs in the page: its facts are those that Python and the lab find."""

import json
import statistics
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from bench.web import BUILT, opened
from tests.slow.web.test_run_it_here import site
from tests.support.commands import completed
from tests.support.nonempty import each
from tests.support.paths import ROOT
from tests.support.short_c import CHANGES, few, write
from tools.lesson_programs import exported

from tcplab import segments
from tcplab.course import short_c
from tcplab.course.short_c import rules
from tcplab.experiments.diagnosis.run import stream_of
from tcplab.lab import Lab
from tcplab.segments.pcap import read_packets

__all__ = ["site"]
pytestmark = pytest.mark.timeout(1800)

SLUGS = sorted(short_c.CASES)


def groups(ran: short_c.Ran) -> int:
    """Return how many groups of the client's segments other segments separate."""
    times = ran.segments.data("client", retransmissions=False)["time_ns"]
    heard = ran.segments[ran.segments.from_server]["time_ns"].searchsorted(times)
    return len(set(heard.tolist()))


def second_half(ran: short_c.Ran) -> int:
    sent = ran.segments.sent_by("server")
    acks = sent[~sent.is_syn]
    return int(acks["window"][len(acks) // 2 :].max())


def longest_packet(ran: short_c.Ran) -> int:
    return int(ran.segments.data("client")["wire_bytes"].max(initial=14)) - 14


def scale(ran: short_c.Ran) -> int:
    return int(ran.segments[ran.segments.is_syn & ran.segments.from_server]["wscale"][0])


def between_answers(ran: short_c.Ran) -> int:
    return max((int(sent) for sent in np.diff([0, *ran.left_at_each_reply])), default=0)


def older_bytes(ran: short_c.Ran) -> list[int] | str:
    if FOUND["Connections"](ran) > 1:
        return "there is more than one connection"
    answers = enumerate(ran.stream[::1448])
    at = [1448 * number for number, first in answers if first == ord("!")]
    return [offset - left for offset, left in zip(at, ran.left_at_each_reply, strict=False)]


def gap_reported(ran: short_c.Ran) -> str:
    if not ran.segments.data("client")["is_retransmission"].any():
        return "nothing was sent again"
    return "no" if rules.reports_the_gap(ran) else "yes"


#: What Python finds under the labels of the page that a capture can show.
FOUND: dict[str, Callable[[short_c.Ran], Any]] = {
    "Bytes sent": lambda ran: sum(ran.sizes),
    "Segments": lambda ran: ran.sizes,
    "Connections": lambda ran: len(set(ran.segments["connection"].tolist())),
    "Groups of segments with an ACK between them": groups,
    "Most bytes between two answers": between_answers,
    "Older bytes before each answer": older_bytes,
    "A SACK reported the gap before the repair": gap_reported,
    "Segments that left with nothing else in flight": lambda ran: sum(
        size <= 1448 for size in ran.in_flight
    ),
    "Window scale in the SYN-ACK": scale,
    "Largest window, second half (bytes)": second_half,
    "Bytes acknowledged": lambda ran: ran.acknowledged,
    "Most bytes in flight": lambda ran: max(ran.in_flight, default=0),
    "Median of the bytes in flight": lambda ran: statistics.median(ran.in_flight),
    "Trips through the kernel": lambda ran: len(ran.sizes),
    "Longest trip (bytes)": lambda ran: max(ran.sizes, default=0),
    "Longest packet (bytes)": longest_packet,
}
#: The facts of the unchanged programs that no timing changes, so the lab finds the same ones. A
#: signal interrupts the unchanged sendfile, and sharing sends for a time.
SAME_IN_THE_LAB = {
    "Bytes sent": set(SLUGS) - {"sharing", "sendfile"},
    "Connections": {"the-lab", "slow-start", "sharing"},
    "Segments": {"the-lab", "cork"},
    "Window scale in the SYN-ACK": {"buffers"},
    "Bytes acknowledged": {"buffers", "path-mtu"},
    "Longest packet (bytes)": {"segments", "path-mtu"},
    "Trips through the kernel": {"tcp-vs-udp"},
    "Longest trip (bytes)": {"tcp-vs-udp"},
}
#: The programs to compare with the lab, and the labels of a solution's facts that are the same.
COMPARED = [(slug, "original") for slug in SLUGS if slug != "sendfile"]
SAME_SOLUTIONS = {"sendfile": ["Bytes sent"], "sharing": ["Connections"]}
COMPARED += [(slug, "solution") for slug in SAME_SOLUTIONS]


def read(capture: Path) -> short_c.Ran:
    """Read a capture, without connections that a program killed in the run before left behind."""
    packets = read_packets(capture)
    rows = segments.from_packets(packets)
    begun = np.isin(rows["connection"], rows["connection"][rows.is_syn])
    rows = rows[begun | (rows["protocol"] == segments.UDP)]
    stream = stream_of(cast("Any", SimpleNamespace(table=packets, segments=rows)))
    return short_c.Ran((), "", rows, stream)


def shown(slug: str, kind: str) -> dict[str, Any]:
    recorded = json.loads((BUILT / "recorded.json").read_text())
    assert slug in recorded, f"the book has no box for {slug}"
    return dict(recorded[slug][kind]["facts"])


@pytest.mark.usefixtures("site")
@pytest.mark.parametrize("kind", ["original", "solution"])
@pytest.mark.parametrize("slug", SLUGS)
def test_the_facts_equal_those_that_python_finds_in_the_capture(slug: str, kind: str) -> None:
    capture = ROOT / f"build/web-captures/{slug}-{kind}.pcapng"
    ran = read(capture)
    facts = {label: value for label, value in shown(slug, kind).items() if label in FOUND}
    assert facts == {label: FOUND[label](ran) for label in facts}
    assert facts["Bytes sent"] > 0


@pytest.mark.needs_lab
@pytest.mark.usefixtures("site")
@pytest.mark.parametrize(("slug", "kind"), COMPARED)
def test_counts_equal_those_of_the_lab(slug: str, kind: str, tmp_path: Path) -> None:
    right = kind == "solution"
    change = next(one for one in few() if one.slug == slug and (one.fails == "PASS") is right)
    case, given = short_c.CASES[slug], exported()[slug]
    with Lab(**case.link) as lab:
        lab.link.update("client->server", **case.narrow)
        if case.script:
            lab.link.script("client->server", case.script)
        ran = short_c.run(
            lab,
            slug,
            *given["arguments"].replace("FILE", "").split(),
            source=write(change, tmp_path),
            file_mb=int(given["file"] or 0) / 1e6,
            stdin=case.stdin,
        )
    labels = [label for label, slugs in SAME_IN_THE_LAB.items() if slug in slugs]
    labels = SAME_SOLUTIONS[slug] if right else labels
    facts = shown(slug, kind)
    assert {label: facts[label] for label in labels} == {
        label: FOUND[label](ran) for label in labels
    }


@pytest.mark.usefixtures("site")
@pytest.mark.parametrize("slug", SLUGS)
def test_the_facts_of_wrong_programs_equal_those_that_python_finds(
    slug: str, tmp_path: Path
) -> None:
    # The guest emulates its processor, so all 182 wrong programs would take half an hour.
    wrong = [change for change in CHANGES[slug] if change.fails != "PASS" and change.swaps]
    # Connections are easily mixed up.
    wrong.sort(key=lambda change: change.fails == "one-connection", reverse=True)
    wrong = wrong[:3] + [change for change in wrong[3:] if change.name == "a flood of UDP"]
    programs = {}
    for number, change in enumerate(wrong):
        (folder := tmp_path / str(number)).mkdir()
        programs[str(number)] = write(change, folder).read_text()
    (tmp_path / "programs.json").write_text(json.dumps({slug: programs}))
    done = completed(
        ["node", BUILT / "record.mjs", BUILT, tmp_path / "programs.json", tmp_path], timeout=900
    )
    assert done.returncode == 0, done.stderr
    assert "no answer" not in done.stdout, done.stdout
    recorded = json.loads((tmp_path / "facts.json").read_text())[slug]
    # A program that does not compile, or sends nothing, has no facts.
    silent = {change.name for number, change in enumerate(wrong) if str(number) not in recorded}
    assert len(silent) < len(wrong), silent
    for number in each(list(recorded)):
        ran = read(tmp_path / f"{slug}-{number}.pcapng")
        facts = {label: value for label, value in recorded[number]["facts"] if label in FOUND}
        assert facts == {label: FOUND[label](ran) for label in facts}, wrong[int(number)]


def test_a_right_solution_shows_what_the_original_does_not() -> None:
    changed = {slug: [shown(slug, kind) for kind in ("original", "solution")] for slug in SLUGS}
    assert all(original != solution for original, solution in changed.values())
    assert changed["small-writes"][1]["Segments"] == 10 * [30]
    assert changed["the-lab"][1]["Segments"] == 2 * [5]
    assert changed["slow-start"][1]["Connections"] == 1
    assert changed["loss"][0]["A SACK reported the gap before the repair"] == "no"
    assert changed["loss"][1]["A SACK reported the gap before the repair"] == "yes"
    assert changed["segments"][1]["Longest packet (bytes)"] == 1420
    assert changed["path-mtu"][1]["Bytes acknowledged"] == 2100
    assert changed["tcp-vs-udp"][1]["Trips through the kernel"] <= 45
    shares = [
        facts["Share of the bytes acknowledged while both sent (%)"] for facts in changed["sharing"]
    ]
    assert shares[0] < 60 <= shares[1]
    copied = [facts["Bytes that read() copied into the program"] for facts in changed["pipes"]]
    assert copied[0] > 3_000_000 > 30_000 > copied[1]


def test_a_program_runs_in_the_page_beside_the_original(browser: Any, site: str) -> None:
    with opened(browser, site, viewport={"width": 390, "height": 844}) as page:
        page.goto(f"{site}/c-the-lab.html")
        page.get_by_role("button", name="Compile and run").click()
        page.wait_for_selector(".run-it-here .strips", timeout=120_000)
        rows = page.locator(".run-it-here .wide tr").all_inner_texts()
        assert "\tyours\tthe original\ta right solution" in rows[0]
        assert "Segments\t5\t5\t5 + 5" in rows
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_changed_program_stays_in_the_link_and_its_errors_have_lines(
    browser: Any, site: str
) -> None:
    with opened(browser, site, viewport={"width": 390, "height": 844}) as page:
        page.goto(f"{site}/c-small-writes.html")
        text = page.locator(".run-it-here textarea")
        text.fill("int main(void) {\n    return missing;\n}\n")
        page.get_by_role("button", name="Compile and run").click()
        page.wait_for_selector(".run-it-here pre.problem", timeout=120_000)
        assert page.inner_text("pre.problem").startswith("line 2: error: 'missing' undeclared")
        page.reload()
        assert page.locator(".run-it-here textarea").input_value().startswith("int main(void)")


def test_a_program_that_never_ends_is_stopped_and_the_page_says_so(browser: Any, site: str) -> None:
    original = exported()["the-lab"]["source"]
    endless = "fork();\nsignal(SIGTERM, SIG_IGN);\nfor (;;) pause();"
    source = "#include <signal.h>\n" + original.replace("close(", f"{endless}\nclose(")
    assert source.count(endless) == 1
    with opened(browser, site) as page:
        page.goto(f"{site}/c-the-lab.html")
        runs = page.evaluate(
            """async (sources) => {
                const { computer } = await import("./running.mjs");
                const { run_program } = await import("./programs.mjs");
                const { "the-lab": lesson } = await (await fetch("lessons.json")).json();
                const runs = [];
                for (const source of sources) {
                    const machine = await computer();
                    runs.push(await run_program(machine, "the-lab", lesson, source, 180_000));
                }
                return runs.map(({ problem, facts }) => [problem, facts]);
            }""",
            [source, original],
        )
    assert "did not end" in runs[0][0]
    assert runs[0][1][0] == runs[1][1][0]  # the bytes that were sent before
    assert runs[1][0] == ""


def test_the_first_page_shows_the_answer_beside_the_guess(browser: Any, site: str) -> None:
    with opened(browser, site, viewport={"width": 390, "height": 844}) as page:
        page.goto(f"{site}/index.html")
        page.get_by_label("Your guess in milliseconds").fill("1")
        page.get_by_role("button", name="Run").click()
        page.wait_for_selector(".first-page .strips", timeout=120_000)
        took, joined = page.evaluate(
            """async () => {
                const box = await import("./run-it-here.mjs");
                const run = async (mode) => box.message_marks(
                    await box.measure({ mode, writes: 15, bytes: 2, rtt: 0.2 })).end;
                return [await run("default"), await run("writev")];
            }"""
        )
        assert 40 <= took <= 60
        assert 0.2 <= joined < 1  # one round trip and some work of the processor
        assert "times your guess" in page.inner_text(".first-page .output h3")
