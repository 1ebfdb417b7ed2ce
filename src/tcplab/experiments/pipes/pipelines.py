"""Describe pipelines, which are programs that send bytes through pipes and a TCP connection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple

from tcplab import checks
from tcplab.models import ChainCost, chain_cost

Words = tuple[str, ...]  #: a command; "nc" is OpenBSD's netcat, which may have another name here

#: The key of the pipeline that :func:`compose` returns.
COMPOSED: Final = "composed"
BLOCK_BYTES: Final = (128, 16 << 20)  #: smallest and largest block size of dd

# ---- the parts -----------------------------------------------------------------------------------


class _Source(NamedTuple):
    words: Words  #: the program before the sender, or empty if there is none
    stage: str  #: name in tcplab.models.chain_cost
    shown: str  #: text for the shell, with {} for the sender and {bs} for dd's block size
    cache: Literal["made", "cold", "warm"] = "made"  #: state of the file; "made" if there is none


class _Sender(NamedTuple):
    words: Words
    stage: str  #: name in tcplab.models.chain_cost
    shown: str
    listener: Words


class _Receiver(NamedTuple):
    words: Words  #: the program after the listener, the listener itself, or empty
    stage: str  #: the last program's name in tcplab.models.chain_cost
    shown: str
    is_listener: bool = False  #: True if it replaces the sender's listener


_NC_IN: Final = ("nc", "-l", "{host}", "{port}")
_NETCAT_IN: Final = ("netcat", "--bind", "{host}", "-l", "{port}")
_TCPSINK: Final = ("tcpsink", "--bind", "{host}", "-p", "{port}", "-b", "auto")
_DD: Final = ("dd", "bs={block}", "status=none")
_ZEROS: Final = (*_DD, "if=/dev/zero", "iflag=count_bytes", "count={size}MB")

_SOURCES: Final[Mapping[str, _Source]] = {
    "zeros": _Source(_ZEROS, "dd /dev/zero", "dd{bs} | {}"),
    "piped": _Source(_DD, "dd file", "dd{bs} < file | {}", "warm"),
    "warm": _Source((), "", "{} < file", "warm"),
    "cold": _Source((), "", "{} < file", "cold"),
    "memory": _Source((), "", "{}"),
}
_SENDERS: Final[Mapping[str, _Sender]] = {
    "nc": _Sender(("nc", "-N", "{host}", "{port}"), "nc", "nc", _NC_IN),
    "netcat": _Sender(("netcat", "{host}", "{port}"), "nc", "netcat", _NETCAT_IN),
    "splice": _Sender(
        ("netcat", "--splice", "{host}", "{port}"), "netcat --splice", "netcat --splice", _NETCAT_IN
    ),
    "tcpsource": _Sender(
        ("tcpsource", "-p", "{port}", "-b", "auto", "-s", "1000000", "-c", "{size}", "{host}"),
        "tcpsource",
        "tcpsource",
        _TCPSINK,
    ),
}
_RECEIVERS: Final[Mapping[str, _Receiver]] = {
    "null": _Receiver((), "nc > /dev/null", ""),
    "pv": _Receiver(("pv", "-q"), "pv > /dev/null, splicing", " | pv"),
    "pv-copying": _Receiver(("pv", "-q", "-C"), "pv > /dev/null", " | pv -C"),
    "dd": _Receiver(_DD, "dd > /dev/null", " | dd{bs}"),
    # This dd does several times as much work per byte as nc, like a slower computer.
    "slow": _Receiver(("dd", "bs=128", "status=none"), "dd > /dev/null", " | dd bs=128"),
    "discard": _Receiver(
        ("sendfile_server", "--discard", "--bind", "{host}", "-p", "{port}"),
        "discard",
        "sendfile_server --discard",
        is_listener=True,
    ),
    "tcpsink": _Receiver(_TCPSINK, "tcpsink", "tcpsink", is_listener=True),
}

#: The names of the parts that :func:`compose` accepts.
SOURCES: Final = ("zeros", "piped", "warm", "cold")
SENDERS: Final = ("nc", "netcat", "splice")
RECEIVERS: Final = ("null", "pv", "pv-copying", "dd", "discard")

# ---- pipelines -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A path of bytes through pipes and a TCP connection."""

    key: str  #: name of the pipeline in calls and on the command line
    source: str
    sender: str
    receiver: str
    block_bytes: int | None = None  #: dd's bs, or None for 1 MB (source) and 128 KiB (receiver)
    wire: bool = False  #: True for the link between two hosts, False for one machine
    published_mb_per_s: float | None = None

    @property
    def sending(self) -> tuple[Words, ...]:
        first = _SOURCES[self.source].words
        sender = _SENDERS[self.sender].words
        return (self._filled(first, "1MB"), sender) if first else (sender,)

    @property
    def receiving(self) -> tuple[Words, ...]:
        receiver, listener = _RECEIVERS[self.receiver], _SENDERS[self.sender].listener
        if receiver.is_listener:
            return (receiver.words,)
        return (listener, self._filled(receiver.words, "128K")) if receiver.words else (listener,)

    @property
    def stages(self) -> tuple[str, ...]:
        """The names of the programs in tcplab.models.chain_cost."""
        source, sender = _SOURCES[self.source], _SENDERS[self.sender]
        receiver = _RECEIVERS[self.receiver]
        reads = " from pipe" if source.words else " < file" if source.cache != "made" else ""
        piped = "nc to pipe" if receiver.words and not receiver.is_listener else ""
        stages = (source.stage, sender.stage + reads, piped, receiver.stage)
        return tuple(filter(None, stages))

    @property
    def shown(self) -> str:
        sender, receiver = _SENDERS[self.sender], _RECEIVERS[self.receiver]
        block = f" bs={self.block_bytes}" if self.block_bytes else ""
        sends = _SOURCES[self.source].shown.format(sender.shown, bs=block)
        takes = receiver.shown.format(bs=block)
        return f"{sends} → {takes if receiver.is_listener else sender.listener[0].lower() + takes}"

    @property
    def cache(self) -> Literal["made", "cold", "warm"]:
        """The state of the file: "cold" on the disk, "warm" in memory, "made" without a file."""
        return _SOURCES[self.source].cache

    @property
    def name(self) -> str:
        return self.shown if self.cache == "made" else f"{self.shown}, {self.cache}"

    @property
    def cost(self) -> ChainCost:
        return chain_cost(*self.stages)

    @property
    def commands(self) -> list[str]:
        return [words[0] for words in (*self.sending, *self.receiving)]

    def _filled(self, words: Words, usual: str) -> Words:
        block = str(self.block_bytes or usual)
        return tuple(word.replace("{block}", block) for word in words)


_LISTED: Final = (
    # pipelines of Chen Shuo's text
    Pipeline("wire", "zeros", "nc", "null", wire=True, published_mb_per_s=118.0),
    Pipeline("dd-nc", "zeros", "nc", "null", published_mb_per_s=580.0),
    Pipeline("cold", "cold", "nc", "null", published_mb_per_s=115.72),
    Pipeline("warm", "warm", "nc", "null", published_mb_per_s=1074.87),
    Pipeline("dd-nc-pv", "zeros", "nc", "pv", published_mb_per_s=477.0),
    Pipeline("wire-slow", "zeros", "nc", "slow", wire=True),
    Pipeline("wire-pv", "zeros", "nc", "pv", wire=True, published_mb_per_s=117.4),
    # further pipelines
    Pipeline("dd-nc-pv-copying", "zeros", "nc", "pv-copying"),
    Pipeline("wire-netcat", "zeros", "netcat", "null", wire=True),
    Pipeline("dd-netcat", "zeros", "netcat", "null"),
    Pipeline("dd-netcat-dd", "zeros", "netcat", "dd"),
    Pipeline("netcat-warm", "warm", "netcat", "null"),
    Pipeline("tcp-only", "memory", "tcpsource", "tcpsink"),
    Pipeline("splice", "warm", "splice", "null"),
    Pipeline("no-copy", "warm", "splice", "discard"),
)
PIPELINES: Final = {pipeline.key: pipeline for pipeline in _LISTED}


def compose(
    source: str = "zeros",
    sender: str = "netcat",
    receiver: str = "null",
    *,
    block_bytes: int | None = None,
    wire: bool = False,
) -> Pipeline:
    """Compose a pipeline from its parts. Its key is COMPOSED.

    Args:
        source: "zeros" from dd, "piped" through dd from a file in memory, "warm" for a file in
            memory, "cold" for one on the disk only
        sender: "nc" (16 KiB at a time), "netcat" (128 KiB), "splice" (netcat --splice: no copy)
        receiver: "null" for /dev/null; "pv" (which splices), "pv-copying" or "dd" for a pipe to
            that program; "discard" to discard the data in the kernel
        block_bytes: block size of each dd, 128 bytes to 16 MiB; None for the default (see Pipeline)
        wire: use the link between two hosts instead of one machine
    """
    checks.choice("source", source, SOURCES)
    checks.choice("sender", sender, SENDERS)
    checks.choice("receiver", receiver, RECEIVERS)
    if block_bytes is not None:
        checks.whole("block_bytes", block_bytes, *BLOCK_BYTES)
    pipeline = Pipeline(COMPOSED, source, sender, receiver, block_bytes, wire)
    return pipeline if "dd" in pipeline.commands else replace(pipeline, block_bytes=None)
