"""Provide the tiny course, made without nbgrader."""

from tests.support.grading.fixtures import tiny

__all__ = ["tiny"]
