"""Each default call and each call of a lesson has a recording, which has no model's numbers."""

import ast
from dataclasses import fields
from typing import Any

import pytest
from tests.support.lessons import ALL, cells

from tcplab.experiments import every
from tcplab.experiments.declaration import Experiment
from tcplab.experiments.recordings import shipped

OURS = [each for each in every().values() if each.measure.__module__.startswith("tcplab.")]


@pytest.mark.parametrize("experiment", OURS, ids=lambda each: each.name)
def test_a_call_without_arguments_is_recorded(experiment: Experiment) -> None:
    recorded = [*shipped(experiment.name)]
    assert recorded, "run `make recordings ARGS=defaults`, which records what has no recording"
    result = experiment.measure()
    stored = {field.name for case in getattr(result, "variants", ()) for field in fields(case)}
    assert not [field for field in stored if "model" in field or "formula" in field]


def test_calls_of_lessons_are_recorded() -> None:
    """Make each call whose arguments are constants, or variables with constants."""
    number = 0
    for path in ALL:
        names: dict[str, Any] = {}
        for statement in ast.parse("\n".join(cells(path, "code"))).body:
            if getattr(statement, "module", "") == "tcplab.experiments" or (
                isinstance(statement, ast.Assign | ast.AugAssign) and is_constant(statement, names)
            ):
                exec(ast.unparse(statement), names)
            for call in ast.walk(statement):
                if isinstance(call, ast.Call) and ".measure" in ast.unparse(call.func):
                    arguments = (*call.args, *(keyword.value for keyword in call.keywords))
                    if all(is_constant(argument, names) for argument in arguments):
                        eval(ast.unparse(call), names)
                        number += 1
    assert number > 60


def is_constant(node: ast.AST, names: dict[str, Any]) -> bool:
    parts = list(ast.walk(node))
    used = {x.id for x in parts if isinstance(x, ast.Name) and isinstance(x.ctx, ast.Load)}
    return used <= set(names) and not any(isinstance(part, ast.Call) for part in parts)
