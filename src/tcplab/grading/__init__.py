"""Exercises and their grading: what learners call, checks, the sandbox, nbgrader, the class.

A learner's notebook uses :func:`open_assignment` and the `check` of what it returns. A hidden judge
uses :mod:`tcplab.grading.checks` and :class:`tcplab.grading.work.Work`. `nbgrader` is
configured with :func:`tcplab.grading.course.configure`, and `tcplab grade` is
:mod:`tcplab.grading.batch`.
"""

from __future__ import annotations

from tcplab.grading.assignment import Assignment, Numbers, open_assignment
from tcplab.grading.checks import Verdict

__all__ = ["Assignment", "Numbers", "Verdict", "open_assignment"]
