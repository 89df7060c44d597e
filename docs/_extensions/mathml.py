"""Formulas as MathML, which browsers draw themselves: no script, and nothing fetched from anywhere."""

from __future__ import annotations

import re

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

logger = logging.getLogger(__name__)
# The translator reads all digits after a command as one number, so that `\frac12 N` would become 12 / N.
BARE_FRACTION = re.compile(r"\\[tdc]?frac(?![a-zA-Z])(?!\s*\{(?:[^{}]|\{[^{}]*\})*\}\s*\{)")


def mathml(node: nodes.Node, as_block: bool) -> str:
    """The formula; or, after a warning, its LaTeX if that is beyond the translator."""
    # What the translator does not know: dots that choose their height, and sizes, which MathML finds by itself.
    latex = node.astext()
    bare = BARE_FRACTION.search(latex)
    if bare:
        logger.warning("a fraction without braces, %s, in %s", latex[bare.start() :][:10], latex, location=node)
    latex = latex.replace("\\dots", "\\ldots")
    latex = re.sub(r"\\([bB]igg?[lrm]?|textstyle|displaystyle)(?![a-zA-Z])", "", latex)
    if as_block:
        latex = re.sub(r"\{align(ed)?\*?\}", "{aligned}", latex)
        if "\\\\" in latex and "\\begin" not in latex:
            latex = f"\\begin{{aligned}}{latex}\\end{{aligned}}"
    try:
        return tex2mathml(latex, as_block)
    except MathError as error:
        logger.warning("%s in %s", error, latex, location=node)
        return f"<code>{nodes.make_id(latex)}</code>"


def visit_inline(self: HTML5Translator, node: nodes.math) -> None:
    """Write a formula within a line."""
    self.body.append(mathml(node, as_block=False))
    raise nodes.SkipNode


def visit_block(self: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula on lines of its own."""
    self.body.append(self.starttag(node, "div", CLASS="math notranslate"))
    self.body.append(mathml(node, as_block=True) + "</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict:
    """Register the renderer."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    app.config.html_math_renderer = "mathml"
    return {"parallel_read_safe": True, "parallel_write_safe": True}
