"""The C programs in both builds."""

from __future__ import annotations

from tests.programs.conftest import installed, programs, sanitized_directory

__all__ = ["installed", "programs", "sanitized_directory"]
