"""Where nbgrader, started in this folder, finds its configuration."""

load_subconfig("solutions/nbgrader_config.py")  # noqa: F821  (nbgrader provides it)
