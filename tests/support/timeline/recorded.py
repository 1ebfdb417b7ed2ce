"""Conversations between two hosts, recorded once and kept in tests/data/conversations.

    TCPLAB_RECORD_CONVERSATIONS=1 pytest tests/fast/timeline/test_causes.py

records them again, live, in a laboratory; on a quiet machine, since the timeline also finds the
causes that a busy one adds.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol

import pytest
from tests.support.paths import DATA
from tests.support.timeline.conversation import Conversation, conversation
from tests.support.timeline.explained import explain_evidence

from tcplab import Lab
from tcplab.experiments.interface_settings import put_token_bucket
from tcplab.experiments.recordings import decode, encode
from tcplab.programs import Event, SmallWritesMode, read_log, small_writes
from tcplab.programs.counters import tcp_counters
from tcplab.timeline import Timeline

CONVERSATIONS: Final = DATA / "conversations"
RECORDING: Final = bool(os.environ.get("TCPLAB_RECORD_CONVERSATIONS"))

Scenario = Callable[[Conversation], None]


class Recorder(Protocol):
    """Returns the conversation that a scenario makes."""

    def __call__(
        self,
        scenario: Scenario,
        link: dict[str, Any] | None = None,
        *,
        slow_interface: bool = False,
        **options: Any,
    ) -> Conversation: ...


@pytest.fixture
def recorded(request: pytest.FixtureRequest) -> Recorder:
    """Load what was recorded for this test: NAME.json.gz, and NAME-2 where it asks once more."""
    name = re.sub(r"\W+", "-", request.node.name.removeprefix("test_")).strip("-")
    calls = 0

    def load(
        scenario: Scenario, link: dict[str, Any] | None = None, **options: Any
    ) -> Conversation:
        nonlocal calls
        calls += 1
        path = CONVERSATIONS / f"{name}{f'-{calls}' * (calls > 1)}.json.gz"
        if RECORDING:
            _store(path, _play(scenario, link or {}, **options).recorded())
        return Conversation.of(_load(path))

    return load


def _play(
    scenario: Scenario, link: dict[str, Any], slow_interface: bool = False, **options: Any
) -> Conversation:
    with Lab(rtt_ms=4 if not slow_interface else 0) as lab:
        lab.link.update(**link)
        if slow_interface:  # packets wait on the client's own interface before they leave
            put_token_bucket(lab.client, rate="1mbit", burst=1600, latency="200ms")
        before = tcp_counters(lab.client)
        with conversation(lab, **options) as talk:
            scenario(talk)
        if slow_interface:
            talk.evidence["counters"] = dict(tcp_counters(lab.client) - before)
    return talk


def variant(mode: SmallWritesMode) -> Timeline:
    """Six messages of small_writes, explained."""
    path = CONVERSATIONS / f"small-writes-{mode}.json.gz"
    if RECORDING:
        with Lab() as lab, tempfile.TemporaryDirectory() as folder:
            log = Path(folder, "log")
            with lab.client.capture() as capture:
                result = small_writes(lab, mode, 6, log=log)
            _store(
                path,
                {
                    "log": read_log(log),
                    "segments": capture.segments,
                    "options": result.options,
                    "tcp_info": result.tcp_info,
                },
            )
    stored = _load(path)
    log = stored.pop("log")
    return explain_evidence(_with_more(log, mode), stored.pop("segments"), **stored)


def _with_more(log: list[Event], mode: SmallWritesMode) -> list[Event]:
    """The log, in which each write with MSG_MORE says so."""
    if mode != "msg_more" or any(event.name == "more" for event in log):
        return log
    writes = [i for i, event in enumerate(log) if event.name == "write"]
    more = {i for number, i in enumerate(writes, start=1) if number % 15}
    return [event._replace(name="more") if i in more else event for i, event in enumerate(log)]


def _store(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(encode(value), separators=(",", ":"))
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


def _load(path: Path) -> Any:
    return decode(json.loads(gzip.decompress(path.read_bytes())))
