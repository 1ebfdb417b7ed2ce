"""The tiny course, which nbgrader need not make."""

from tests.support.grading.fixtures import tiny

__all__ = ["tiny"]
