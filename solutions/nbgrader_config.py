"""nbgrader's configuration of this course; nbgrader_config.py in the course's folder loads it.

What is set here and why: docs/grading.md.
"""

from pathlib import Path

from tcplab.grading.course import configure

c = get_config()  # noqa: F821  (nbgrader provides it)
configure(c, Path(__file__).resolve().parent.parent)

# For a department's server instead of the file gradebook.db:
# c.CourseDirectory.db_url = "postgresql+psycopg2://user@host/gradebook"
