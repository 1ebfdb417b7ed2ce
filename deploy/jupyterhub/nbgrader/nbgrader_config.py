"""nbgrader's configuration for everybody on the hub; jupyterhub_config.py puts it on the path."""

import os

c = get_config()  # noqa: F821  (nbgrader provides it)
c.Exchange.root = os.environ["TCPLAB_EXCHANGE"]
c.CourseDirectory.course_id = "tcplab"
