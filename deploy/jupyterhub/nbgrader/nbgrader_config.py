"""Configure nbgrader for all users of the hub; jupyterhub_config.py sets the path to this file."""

import os

c = get_config()  # noqa: F821  (nbgrader provides it)
c.Exchange.root = os.environ["TCPLAB_EXCHANGE"]
c.CourseDirectory.course_id = "tcplab"
