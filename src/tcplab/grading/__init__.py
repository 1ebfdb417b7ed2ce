"""Exercises and their grading: what learners call, checks, the sandbox, nbgrader, the class.

A learner's notebook uses :func:`open_assignment` and the `check` of what it returns. What these
checks and the hidden judges are made of: :mod:`tcplab.grading.checks` for answers,
:mod:`tcplab.grading.programs` for C programs, :mod:`tcplab.grading.captures` for captures, and
:class:`tcplab.grading.submission.Submission`, a submission. `nbgrader` is configured with
:func:`tcplab.grading.course.configure`, and `tcplab grade` is :mod:`tcplab.grading.batch`.
"""

from __future__ import annotations

from tcplab.grading.assignment import Assignment, Numbers, open_assignment
from tcplab.grading.checks import Verdict

__all__ = ["Assignment", "Numbers", "Verdict", "open_assignment"]
