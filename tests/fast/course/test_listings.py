from __future__ import annotations

import re

import pytest

from tcplab.course.listings import listing
from tcplab.programs.sources import shared_sources, source_path


def test_listing_is_one_function_with_its_comment() -> None:
    ((first, code),) = listing("tcp_nodelay_client.c", "send_writes").parts
    lines = code.splitlines()
    text = source_path("tcp_nodelay_client.c").read_text().splitlines()
    assert lines == text[first - 1 :][: len(lines)]
    assert lines[0].startswith("/*")
    assert [line for line in lines if line == "}"] == lines[-1:]


def test_functions_are_shown_in_the_order_of_the_file() -> None:
    one_way = listing("tcp_nodelay_client.c", "send_message", "send_writes")
    assert one_way == listing("tcp_nodelay_client.c", "send_writes", "send_message")


def test_unknown_files_and_functions_are_named() -> None:
    with pytest.raises(FileNotFoundError, match=r"no C source 'nothing\.c'; there are .*wire\.c"):
        listing("nothing.c")
    with pytest.raises(ValueError, match=r"no function 'nothing' in wire\.c"):
        listing("wire.c", "nothing")


def test_shared_sources_have_headers_and_no_main() -> None:
    shared = shared_sources()
    assert {"net.c", "command_line.c", "json.c"} <= {path.name for path in shared}
    for path in shared:
        assert "int main(" not in path.read_text()
        assert path.with_suffix(".h").is_file()


def test_notebook_shows_listing_with_line_numbers_and_scrolls_long_lines() -> None:
    shown = listing("quoteclient.c", "send_requests", "run")
    html = shown._repr_html_()
    assert "<code>src/programs/quoteclient.c</code>" in html
    numbers = [int(n) for n in re.findall(r'<span class="linenos"> *(\d+)</span>', html)]
    shown_lines = [range(first, first + len(code.splitlines())) for first, code in shown.parts]
    assert numbers == [number for lines in shown_lines for number in lines]
    assert numbers != list(range(numbers[0], numbers[0] + len(numbers)))  # lines are left out
    assert re.search(r"\.tcplab-listing pre {[^}]*overflow-x: auto; white-space: pre;", html)
    assert '<pre tabindex="0">' in html  # so that the keyboard can scroll it too
