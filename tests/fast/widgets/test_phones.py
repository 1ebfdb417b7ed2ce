"""Test votes by phones. The page takes one number per phone, for the present question."""

import http.client
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fast.widgets.test_view import with_view

from tcplab import demos
from tcplab.demos import phones

#: Each worker has another address, since several may run these tests at once.
AT = f"127.1.{os.getpid() // 256 % 256}.{os.getpid() % 255 + 1}", phones.PORT


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    phones.write(tmp_path / phones.QUESTION, [7, "How <long>?", ["1 ms", "44 ms"], 1])
    with phones.serving(AT, tmp_path):
        yield tmp_path


def ask(body: str | None = None, cookie: str = "") -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection(*AT, timeout=10)
    connection.request("GET" if body is None else "POST", "/", body, {"Cookie": cookie})
    return connection.getresponse()


def test_each_phone_has_one_vote_and_nothing_else_is_taken(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (ask().headers["Set-Cookie"].partition(";")[0] for _ in range(2))
    for cookie, option in ((first, 0), (first, 1), (second, 1), (second, 2)):
        assert ask(f"ballot=7&vote={option}", cookie).status == 303
    assert ask("ballot=6&vote=0", first).status == 303  # an earlier question
    for body in ("", "ballot=7&vote=one", "ballot=7&vote=1&name=Eve", "ballot=7&vote=111"):
        assert ask(body, first).status == 400
    assert ask("ballot=7&vote=0", "tcplab-phone=" + "x" * 22).status == 400
    monkeypatch.setattr(phones, "PHONES", 2)
    assert ask().headers["Set-Cookie"] is None
    phones.write(folder / phones.QUESTION, [7, "How <long>?", [], 1])  # closed
    assert ask("ballot=7&vote=0", first).status == 303
    assert phones.read(folder / phones.COUNTS, None) == {"7": {"1": 2}}
    monkeypatch.setattr(phones, "PER_SECOND", 0)
    with pytest.raises((http.client.RemoteDisconnected, ConnectionResetError)):
        ask()


def test_votes_of_phones_are_added_to_those_that_the_lecturer_types(tmp_path: Path) -> None:
    view: Any = with_view(
        demos.show("small-writes", str(tmp_path / "state"), "http://192.0.2.5:8765/")
    )
    assert "Vote at http://192.0.2.5:8765/" in view.picture.value
    fields = [row.children[0] for row in view.ballot.children]
    fields[0].value = 3
    view._count({"0": 2, "3": 5})
    view._count({"0": 1, "3": 6})
    assert [field.value for field in fields] == [4, 0, 0, 6, 0]
    before, question, _options, _kernel = phones.read(tmp_path / phones.QUESTION, None)
    view._vote_again()
    assert question == view.step.ask
    assert phones.read(tmp_path / phones.QUESTION, None)[0] > before
