"""The settings of the site: ``sphinx-build -W --keep-going -c docs . build/docs`` builds it.

The folder of its sources is the top of the repository, so that a link such as ``../examples/pets.py`` works in both:
examples and patterns are pages too.
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))

project = "odm"
author = copyright = "The odm contributors"
root_doc = "docs/index"
include_patterns = ["*.md", "docs/**", "examples/*", "patterns/*"]
include_patterns += ["odm/entities/changes.py", "tests/effort.py", "tests/selection.py"]  # others that pages link to
exclude_patterns = ["**/_*", "docs/*.py", ".*", "build", "*.egg-info"]
source_suffix = {".md": "markdown", ".py": "python", ".rst": "restructuredtext"}
templates_path = ["_templates"]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "extension"]
default_role = "py:obj"
nitpicky = True
# Names in annotations that only type checkers import, and a ParamSpec.
nitpick_ignore = [
    ("py:class", name) for name in ("Clock", "Cloud", "Config", "Credentials", "OpenStore", "P", "PathLike")
]
myst_heading_anchors = 4

autodoc_member_order = "bysource"
autodoc_mock_imports = ["apache_beam"]
autodoc_preserve_defaults = True
autodoc_typehints_format = "short"
napoleon_numpy_docstring = False

python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"

html_theme = "furo"
pygments_dark_style = "a11y-high-contrast-dark"
html_title = "odm"
html_static_path = ["_static"]
html_css_files = ["wide.css"]
html_favicon = "_static/icon.svg"
html_additional_pages = {"index": "to_docs.html"}
html_copy_source = False
html_show_sphinx = False
maximum_signature_line_length = 100
