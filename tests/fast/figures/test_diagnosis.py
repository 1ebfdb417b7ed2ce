"""Test the text and legibility of the figures of lesson diagnosis, on its recordings."""

from __future__ import annotations

import pytest
from tests.support.figures.readable import assert_readable

from tcplab import figures
from tcplab.experiments import diagnosis
from tcplab.tables import digits


@pytest.mark.parametrize("program", diagnosis.PROGRAMS)
def test_figures_are_legible(program: diagnosis.Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCPLAB_MODE", "recorded")
    case = diagnosis.measure(program)
    symptom, cause = figures.symptom(case), figures.cause(case)
    assert_readable(symptom)
    if program != "request":  # that figure is the timeline, which has separate tests
        assert_readable(cause)
    assert digits(case.excess.taken) in symptom.note
    telltales = {
        "request": "held",
        "backup": "would fill the path",
        "ticker": "39 calls of send",
    }
    assert telltales[program] in cause.title
    assert telltales[program] not in symptom.title
