"""How Sphinx builds the site: `make docs`, or `make docs-full` with the vignettes executed."""

import os
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

import sgmcmc

project = "sgmcmc"
author = "the sgmcmc developers"
project_copyright = "the sgmcmc developers; Apache 2.0"
release = version = sgmcmc.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "first_sentences",
    "mathml",
    "pictures",
    "public_names",
]
nitpicky = True  # a reference that leads nowhere is a warning, and `make docs` makes warnings errors
exclude_patterns = ["_build", "sg_execution_times.rst", "**/sg_execution_times.rst"]
highlight_language = "text"  # of formulas in docstrings; examples and Markdown have their own
templates_path = ["_templates"]

# --- the reference, from docstrings
default_role = "public"  # `sgld` in a docstring leads to its page; `params` is only a name
autodoc_typehints = "none"  # the types are in the docstring, in words
autosummary_generate = True
numpydoc_show_class_members = False  # autodoc shows them
add_module_names = False

# --- Markdown
myst_enable_extensions = ["amsmath", "dollarmath", "fieldlist"]
myst_heading_anchors = 3

# --- the vignettes
# They are not executed, because together they take minutes: `pictures` shows the committed outputs and figures, which
# `docs/vignetteOutputs.py` has stored. `make docs-full` executes them.
plot_gallery = str(os.environ.get("SGMCMC_DOCS") == "full")
sphinx_gallery_conf = {
    "examples_dirs": "../vignettes",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/\w+\.py$",
    "copyfile_regex": r"^$",
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "reset_modules": ("matplotlib",),
    "within_subsection_order": "pictures.VignetteOrder",
    "min_reported_time": 1e9,
}


def to_the_gallery(app: object, page: str, source: list[str]) -> None:
    """Lead links to the vignettes' files, which a reader of the repository follows, to their pages."""
    source[0] = re.sub(r"\]\((?:\.\./)+vignettes/(\w*)(?:\.py)?\)", _page, source[0])


def _page(link: re.Match) -> str:
    return f"](/gallery/{link[1] or 'index'}.rst)"


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("source-read", to_the_gallery)


# --- the site
html_theme = "furo"
html_title = f"sgmcmc {release}"
html_static_path = ["_static"]
html_css_files = ["sgmcmc.css"]
copybutton_selector = "div.highlight:not(.highlight-text *, .sphx-glr-script-out *) > pre"  # code, not what it prints
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {"light_css_variables": {"color-brand-primary": "#33608c", "color-brand-content": "#33608c"}}
