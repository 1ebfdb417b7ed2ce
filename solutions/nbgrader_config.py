"""The nbgrader configuration of this course, which nbgrader_config.py in the root folder loads.

docs/grading.md explains how the course is graded.
"""

from pathlib import Path

from tcplab.grading.course import configure

c = get_config()  # noqa: F821  (nbgrader provides it)
configure(c, Path(__file__).resolve().parent.parent)

# Set c.CourseDirectory.db_url here to use a database server instead of the file gradebook.db.
