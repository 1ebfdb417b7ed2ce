"""The C programs, as installed and built with sanitizers."""

from tests.support.programs.fixtures import installed, programs, sanitized_directory

__all__ = ["installed", "programs", "sanitized_directory"]
