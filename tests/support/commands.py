"""Run a command to its end."""

import subprocess
from collections.abc import Sequence
from typing import Any


def completed(command: Sequence[object] | str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command without input; return its exit status and its output as text.

    A command that does not end is killed when pytest's time limit ends the test.

    Args:
        command: a program with its arguments, or a line for the shell.
        options: keyword arguments of subprocess.run().
    """
    argv = command if isinstance(command, str) else [*map(str, command)]
    usual: dict[str, Any] = {"capture_output": True, "text": True, "input": "", "check": False}
    return subprocess.run(argv, **(usual | options))
