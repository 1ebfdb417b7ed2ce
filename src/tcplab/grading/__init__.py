"""Define problem sets, check a learner's answers, and grade the submissions of a class.

A notebook calls :func:`open_assignment`, and then the `check` method of its result. Judges are
built from the modules checks, programs, captures and submission. `tcplab grade` is in
tcplab.grading.batch.
"""

from tcplab.grading.assignment import Assignment, Numbers, open_assignment
from tcplab.grading.checks import Verdict
from tcplab.machine import require_modules

__all__ = ["Assignment", "Numbers", "Verdict", "open_assignment"]
__dir__ = __all__.copy


require_modules("nbgrader")
