"""Exercises and their grading: the learners' API, checks, the sandbox, nbgrader and the class.

A learner's notebook calls :func:`open_assignment` and the `check` method of its result. These
checks and the hidden judges are built from :mod:`tcplab.grading.checks` for answers,
:mod:`tcplab.grading.programs` for C programs, :mod:`tcplab.grading.captures` for captures, and
:class:`tcplab.grading.submission.Submission`. A course configures nbgrader with
:func:`tcplab.grading.course.configure`. :mod:`tcplab.grading.batch` implements `tcplab grade`.
"""

from __future__ import annotations

from tcplab.grading.assignment import Assignment, Numbers, open_assignment
from tcplab.grading.checks import Verdict

__all__ = ["Assignment", "Numbers", "Verdict", "open_assignment"]
