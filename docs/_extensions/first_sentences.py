"""What a function or class is for, above its signature."""

from __future__ import annotations

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx


def first_sentence_first(app: Sphinx, page: nodes.document) -> None:
    """On a page of the reference, move the first sentence of the docstring above the signature."""
    if not app.env.docname.startswith("generated/"):
        return
    described = next(page.findall(addnodes.desc))
    content = described[-1]
    if content.children and isinstance(content[0], nodes.paragraph):
        sentence = content.pop(0)
        described.parent.insert(described.parent.index(described), sentence)


def setup(app: Sphinx) -> dict:
    """Register it."""
    app.connect("doctree-read", first_sentence_first)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
