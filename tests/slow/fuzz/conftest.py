"""The fuzz targets, built with sanitizers."""

from tests.support.programs.fixtures import sanitized_directory

__all__ = ["sanitized_directory"]
