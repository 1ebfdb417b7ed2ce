"""Load the course's configuration when nbgrader is started in this folder."""

load_subconfig("solutions/nbgrader_config.py")  # noqa: F821  (nbgrader provides it)
