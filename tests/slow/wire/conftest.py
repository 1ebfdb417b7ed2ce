"""The benches of tests/lab/wire."""

from tests.lab.wire.conftest import bench, lab, sanitized_directory, shared_bench

__all__ = ["bench", "lab", "sanitized_directory", "shared_bench"]
