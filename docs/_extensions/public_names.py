"""Docstrings as they are written here, read as reStructuredText.

What stands in single backticks is a link if it is a public name of the package, otherwise just a name; the star of a
shape, (nIters, *shape), is a star; and what a class says of an attribute stands, also if that is a property with a
docstring of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from docutils import nodes
from numpydoc.docscrape_sphinx import SphinxDocString
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx

import sgmcmc


def public(name: str, rawtext: str, text: str, lineno: int, inliner: object, options=None, content=()) -> tuple:
    """The role, which conf.py makes the default."""
    literal = nodes.literal(rawtext, text, classes=["xref", "py"])
    first, _, attribute = text.partition(".")
    home = next((module for module in (sgmcmc, sgmcmc.diagnostics, sgmcmc.models) if first in module.__all__), None)
    if home is None or (attribute and not hasattr(getattr(home, first), attribute)):
        return [nodes.literal(rawtext, text)], []
    reference = pending_xref(
        rawtext,
        literal,
        refdomain="py",
        reftype="obj",
        reftarget=f"{home.__name__}.{text}",
        refexplicit=False,
        refwarn=True,
    )
    reference["refdoc"] = inliner.document.settings.env.docname
    return [reference], []


def escape_stars(app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Outside of literals, where a star would begin emphasis."""
    lines[:] = [re.sub(r"(?<=[( ])\*(?=shape\))", r"\\*", line) for line in lines]


def attribute_as_described(described: Callable) -> Callable:
    """numpydoc's method, which would take the docstring of a property for its description in the class."""

    def process(self: SphinxDocString, param: str, desc: list[str], fake_autosummary: bool) -> tuple[str, list[str]]:
        name, description = described(self, param, desc, fake_autosummary)
        return name, desc or description

    return process


def setup(app: Sphinx) -> dict:
    """Register all three."""
    SphinxDocString._process_param = attribute_as_described(SphinxDocString._process_param)
    app.add_role("public", public)
    app.connect("autodoc-process-docstring", escape_stars, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
