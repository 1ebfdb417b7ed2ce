"""Provide the C programs, as installed and as built with sanitizers."""

from tests.support.programs.fixtures import installed, programs, sanitized_directory

__all__ = ["installed", "programs", "sanitized_directory"]
