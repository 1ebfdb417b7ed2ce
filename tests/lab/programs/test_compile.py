"""A learner's C file is compiled, or the message says why not."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tcplab.errors import LabError
from tcplab.programs.compile import compile_here, compile_program

HELLO = b'#include <stdio.h>\r\nint main(void) { puts("hello"); return 0; }\r\n'
WITH_HEADER = b'#include "net.h"\nint main(void) { return clock_ns(0) > 0 ? 0 : 1; }\n'


def status_of(binary: bytes | None, folder: Path) -> int:
    assert binary is not None
    program = folder / "program"
    program.write_bytes(binary)
    program.chmod(0o755)
    return subprocess.run([program], check=False, stdout=subprocess.DEVNULL).returncode


def test_valid_program_compiles_without_messages(tmp_path: Path) -> None:
    built = compile_program("hello.c", HELLO)
    assert (built.name, built.messages) == ("hello.c", "")
    assert status_of(built.binary, tmp_path) == 0


def test_library_is_linked_in_and_compiled_once(tmp_path: Path) -> None:
    asked: list[str] = []

    def counted(arguments: Sequence[str], given: Mapping[str, bytes]) -> tuple[bytes, str]:
        asked.append("library" if "-nostdlib" in arguments else "program")
        return compile_here(arguments, given)

    for _ in range(2):
        built = compile_program("mine.c", WITH_HEADER, compiler=counted)
        assert status_of(built.binary, tmp_path) == 0
    compile_program("hello.c", HELLO, compiler=counted)
    assert asked == ["library", "program", "program", "program"]


def test_errors_name_the_file_and_the_line() -> None:
    built = compile_program("broken.c", b"int main(void) {\n    int x;\n    return 0\n}\n")
    assert built.binary is None
    assert built.first_error.startswith("broken.c:3:")
    assert "error: expected" in built.first_error
    assert "broken.c:2:9: warning: unused variable" in built.messages
    unknown = compile_program("lost.c", b"int lost(void);\nint main(void) { return lost(); }\n")
    assert "undefined reference to `lost'" in unknown.first_error
    lines = compile_program("long.c", b"\n".join([b"x;" * 300] * 50)).messages.splitlines()
    assert (len(lines), max(map(len, lines))) == (20, 200)


def test_missing_compiler_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-cc -m64")
    with pytest.raises(LabError, match="cc is not installed: apt install gcc libc6-dev"):
        compile_program("hello.c", HELLO)
