"""Random notebooks, archives and results stop no reader, and each loss is reported.

`make test-all` tries the same few hundred inputs each time, and `make fuzz` tries others for a
given time.
"""

import base64
import copy
import functools
import io
import json
import os
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import nbformat
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.grading.tiny import write_tiny

from tcplab.errors import StepError
from tcplab.grading.channel import receive
from tcplab.grading.collect import unpack
from tcplab.grading.pages import look_at_texts, safe_markdown, settle_page
from tcplab.grading.repair import repair
from tcplab.grading.staging import Expected, content_key, stage

#: The duration that tests/fuzz/run sets, or 0.
SECONDS = int(os.environ.get("TCPLAB_FUZZ_SECONDS", "0"))
PER_SECOND = 30

pytestmark = pytest.mark.timeout(120 + 10 * SECONDS)
fuzzed = settings(
    max_examples=PER_SECOND * SECONDS or 200,
    derandomize=not SECONDS,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)

#: Text may include lone surrogates, which JSON allows and UTF-8 does not.
any_text = st.text(st.characters(), max_size=30)
mean_text = st.sampled_from(
    [
        *("\ud83d", "\x1b[31m", "\x00", "\r\n", "../..", "/", "*", "=1+1", "<script>x</script>"),
        *("[a](java&#115;cript:x)", "![a](attachment:b)", "\\begin{a}", "$$", "|a|\n|-|\n|<b>|"),
    ]
)
texts = st.one_of(any_text, mean_text, st.tuples(any_text, mean_text).map("".join))
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(10**300, 10**301),
    st.floats(),
    texts,
)
documents = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


@st.composite
def changed_bytes(draw: st.DrawFn, data: bytes) -> bytes:
    """Return the data with parts cut, inserted or overwritten."""
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.integers(0, 40)))
        data = data[:start] + draw(st.binary(max_size=20)) + data[end:]
    return data[: draw(st.integers(0, len(data)))] if draw(st.integers(0, 4)) == 0 else data


@st.composite
def changed_documents(draw: st.DrawFn, document: Any) -> Any:
    """Return the document with some of its values changed, removed or duplicated."""
    document = copy.deepcopy(document)
    for _ in range(draw(st.integers(0, 4))):
        here = document
        while isinstance(here, dict | list) and here:
            keys = list(here) if isinstance(here, dict) else list(range(len(here)))
            key = draw(st.sampled_from(keys))
            if not isinstance(here[key], dict | list) or draw(st.integers(0, 3)) == 0:
                _change(draw, here, key)
                break
            here = here[key]
    return document


def _change(draw: st.DrawFn, parent: Any, key: Any) -> None:
    match draw(st.integers(0, 2)):
        case 0:
            parent[key] = draw(documents)
        case 1:
            del parent[key]
        case 2 if isinstance(parent, list):
            parent.insert(draw(st.integers(0, len(parent))), copy.deepcopy(parent[key]))
        case _:
            parent[draw(texts) if isinstance(parent, dict) else key] = draw(texts)


# ---- notebooks -----------------------------------------------------------------------------------


@functools.cache
def released() -> Any:
    with tempfile.TemporaryDirectory() as folder:
        write_tiny(Path(folder) / "tiny")
        return nbformat.read(Path(folder) / "tiny" / "tiny.ipynb", as_version=4)


def handed_in() -> dict[str, Any]:
    """Return the notebook with an answer and a picture in it, as JSON."""
    notebook: dict[str, Any] = json.loads(nbformat.writes(released()))
    for cell in notebook["cells"]:
        if cell["id"] == "w1-answer":
            cell["source"] = ["Because.\n", "![p](attachment:p.png)"]
            png = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
            cell["attachments"] = {"p.png": {"image/png": png}}
    return notebook


def check_notebook(data: bytes) -> None:
    repaired = repair(data, released())
    with tempfile.TemporaryDirectory() as folder:
        slow, active = look_at_texts(repaired.notebook.cells)
        repairs, flags = settle_page(repaired.notebook.cells, Path(folder), slow)
    nbformat.validate(repaired.notebook)
    nbformat.writes(repaired.notebook).encode()
    for cell in repaired.notebook.cells:
        if cell.cell_type == "markdown":
            safe_markdown({"cell": cell}, cell.source).encode()
    notes = [*repaired.repairs, *repaired.flags, *repairs, *flags, *active]
    assert all(note.isprintable() for note in notes)
    if not notes:
        kept = {cell.source.strip() for cell in repaired.notebook.cells}
        for cell in json.loads(data.decode("utf-8-sig"))["cells"]:
            assert "".join(cell["source"]).strip() in kept


@fuzzed
@given(st.data())
def test_notebook_of_any_structure_is_read(data: st.DataObject) -> None:
    document = data.draw(changed_documents(handed_in()))
    check_notebook(json.dumps(document).encode())


@fuzzed
@given(st.data())
def test_notebook_of_any_bytes_is_read(data: st.DataObject) -> None:
    encoding = data.draw(
        st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-32-le"])
    )
    check_notebook(data.draw(changed_bytes(json.dumps(handed_in()).encode(encoding))))


# ---- the result channel --------------------------------------------------------------------------

HONEST = [
    {"start": 0},
    {
        "cell": 0,
        "outputs": [
            {"output_type": "stream", "name": "stdout", "text": "one\n"},
            {"output_type": "display_data", "data": {"text/plain": "1"}, "metadata": {}},
            {"output_type": "error", "ename": "E", "evalue": "v", "traceback": ["t"]},
        ],
    },
    {"answers": {"x": [1, {"a": None}]}, "files": {"a.c": base64.b64encode(b"int x;").decode()}},
]


@fuzzed
@given(st.data())
def test_any_message_on_the_result_channel_becomes_valid_data(data: st.DataObject) -> None:
    lines = [
        json.dumps(data.draw(changed_documents(message))).encode()
        for message in data.draw(st.permutations(HONEST + HONEST))
    ]
    lines.insert(data.draw(st.integers(0, len(lines))), data.draw(st.binary(max_size=60)))
    received = receive(b"\n".join(lines), [0, 3], ["x"], ["a.c"])
    assert set(received.outputs) <= {0, 3}
    assert received.started in (None, 0, 3)
    for output in (item for outputs in received.outputs.values() for item in outputs):
        nbformat.validate(nbformat.from_dict(output), ref="output", version=4)
        assert output.get("metadata", {}) == {}
        assert "\x1b" not in json.dumps(output, ensure_ascii=False)
    assert set(received.answers) <= {"x"}
    assert set(received.files) <= {"a.c"}
    json.dumps([received.outputs, received.answers], ensure_ascii=False, allow_nan=False).encode()
    assert all(note.isprintable() for note in received.damage)


# ---- archives and folders ------------------------------------------------------------------------

names = st.lists(
    st.one_of(
        st.sampled_from(["..", ".", "tiny", "tiny.ipynb", "total.c", "C:", "", "a\\b", "__MACOSX"]),
        st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=300),
    ),
    min_size=1,
    max_size=4,
).map("/".join)
members = st.lists(
    st.tuples(
        names, st.binary(max_size=50), st.sampled_from([0, 0, 0, 0o100000, 0o120777, 0o010644])
    ),
    max_size=6,
)


def packed(listed: list[tuple[str, bytes, int]]) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content, mode in listed:
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            archive.writestr(info, content)
    return data.getvalue()


@pytest.mark.filterwarnings("ignore:Duplicate name")
@fuzzed
@given(members, st.data())
def test_archive_is_unpacked_or_refused(
    listed: list[tuple[str, bytes, int]], data: st.DataObject
) -> None:
    is_whole = data.draw(st.booleans())
    with tempfile.TemporaryDirectory() as folder:
        path, target = Path(folder, "a.zip"), Path(folder, "below", "target")
        archive = packed(listed)
        path.write_bytes(archive if is_whole else data.draw(changed_bytes(archive)))
        try:
            notes = unpack(str(path), str(target))
        except StepError as error:
            notes = [str(error)]
        assert all(note.isprintable() for note in notes)
        files = [file for file in Path(folder).rglob("*") if not file.is_dir()]
        assert {file for file in files if not file.is_relative_to(target)} == {path}
        assert not any(file.is_symlink() for file in files)
        if notes == [] and is_whole:
            wanted = [
                content
                for name, content, _mode in listed
                if not name.endswith("/") and "__MACOSX" not in name.split("/")[:-1]
            ]
            unpacked = [file.read_bytes() for file in files if file != path]
            assert sorted(unpacked) == sorted(wanted)


@fuzzed
@given(members)
def test_each_file_of_a_folder_is_staged_or_reported(listed: list[tuple[str, bytes, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "submitted"), Path(folder, "staged")
        source.mkdir()
        for name, content, _mode in listed:
            path = source.joinpath(
                *[part for part in name.split("/") if part not in ("", "..", ".")]
            )
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            except (OSError, ValueError):  # a name that no file can have
                continue
        before = content_key(source)
        staged = stage(source, target, Expected("tiny.ipynb", ["total.c"]))
        assert content_key(source) == before
        assert (target / "tiny.ipynb").is_file()
        assert all(note.isprintable() for note in (*staged.repairs, *staged.flags))
        if not staged.flags and staged.repairs in ([], ["no-notebook"]):
            handed = [
                path.read_bytes()
                for path in source.rglob("*")
                if path.is_file() and "__MACOSX" not in path.parts[:-1]
            ]
            copied = [p.read_bytes() for p in target.rglob("*") if p.is_file()]
            assert sorted(copied) == sorted(handed + [b""] * len(staged.repairs))
