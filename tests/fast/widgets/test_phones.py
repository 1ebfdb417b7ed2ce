"""Test votes by phones: the page takes one number per phone, from this demo's present question."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.fast.widgets.test_view import with_view

from tcplab import demos
from tcplab.demos import phones
from tcplab.demos.view import DemoView


@pytest.fixture
def port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    made = []
    bind = phones._Server.server_bind
    monkeypatch.setattr(phones._Server, "server_bind", lambda self: (bind(self), made.append(self)))
    phones.write(tmp_path / phones.QUESTION, [7, "How <long>?", ["1 ms", "44 ms"]])
    with phones.serving(("127.0.0.1", 0), tmp_path):
        yield made[0].server_address[1]


def ask(port: int, body: str | None = None, cookie: str = "") -> http.client.HTTPResponse:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=10)) as connection:
        connection.request("GET" if body is None else "POST", "/", body, {"Cookie": cookie})
        return connection.getresponse()


def test_a_phone_has_one_vote_and_may_change_it(port: int, tmp_path: Path) -> None:
    counts = tmp_path / phones.COUNTS
    first, second = (ask(port).headers["Set-Cookie"].partition(";")[0] for _ in range(2))
    for cookie, option in ((first, 0), (first, 1), (second, 1)):
        assert ask(port, f"ballot=7&vote={option}", cookie).status == 303
    assert json.loads(counts.read_text()) == {"7": {"1": 2}}
    # An earlier question, an option that there is not, and a vote that is closed are not counted.
    for ballot in ("ballot=6&vote=0", "ballot=7&vote=2"):
        assert ask(port, ballot, first).status == 303
    phones.write(tmp_path / phones.QUESTION, [7, "How <long>?", []])
    assert ask(port, "ballot=7&vote=0", first).status == 303
    assert json.loads(counts.read_text()) == {"7": {"1": 2}}


def test_more_than_numbers_phones_or_requests_is_refused(
    port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cookie = ask(port).headers["Set-Cookie"].partition(";")[0]
    for body in ("", "ballot=7&vote=one", "ballot=7&vote=1&name=Eve", "ballot=7&vote=111"):
        assert ask(port, body, cookie).status == 400
    for unknown in ("", "tcplab-phone=" + "x" * 22):
        assert ask(port, "ballot=7&vote=1", unknown).status == 400
    assert not (tmp_path / phones.COUNTS).exists()
    monkeypatch.setattr(phones, "PHONES", 1)
    assert ask(port).headers["Set-Cookie"] is None
    monkeypatch.setattr(phones, "PER_SECOND", 0)
    with pytest.raises((http.client.RemoteDisconnected, ConnectionResetError)):
        ask(port)


def test_votes_of_phones_are_added_to_those_that_the_lecturer_types(tmp_path: Path) -> None:
    demo = demos.show("small-writes", str(tmp_path / "state"), "http://192.0.2.5:8765/")
    view = with_view(demo)
    assert isinstance(view, DemoView)
    assert "Vote at http://192.0.2.5:8765/" in view.picture.value
    fields = [row.children[0] for row in view.ballot.children]
    fields[0].value = 3
    view._count({"0": 2, "3": 5})
    view._count({"0": 1, "3": 6})
    assert [field.value for field in fields] == [4, 0, 0, 6, 0]
    before, question, options = phones.read(tmp_path / phones.QUESTION, None)
    assert (question, len(options)) == (view.step.ask, len(fields))
    view._vote_again()
    assert phones.read(tmp_path / phones.QUESTION, None)[0] > before
    assert [row.children[0].value for row in view.ballot.children] == [0] * 5
