"""Every claim in docs/claims.md has a verdict and a valid command. The named sections exist.

The numbers come from the shipped recordings, and are within the bounds that the words imply.
"""

import json
import re
import runpy
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest
from tests.support.lessons import BY_SLUG, cells, headings
from tests.support.nonempty import each
from tests.support.paths import ROOT

from tcplab.cli.front import parser_of
from tcplab.cli.run import measured
from tcplab.course import claims
from tcplab.course.claims import ClaimNumber, ClaimsError, claims_of
from tcplab.errors import ParameterError
from tcplab.experiments import declaration

TOOL = runpy.run_path(str(ROOT / "tools/make-claims"))
DATA = claims.data()
EVIDENCE = "\n".join(claim["evidence"] for claim in DATA["claim"])


def test_every_claim_has_its_parts() -> None:
    for claim in each(DATA["claim"]):
        assert all(claim[key] for key in ("lesson", "source", "claim", "reason"))
        assert TOOL["NAME"].search(claim["evidence"]), claim["claim"]


def test_page_is_made_from_the_claims_and_the_recordings(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a recording or a claim has changed. Run `make claims`."""
    monkeypatch.setattr(sys, "argv", ["make-claims", "--check"])
    assert TOOL["main"]() == 0


def recorded(several: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the recordings that these claims read."""
    names = {entry[0] for claim in several for entry in claim.get("numbers", {}).values()}
    return {name: TOOL["result_of"](DATA["recordings"][name]) for name in names}


def damaged(edit: Callable[[dict[str, Any]], object], step: str = "reason") -> str:
    """Edit the claim about the goodput of Gigabit Ethernet; return the complaint."""
    claim = json.loads(json.dumps(DATA["claim"][0]))
    edit(claim)
    with pytest.raises(ClaimsError) as caught:
        TOOL[step](claim, recorded([claim]))
    return str(caught.value)


def test_number_that_the_recording_contradicts_is_refused() -> None:
    complaint = damaged(lambda claim: claim["numbers"]["gbit"].__setitem__(2, 118))
    assert "is not within 118 and " in complaint


def test_change_that_does_not_alter_the_verdict_is_refused() -> None:
    complaint = damaged(lambda claim: claim["numbers"]["gbit"].__setitem__(2, 0), "fails")
    assert "no bound fails with the change" in complaint


def test_wrong_arithmetic_is_refused() -> None:
    assert "1538 is 1537" in damaged(lambda claim: claim["given"].update({"1538": "= 1500 + 37"}))


def test_number_without_origin_is_refused() -> None:
    complaint = damaged(lambda claim: claim.update(reason=claim["reason"] + " and 42 more"))
    assert "numbers without origin, or origins without number: ['42']" in complaint


def test_perturbed_recording_changes_the_verdict() -> None:
    """The verdict must change, or numbers within the bounds could contradict the claim."""
    decided = [claim for claim in DATA["claim"] if claim["verdict"] != "not testable here"]
    for claim in each(decided):
        if claim["verdict"] == "holds" or "numbers" in claim:
            changed = TOOL["perturbed"](claim, recorded([claim]))
            verdict = claims.judge(claim["verdict"], changed.values())
            assert verdict == claims.OTHERWISE, claim["claim"]


def test_number_that_falsifies_is_outside_the_bounds_on_the_page() -> None:
    """The page must show this without the interval that decides the verdict."""
    page = (ROOT / "docs/claims.md").read_text().replace(",", "").replace("\u202f", "")
    pattern = r"`\w+` is ([\d.]+)[^|]*? but it must be (-?[\d.]+)(?: to ([\d.]+))? \|"
    for shown, least, most in each(re.findall(pattern, page)):
        assert not float(least) <= float(shown) <= float(most or least), (shown, least, most)
    assert len(re.findall(pattern, page)) == page.count(" but it must be ") > 150


def test_spread_of_several_runs_is_shown() -> None:
    assert str(ClaimNumber([3.0, 1.0, 2.04], 0, 9, ".1f")) == "2.0 (1.0–3.0 in 3 runs)"


@pytest.mark.parametrize(
    ("change", "complaint"),
    [({"verdict": "holds mostly"}, "is not one of holds"), ({}, "claimed twice")],
)
def test_unknown_verdict_and_second_row_are_refused(change: dict[str, str], complaint: str) -> None:
    with pytest.raises(ClaimsError, match=complaint):
        TOOL["check_claims"]([*DATA["claim"], DATA["claim"][0] | change])


def test_commands_on_the_page_are_those_of_recordings(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader who runs a command must get the numbers of the page, or at least their kind."""
    monkeypatch.setenv("TCPLAB_MODE", "recorded")
    monkeypatch.setattr(declaration, "recorded", lambda *call: call)
    commands = set(re.findall(r"`(tcplab [^`]+)`", (ROOT / "docs/claims.md").read_text()))
    for command in sorted(commands):
        words = shlex.split(command)[1:]
        options = parser_of(words).parse_args(words)
        replayed: Any = measured(options.experiment, options)
        name, arguments, _why = replayed
        calls = [TOOL["plain"](known) for known, _result in TOOL["recorded"](name)]
        assert TOOL["plain"](arguments) in calls, command
    assert len(commands) == len(DATA["recordings"])


def test_measured_recording_is_in_the_evidence() -> None:
    complaint = damaged(lambda claim: claim.update(evidence="{pipes}"))
    assert "['goodput']: measured, and not in the evidence" in complaint


def test_sections_named_by_the_claims_exist() -> None:
    titles = {slug: {title for _, title in headings(path)} for slug, path in BY_SLUG.items()}
    named = [
        (slug, title)
        for slug, several in re.findall(r'lesson ([\w-]+)((?:, "[^"]+")+)', EVIDENCE)
        for title in re.findall(r'"([^"]+)"', several)
    ]
    assert [(slug, title) for slug, title in named if title not in titles[slug]] == []
    assert len(named) >= 40


# ---- tested in the lessons ----------------------------------------------------------------------


@pytest.mark.parametrize("lesson", BY_SLUG)
def test_lesson_computes_its_verdicts_from_its_own_results(lesson: str) -> None:
    code = "\n".join(cells(BY_SLUG[lesson], "code"))
    assert len(re.findall(rf'test_claims\(\s*"{lesson}",', code)) == 1
    assert len(claims_of(lesson)) >= 5
    for claim in each(claims_of(lesson)):
        assert claim.get("numbers"), f"nothing of this is measured: {claim['claim']}"
    table = claims.test_claims(lesson, **recorded(claims_of(lesson)))
    assert [row["verdict"] for row in table.rows] == [
        claim["verdict"] for claim in claims_of(lesson)
    ]
    assert "–" not in {row["reason"] for row in table.rows}
    shown, _, folded = table._repr_html_().partition("<details>")
    assert shown.count("<tr>") == 1 + 3
    assert folded.count("<tr>") == 1 + len(table.rows) - 3


@pytest.mark.parametrize(
    ("values", "within"),
    [
        ([2.0], True),
        ([1.5, 2.0, 2.5], True),
        ([1.5, 2.0, 3.5], None),
        ([3.5, 4.0, 9.0], False),
        ([2.0] * 48 + [0.1, 9.0], True),
        ([2.0] * 25 + [4.0] * 25, None),
    ],
)
def test_number_is_judged_only_if_all_runs_agree(values: list[float], within: bool | None) -> None:
    assert ClaimNumber(values, 1, 3, "g").within is within


class Made:
    """A result with one row."""

    def __init__(self, **row: Any) -> None:
        self.row = {"variant": "only"} | row
        self.provenance = {"disturbed": "the machine was busy" if row.get("ms") == 9.0 else ""}

    def rows(self) -> list[dict[str, Any]]:
        return [self.row]


@pytest.mark.parametrize(
    ("value", "verdict", "reason"),
    [
        (2.0, "refuted", "it takes 2.0 ms"),
        ([0.5, 2.0], claims.UNDECIDED, "“Refuted” would take 1 to 3, not 1.2 (0.5–2.0 in 2 runs)."),
        (7.0, claims.OTHERWISE, "“Refuted” would take 1 to 3, not 7.0."),
        (9.0, claims.UNDECIDED, "not 9.0. The machine was busy."),
        (None, claims.NOT_MEASURED, "it takes – ms"),
    ],
)
def test_verdict_depends_on_the_measured_value(
    value: Any, verdict: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = {
        "source": "a text",
        "claim": "`send()` takes long",
        "verdict": "refuted",
        "evidence": 'lesson no-such-lesson, "Measure", "Test the claims"',
        "reason": "it takes {ms} ms",
        "numbers": {"ms": ["made", "by['only']['ms']", 1, 3, ".1f"]},
    }
    monkeypatch.setattr(claims, "data", lambda: {"claim": [claim]})
    (row,) = claims.test_claims("no-such-lesson", made=Made(ms=value)).rows
    assert (row["claim"], row["verdict"]) == ("send() takes long", verdict)
    assert reason in row["reason"]


def test_missing_results_and_lessons_without_claims_are_refused() -> None:
    with pytest.raises(ParameterError, match=r"has the results none; its claims need capture, con"):
        claims.test_claims("the-lab")
    with pytest.raises(ParameterError, match="it tests no claim"):
        claims.test_claims("no-such-lesson", small=Made())
