"""A long measurement can be interrupted at any time and keeps the rounds it has finished."""

from pathlib import Path
from textwrap import dedent

import pytest

from tcplab.experiments.progress import Rounds, in_rounds, one_by_one


def leave_in_round(last: int, error: BaseException) -> Rounds:
    with Rounds(5) as rounds:
        for number in rounds:
            if number == last:
                raise error
    return rounds


def test_interrupted_before_anything_was_measured(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt):
        leave_in_round(0, KeyboardInterrupt())
    with pytest.raises(OSError, match="gone"):
        leave_in_round(1, OSError("gone"))
    assert capfd.readouterr() == ("", "")  # a bar is drawn only on a terminal


def test_notebook_shows_the_rounds_while_they_run(tmp_path: Path) -> None:
    import nbformat
    from tools import notebooks

    loop = """
    from tcplab.experiments.progress import Rounds
    with Rounds(2) as rounds:
        for number in rounds:
            assert rounds._line is not None
    """
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(dedent(loop))])
    done = notebooks.client(notebook, tmp_path, 60).execute()
    (output,) = done.cells[0].outputs
    assert output["data"] == {"text/plain": ""}  # the line "test: 2 of 2" is erased


def test_incomplete_round_is_no_result() -> None:
    calls = 0

    def measure(_name: str) -> int:
        nonlocal calls
        calls += 1
        if calls == 4:
            raise KeyboardInterrupt
        return calls

    results, done = in_rounds(5, ["a", "b"], measure)
    assert results == {"a": [1], "b": [2]}
    assert done == {"runs": 1, "interrupted": True}


def test_one_by_one_keeps_what_is_done() -> None:
    def measure(number: int) -> int:
        if number == 3:
            raise KeyboardInterrupt
        return 10 * number

    assert one_by_one([1, 2], measure) == ([10, 20], {"runs": 2, "interrupted": False})
    assert one_by_one([1, 3, 2], measure) == ([10], {"runs": 1, "interrupted": True})
