"""Verdicts on captures alone claim no more than their packets prove."""

import functools
from collections.abc import Callable
from pathlib import Path

import pytest
from bench.explain import KINDS, make_capture
from tests.support import forge
from tests.support.forge import Frame, Talk

from tcplab.cli import main
from tcplab.cli.explain import OfCapture, find, from_capture
from tcplab.explain import Explanation

MS = 1_000_000
SCALED = [("MSS", 1460), ("WScale", 7)]


def verdict_on(talk: Talk, folder: Path) -> Explanation:
    return from_capture(str(talk.save(folder / "x.pcapng")), OfCapture())


def small_segments(talk: Talk, count: int, ack_after_ms: int) -> Talk:
    """Add segments, each sent after the ACK of the previous one; return the conversation."""
    for number in range(count):
        talk.segment(0, "PA", 1 + 10 * number, 1, 10, step_ns=MS // 10)
        talk.segment(1, "A", 1, 11 + 10 * number, step_ns=ack_after_ms * MS)
    return talk


@pytest.mark.parametrize(
    ("rtt_ms", "ack_after_ms", "count", "is_fault"),
    [(1, 40, 6, True), (60, 100, 6, True), (60, 60, 6, False), (1, 40, 2, False)],
    ids=["delayed", "delayed on a long path", "a long path", "once"],
)
def test_only_repeated_timer_delays_of_acks_are_a_fault(
    tmp_path: Path, rtt_ms: int, ack_after_ms: int, count: int, is_fault: bool
) -> None:
    talk = Talk(step_ns=rtt_ms * MS)
    talk.segment(0, "S", 0)
    talk.segment(1, "SA", 0, 1)
    talk.segment(0, "A", 1, 1, step_ns=MS // 10)
    explanation = verdict_on(small_segments(talk, count, ack_after_ms), tmp_path)
    causes = {finding.cause for finding in explanation.findings if finding.kind == "fault"}
    assert causes == ({"nagle-delayed-ack"} if is_fault else set()), explanation.report()
    assert ("5 of its small segments" in explanation.report()) is is_fault


def test_segments_before_the_late_ack_did_not_wait_for_it(tmp_path: Path) -> None:
    talk = Talk()
    talk.handshake()
    for number in range(8):
        talk.segment(0, "PA", 1 + 10 * number, 1, 10, step_ns=40 * MS)
        if number % 2:
            talk.segment(1, "A", 1, 11 + 10 * number, step_ns=MS)
    found = verdict_on(talk, tmp_path)
    assert "nagle-delayed-ack" not in {finding.cause for finding in found.findings}, found.report()


@pytest.mark.parametrize("options", [SCALED, None], ids=["SYNs", "no SYN"])
def test_a_window_of_unknown_scale_is_never_full(tmp_path: Path, options: list[object]) -> None:
    talk = Talk()
    if options:
        talk.handshake(options=(options, options[:1]))
    for number in range(9):
        talk.segment(0, "PA", 1 + 1000 * number, 1, 1000, window=512, step_ns=MS // 10)
        for window in (500, 1500):
            talk.segment(1, "A", 1, 1001 + 1000 * number, window=window, step_ns=30 * MS)
    explanation = verdict_on(talk, tmp_path)
    waited = {finding.cause for finding in explanation.findings if finding.share > 0.4}
    assert ("receive-window" in waited) is bool(options), explanation.report()
    [conversation] = explanation.conversations
    sentences_of_client = " ".join(conversation.timelines["client"].sentences())
    assert ("window update to 1500 bytes" in sentences_of_client) is bool(options)
    assert ("window update" in sentences_of_client) is bool(options)


def test_a_window_that_opens_is_seen_without_its_scale(tmp_path: Path) -> None:
    talk = Talk()
    talk.segment(0, "PA", 1, 1, 1000)
    talk.segment(1, "A", 1, 1001, window=0)
    talk.segment(1, "A", 1, 1001, window=9, step_ns=400 * MS)
    talk.segment(0, "PA", 1001, 1, 1000, step_ns=MS // 10)
    explanation = verdict_on(talk, tmp_path)
    assert explanation.verdict is not None
    assert explanation.verdict.cause == "receive-window", explanation.report()


def test_small_window_without_data_to_send_is_no_wait(tmp_path: Path) -> None:
    talk = Talk()
    talk.handshake()
    talk.segment(0, "PA", 1, 1, 100)
    talk.segment(1, "A", 1, 101)
    talk.segment(0, "PA", 101, 1, 400, step_ns=500 * MS)
    talk.segment(1, "A", 1, 501, window=2000)
    talk.segment(0, "PA", 501, 1, 1000, step_ns=MS // 10)
    explanation = verdict_on(talk, tmp_path)
    assert all(one.ms < 2 for one in explanation.findings if one.cause == "receive-window")


def test_only_an_unanswered_syn_is_reported_as_no_answer(tmp_path: Path) -> None:
    cut, one_way, unanswered = Talk(), Talk(), Talk()
    small_segments(cut, 2, 1).segment(0, "S", 0, ports=(40001, 80))
    one_way.segment(0, "S", 0)
    one_way.segment(0, "A", 1, 1)
    for step_s in (0, 1, 2):
        unanswered.segment(0, "S", 0, step_ns=step_s * 1000 * MS)
    for talk in (cut, one_way):
        assert "no answer" not in verdict_on(talk, tmp_path).report()
    assert "no answer to 3 SYNs" in verdict_on(unanswered, tmp_path).report()


def test_requests_that_no_log_shows_are_not_counted(tmp_path: Path) -> None:
    talk = Talk(step_ns=40 * MS)
    for port in range(40_000, 40_006):
        talk.segment(0, "S", 0, ports=(port, 80))
        talk.segment(1, "SA", 0, 1, ports=(port, 80))
        talk.segment(0, "PA", 1, 1, 10, ports=(port, 80), step_ns=MS)
        talk.segment(1, "FPA", 1, 11, 10, ports=(port, 80))
    assert "for 0 requests" not in verdict_on(talk, tmp_path).report()


def test_the_first_line_says_what_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = Talk()
    for port in (40_000, 40_001, 40_002):
        for side, flags in enumerate(("S", "SA", "A", "PA", "A")):
            talk.segment(side % 2, flags, min(side, 1), 1, 9 * (flags == "PA"), ports=(port, 80))
    assert verdict_on(talk, tmp_path).coverage == ""
    monkeypatch.setattr("tcplab.explain.joining.MOST_PACKETS", 9)
    assert "the first 12 of 15 packets (0.0 s): " in verdict_on(talk, tmp_path).report()
    monkeypatch.setattr("tcplab.explain.joining.MOST_CONNECTIONS", 2)
    first_line = verdict_on(talk, tmp_path).report().partition("\n")[0]
    assert "the first 2 of 3 connections: the first 9 of 10 packets" in first_line


@pytest.mark.parametrize("kind", KINDS)
def test_every_packet_of_a_long_capture_is_judged_up_to_the_limit(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packets = make_capture(tmp_path / "x.pcap", KINDS[kind](40_000))
    explanation = from_capture(str(tmp_path / "x.pcap"), OfCapture())
    assert sum(len(one.rows) for one in explanation.conversations) == packets > 30_000
    assert explanation.coverage == "", explanation.report()
    causes = {finding.cause for finding in explanation.findings}
    assert ("loss" in causes) is ("losses" in kind)
    assert ("nagle-delayed-ack" in causes) is ("200" in kind)
    monkeypatch.setattr("tcplab.explain.joining.MOST_PACKETS", packets // 2)
    shorter = from_capture(str(tmp_path / "x.pcap"), OfCapture())
    assert f" of {packets:,} packets (" in shorter.report().partition("\n")[0]


@pytest.mark.parametrize("arrived_twice", [True, False])
def test_a_tail_loss_probe_is_no_loss_if_both_copies_arrived(
    arrived_twice: bool, tmp_path: Path
) -> None:
    talk = Talk(ipv6=True)
    talk.handshake()
    for number in range(6):
        start = 1 + 20 * number
        talk.segment(0, "PA", start, 1, 10)
        talk.segment(0, "PA", start + 10, 1, 10, step_ns=1)
        talk.segment(0, "PA", start + 10, 1, 10, step_ns=20 * MS)
        block = [("SAck", (5011 + 20 * number, 5021 + 20 * number))] if arrived_twice else []
        talk.segment(1, "A", 1, start + 20, options=block)
    explanation = verdict_on(talk, tmp_path)
    causes = {finding.cause for finding in explanation.findings}
    assert ("loss" in causes) is not arrived_twice, explanation.report()
    [conversation] = explanation.conversations
    sentences = conversation.timelines["client"].sentences()
    assert sum("D-SACK" in sentence for sentence in sentences) == 6 * arrived_twice


def test_a_long_capture_is_listed_if_an_option_asks_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tcplab.cli.explain.MOST_LISTED", 1)
    talk = Talk()
    talk.handshake()
    path = small_segments(talk, 3, 1).save(tmp_path / "x.pcapng")
    (tmp_path / "log").write_text("1700000000001000000 write 30\n")
    assert main(["explain", str(path)]) == 0
    assert "To list the segments of one connection, add --connection N (" in capsys.readouterr().out
    for option, value in {"--log": str(tmp_path / "log"), "--nodelay": "on"}.items():
        assert main(["explain", str(path), option, value]) == 0
        output = capsys.readouterr().out
        assert "To list" not in output
        assert "10 bytes" in output
    assert "TCP_NODELAY on" in output


def delayed(step_ns: int = MS) -> Talk:
    """Return small segments that each wait for the delayed ACK of the previous one."""
    talk = Talk(step_ns=step_ns)
    talk.handshake()
    return small_segments(talk, 9, 45)


def repeated(talk: Talk) -> None:
    talk.frames = [frame for frame in talk.frames for _ in range(3)]


def in_vxlan(talk: Talk) -> None:
    from scapy.layers.inet import IP, UDP
    from scapy.layers.l2 import Ether
    from scapy.layers.vxlan import VXLAN

    outer = Ether() / IP(src="10.9.0.1", dst="10.9.0.2") / UDP(sport=9, dport=4789) / VXLAN(vni=7)
    talk.frames = [Frame(bytes(outer) + frame.data, frame.time_ns) for frame in talk.frames]


def in_ip_tunnel(port: int, header: str, talk: Talk) -> None:
    from scapy.layers.inet import IP, UDP
    from scapy.layers.l2 import Ether

    outer = Ether() / IP(src="10.9.0.1", dst="10.9.0.2") / UDP(sport=9, dport=port)
    before = bytes(outer / bytes.fromhex(header))
    talk.frames = [Frame(before + frame.data[14:], frame.time_ns) for frame in talk.frames]


in_geneve = functools.partial(in_ip_tunnel, 6081, "01000800 00000700 01020300")
in_vxlan_gpe = functools.partial(in_ip_tunnel, 4790, "0c000001 00000700")


@pytest.mark.parametrize(("port", "header"), [(6081, "00006559 00000700"), (4790, "0c000005 0700")])
def test_tunnels_that_are_not_read_are_counted(port: int, header: str, tmp_path: Path) -> None:
    talk = delayed()
    in_ip_tunnel(port, header, talk)
    name = "Geneve" if port == 6081 else "VXLAN-GPE"
    path = talk.save(tmp_path / "x.pcapng")
    with pytest.raises(ValueError, match=f"{len(talk.frames)} {name}"):
        find(str(path), OfCapture())


def set_back(talk: Talk) -> None:
    talk.frames[9:] = [Frame(one.data, one.time_ns - 2000 * MS) for one in talk.frames[9:]]


@pytest.mark.parametrize(
    ("change", "note"),
    [
        (repeated, "are copies of others"),
        (in_vxlan, ""),
        (in_geneve, ""),
        (in_vxlan_gpe, ""),
        (set_back, "the times step back by"),
    ],
)
def test_odd_captures_get_the_same_verdict(
    change: Callable[[Talk], None], note: str, tmp_path: Path
) -> None:
    talk = delayed()
    change(talk)
    explanation = verdict_on(talk, tmp_path)
    assert explanation.verdict is not None
    assert explanation.verdict.cause == "nagle-delayed-ack", explanation.report()
    assert note in explanation.report()
    assert "sent again" not in explanation.report()


def test_one_direction_proves_no_reason(tmp_path: Path) -> None:
    talk = delayed()
    talk.frames = [talk.frames[0], talk.frames[2], *talk.frames[3::2]]
    report = verdict_on(talk, tmp_path).report()
    assert report.startswith("Verdict: only packets from the client are in the capture"), report
    talk.frames = talk.frames[:1]
    assert "1 SYN, and then the capture ends" in verdict_on(talk, tmp_path).sentence


@pytest.mark.parametrize("offset_ms", [0, 15, 5000])
def test_clocks_of_two_hosts_may_differ(offset_ms: int, tmp_path: Path) -> None:
    talks = {"near": Talk(), "far": Talk()}
    for name, talk in talks.items():
        talk.time_ns += offset_ms * MS * (name == "far")
        for number in range(30):
            for side in (0, 1):
                is_late = (name == "far") == (side == 0)
                flags, seq = ("S", "SA")[side] if not number else "PA", 0 if not number else 1
                size = 10 * bool(number)
                numbers = (seq + 10 * (number - 1) * bool(number), number * 10 - 9 * (number > 0))
                talk.time_ns += 20 * MS
                at = talk.time_ns
                talk.segment(side, flags, numbers[0], max(numbers[1], side), size, step_ns=0)
                talk.frames[-1] = Frame(talk.frames[-1].data, at + 5 * MS * is_late)
        talk.save(tmp_path / name)
    evidence = OfCapture(peer_capture=str(tmp_path / "far"))
    explanation = from_capture(str(tmp_path / "near"), evidence)
    assert len(explanation.conversations[0].timelines) == 2, explanation.report()
    assert ("the peer's clock is" in explanation.report()) is (offset_ms > 5)
    assert "the rate of the link" not in explanation.report()


def test_a_loss_that_the_capture_saw_by_later_data_had_no_timer(tmp_path: Path) -> None:
    talk = Talk()
    talk.handshake()
    talk.segment(0, "PA", 1, 1, 100)
    talk.segment(0, "PA", 201, 1, 100)
    talk.segment(0, "PA", 101, 1, 100, step_ns=300 * MS)
    talk.segment(1, "A", 1, 301)
    report = verdict_on(talk, tmp_path).report()
    assert "1 retransmission whose first copy is not in the capture, 300 ms after" in report


def test_the_wait_for_a_single_answer_counts(tmp_path: Path) -> None:
    talk = Talk()
    talk.handshake()
    talk.segment(0, "PA", 1, 1, 100)
    talk.segment(1, "A", 1, 101)
    talk.segment(1, "PA", 1, 101, 100, step_ns=120 * MS)
    talk.segment(0, "A", 101, 101)
    verdict = verdict_on(talk, tmp_path).verdict
    assert verdict is not None
    assert (verdict.cause, verdict.ms >= 120) == ("server", True)


@pytest.mark.parametrize(
    ("step_ns", "sentence"), [(-90 * MS, "the captured data shows no wait"), (1 << 62, "")]
)
def test_odd_times_are_no_wait(step_ns: int, sentence: str, tmp_path: Path) -> None:
    talk = Talk()
    talk.segment(0, "PA", 1, 1, 100)
    talk.segment(1, "PA", 1, 101, 100, step_ns=step_ns)
    assert sentence in verdict_on(talk, tmp_path).sentence


def test_a_capture_without_tcp_says_what_it_holds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arp = Frame(bytes(12) + b"\x08\x06" + bytes(28))
    udp = Frame(bytes.fromhex("000000000000 000000000000 0800 4500001c000000004011") + bytes(18))
    file = tmp_path / "x.pcapng"
    file.write_bytes(forge.pcapng([arp, udp, arp]))
    for options in ([], ["--json"]):
        assert main(["explain", str(file), *options]) == 2
        shown = capsys.readouterr()
        assert not shown.out
        assert shown.err.count("\n") == 1
        assert "nothing to explain: " in shown.err
        assert "3 packets (1 UDP, 2 ARP)" in shown.err
