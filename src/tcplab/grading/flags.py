"""Flag code and data that an honest submission has no reason to contain.

A flag costs no points. The marks are protected by the sandbox, and by checks that run outside it.
A flag only shows where a person should look.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

#: Kinds of flags, each with the pattern to look for in a cell or a C file.
PATTERNS: Final[Mapping[str, str]] = {
    "overrides-equality": r"def\s+__(eq|ne|lt|le|gt|ge|float|bool|hash)__",
    "rewrites-code": r"ast_transformers|NodeTransformer|input_transformers|settrace|\bgc\.get_",
    "patches-modules": (
        r"(?:\b(?:subprocess|scapy|checks|builtins|json|os|sys)\.\w+|(?<![\w.])tcplab\w*\.[\w.]*)\s*=(?!=)"
        r"|sys\.modules\s*\[|monkeypatch|setattr\(\s*(subprocess|builtins|json|os|sys)\b"
    ),
    "reads-elsewhere": (
        r"gradebook|solutions/|/hidden\b|hidden/|judge\.py|submitted/|autograded/|/etc/(passwd|shadow)"
        r"|/home/|/root\b|\.\./\.\."
    ),
    "writes-result-channel": (
        r"/proc/self/fd|/dev/fd/|os\.fdopen|os\.dup2?\(|os\.write\(\s*[3-9]"
        r"|range\(3,\s*\d+\)|_getframe|gc\.get_objects"
    ),
    "leaves-the-process": (
        r"os\._exit|os\.kill|\bos\.fork|setsid|daemon\s*=\s*True|start_new_session|nohup"
    ),
    "reaches-outside": (
        r"urllib|requests\.(get|post)|http\.client|\bcurl\b|\bwget\b|smtplib|ftplib"
    ),
    "raw-packets": r"AF_PACKET|SOCK_RAW|sendp\(|wrpcap\(|L2Socket|PcapWriter",
    "uses-native-code": r"\bctypes\b|\bcffi\b|LD_PRELOAD",
    "runs-commands": r"\bsystem\s*\(|\bpopen\s*\(|\bexecl?[vpe]*\s*\(\s*\"/|posix_spawn",
}


def suspicious_source(name: str, source: str) -> list[str]:
    """Return a flag for the first match of each kind in a cell or file, as "kind: place"."""
    flags = []
    for kind, pattern in PATTERNS.items():
        if hit := re.search(pattern, source):
            line = source.count("\n", 0, hit.start()) + 1
            flags.append(f"{kind}: {name} line {line}, {hit.group(0).strip()[:40]!r}")
    return flags


def suspicious_answers(answers: Mapping[str, object]) -> Iterable[str]:
    """Yield a flag for each answer that is not plain data."""
    for name, value in answers.items():
        if isinstance(value, Mapping) and set(value) == {"unsupported"}:
            yield f"not-plain-data: {name} is of type {str(value['unsupported'])[:60]}"
