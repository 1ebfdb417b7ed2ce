"""Run the tests of the programs again, as installed: compiled for speed, without sanitizers."""
# ruff: noqa: F403  # the tests of tests/lab/programs, with the programs of this folder's conftest

from pathlib import Path

import pytest
from tests.lab.programs.test_bulk import *
from tests.lab.programs.test_command_line import *
from tests.lab.programs.test_faults import *
from tests.lab.programs.test_files import *
from tests.lab.programs.test_files import transfer as transfer_file
from tests.lab.programs.test_netcat import *
from tests.lab.programs.test_records_and_quotes import *
from tests.lab.programs.test_small_writes import *
from tests.support.programs.harness import Programs


@pytest.mark.timeout(600)
@pytest.mark.parametrize("method", ["sendfile", "mmap"])
def test_file_larger_than_two_gib_is_sent_whole(
    programs: Programs, tmp_path: Path, method: str
) -> None:
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.truncate(2**31 + 5000)
    sent, received = transfer_file(programs, path, ["-m", method], ["-S"])
    assert sent["bytes"] == received["bytes"] == 2**31 + 5000
    if method == "sendfile":
        assert sent["system_calls"] >= 2  # no call takes more than 2147479552 (sendfile(2))
