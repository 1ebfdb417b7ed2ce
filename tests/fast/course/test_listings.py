"""Test the listings of C sources."""

import pytest

from tcplab.course.listings import listing
from tcplab.programs.sources import shared_sources, source_path


def test_listing_is_functions_with_their_comments_in_the_order_of_the_file() -> None:
    code = listing("tcp_nodelay_client.c", "send_message", "send_writes").data
    where, *lines = code.splitlines()
    assert where == "/* src/programs/tcp_nodelay_client.c */"
    assert lines[1].startswith("/*")
    source = source_path("tcp_nodelay_client.c").read_text().splitlines()
    places = [source.index(line) for line in lines if "(" in line and line[0].isalpha()]
    assert len(places) == lines.count("}") == 2
    assert places == sorted(places)


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
