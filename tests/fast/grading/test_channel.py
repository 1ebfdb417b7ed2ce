"""The result channel drops and reports malformed data, and keeps the rest unchanged."""

import base64
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from tests.support.nonempty import each

from tcplab.grading import channel
from tcplab.grading.channel import Received, receive
from tcplab.grading.sandbox_runner import MAX_FILE_BYTES, read_files

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n of a plot").decode()


def line(**message: Any) -> bytes:
    return json.dumps(message).encode() + b"\n"


def stream(text: str) -> dict[str, Any]:
    return {"output_type": "stream", "name": "stdout", "text": text}


def displayed(data: dict[str, str], **more: Any) -> dict[str, Any]:
    return {"output_type": "display_data", "data": data, "metadata": {}, **more}


END = line(answers={"x": 1}, files={"a.c": base64.b64encode(b"int x;").decode()})


def received(data: bytes) -> Received:
    return receive(data, [0, 1], ["x"], ["a.c"])


def test_a_message_of_the_runner_arrives_unchanged() -> None:
    outputs = [
        stream("one\ntwo\t3\n"),
        displayed({"text/plain": "<P>", "image/png": PNG}),
        {"output_type": "error", "ename": "E", "evalue": "v", "traceback": ["a", "b"]},
    ]
    answers = {"x": [1, 2.5, None, True, "t", {"k": [{"unsupported": "deep list"}]}]}
    files = {"a.c": base64.b64encode(b"int x;").decode()}
    data = line(start=1) + line(cell=1, outputs=outputs) + line(answers=answers, files=files)
    result = received(data)
    assert (result.started, result.finished, result.damage) == (1, True, [])
    assert result.outputs == {1: outputs}
    assert result.answers == answers
    assert result.files == {"a.c": b"int x;"}


@pytest.mark.parametrize(
    "forged",
    [
        b"not json\n",
        b"[1]\n",
        b"\xff\xfe\n",
        b"[" * 100_000 + b"\n",
        b'{"start": true}\n',
        b'{"start": 99}\n',
        b'{"start": 1e0}\n',
        b'{"start": ' + b"9" * 5000 + b"}\n",
        b'{"cell": 7, "outputs": []}\n',
        b'{"cell": 0, "outputs": {}}\n',
        b'{"cell": 0}\n',
        b'{"answers": [], "files": {}}\n',
        b'{"answers": {"x": NaN}, "files": {}}\n',
        b'{"scores": {"q1": 2.0}}\n',
    ],
)
def test_line_that_is_not_of_the_runner_changes_nothing(forged: bytes) -> None:
    honest = line(start=0) + line(cell=0, outputs=[stream("mine")]) + END
    result = received(forged + honest)
    assert result.damage == ["a line that is not in the runner's format"]
    result.damage = []
    assert result == received(honest)


@pytest.mark.parametrize(
    "value",
    [
        1 << 63,
        "y" * 100_001,
        [0] * 20_001,
        [[[[[[[[1]]]]]]]],
        {"a": {"b": {"c": {"d": {"e": {"f": {"g": 1}}}}}}},
    ],
)
def test_answer_that_the_runner_cannot_have_sent_is_none(value: Any) -> None:
    result = received(line(answers={"x": value}, files={}))
    assert result.answers == {"x": None}
    assert result.damage == ["an answer that is not in the runner's format"]


def test_answers_and_files_that_were_not_asked_for_are_dropped() -> None:
    encoded = base64.b64encode(b"x").decode()
    files = {"a.c": "?", "judge.py": encoded, "../a.c": encoded, "big": "A" * (3 << 20)}
    result = received(line(answers={"score": 2.0}, files=files))
    assert result.answers == {"x": None}
    assert result.files == {}
    assert result.damage == ["a file that is not in the runner's format"]


def test_outputs_are_limited_by_number_and_length() -> None:
    many = [stream("z")] * 100_000
    result = received(line(cell=0, outputs=many) + END)
    assert len(result.outputs[0]) == channel.MAX_OUTPUTS
    assert any("outputs of one cell" in note for note in result.damage)
    result = received(line(cell=0, outputs=[stream("z" * 1_000_000)]) + END)
    assert len(result.outputs[0][0]["text"]) == channel.MAX_OUTPUT


def test_hundred_thousand_outputs_and_lines_take_no_time() -> None:
    """Validating each of these outputs against a JSON schema would take minutes."""
    began_s = time.process_time()
    received(line(cell=0, outputs=[stream("")] * 100_000))
    received(b"x\n" * 4_000_000 + END)
    assert time.process_time() - began_s < 10


def test_runners_last_line_is_found_behind_a_flood() -> None:
    result = received(b"\nx" * 100_000 + b"\n" + END)
    assert result.finished
    assert result.answers == {"x": 1}
    assert "more lines than the runner sends" in result.damage


def test_pictures_are_pictures_and_have_no_metadata() -> None:
    script = {"image/png": {"width": "1 onerror=alert(1)"}}
    data = {"image/png": PNG, "image/svg+xml": "<svg/>", "text/html": "<b>"}
    forged = displayed(data, metadata=script)
    result = received(line(cell=0, outputs=[forged]))
    assert result.outputs[0] == [displayed({"image/png": PNG})]
    no_picture = displayed({"image/png": base64.b64encode(b"<script>").decode()})
    result = received(line(cell=0, outputs=[no_picture]))
    assert result.outputs[0] == []
    assert result.damage == ["an output that is not in the runner's format"]


def test_text_has_no_escapes_and_no_halves_of_characters() -> None:
    """Rendering megabytes of escape sequences on a page would take minutes."""
    texts = {
        "\x1b[31mred\x1b[0m": "red",
        "\x1b]8;;http://x\x07link\x1b]8;;\x07": "link",
        "a\x08\x00b\x9b31m": "ab31m",
        "one\r\ntwo\rthree": "one\ntwothree",
        "\ud83d": "\ufffd",
        "tab\tand €": "tab\tand €",
    }
    for text, shown in each(texts.items()):
        result = received(line(cell=0, outputs=[stream(text)]))
        assert result.outputs[0][0]["text"] == shown
    flood = stream("\x1b[1m" * 500_000)
    assert received(line(cell=0, outputs=[flood])).outputs[0][0]["text"] == ""


def test_only_plain_files_of_a_normal_size_are_read(tmp_path: Path) -> None:
    (tmp_path / "plain.c").write_text("int x;")
    (tmp_path / "folder.c").mkdir()
    (tmp_path / "link.c").symlink_to("plain.c")
    (tmp_path / "dangling.c").symlink_to("nothing")
    (tmp_path / "large.c").write_bytes(bytes(MAX_FILE_BYTES + 1))
    (tmp_path / "full.c").write_bytes(bytes(MAX_FILE_BYTES))
    os.mkfifo(tmp_path / "pipe.c")
    names = [*(path.name for path in tmp_path.iterdir()), "missing.c"]
    files = read_files(tmp_path, names)
    assert files == {"plain.c": b"int x;", "full.c": bytes(MAX_FILE_BYTES)}
