"""The book: all lessons with their outputs, to be read anywhere.

`make book` puts the pages together in build/book/source (tools/make-book) and calls Sphinx on it.
"""

from __future__ import annotations

import importlib.metadata

project = "tcplab"
author = "The tcplab authors"
copyright = "The tcplab authors. Text under CC BY 4.0, code under BSD-3-Clause"  # noqa: A001
release = importlib.metadata.version("tcplab")

extensions = ["myst_nb", "sphinx.ext.extlinks"]
exclude_patterns = ["_build", "root"]
root_doc = "index"
language = "en"

# Warnings are errors (-W): a broken link or a cell that wrote to stderr stops the build.
nb_execution_mode = "off"  # tools/make-book has run them
nb_output_stderr = "warn"
# tools/book_guesses.py folds what answers a question.
nb_code_prompt_show = "Show what was measured"
nb_code_prompt_hide = "Hide it"
# A page shows what a panel shows before it is touched; a live one would load foreign scripts.
nb_ipywidgets_js: dict[str, dict[str, str]] = {}
nb_mime_priority_overrides = [
    ("html", "text/html", 0),
    ("html", "application/vnd.jupyter.widget-view+json", None),
]
myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
# The lessons link to each other by file name; formulae are plain text, so no MathJax from a CDN.
suppress_warnings = ["myst.header"]

html_theme = "furo"
html_title = "tcplab: why TCP programs are fast or slow"
html_copy_source = False
html_show_sphinx = False
html_static_path = ["_static"]
html_css_files = ["book.css"]
html_js_files = ["book.js", "guesses.js", "search.js"]
html_extra_path = ["root"]  # files that must be in the book's own folder
html_favicon = "_static/favicon.svg"
html_theme_options = {
    "light_css_variables": {"font-stack": "system-ui, sans-serif"},
}
