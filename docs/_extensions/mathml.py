"""Formulas as MathML by the converter of docutils, so that pages need no script and no network."""

from __future__ import annotations

import html
import re
from typing import Any
from xml.etree import ElementTree

from docutils import nodes
from docutils.utils.math import MathError, latex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging

MATHML = "http://www.w3.org/1998/Math/MathML"
ACCENTS = ("~", "˙", "^", "¯")
ENTITY = re.compile(r"&(?!lt;|gt;|amp;)\w+;")  # names that HTML has, and XML has not
ElementTree.register_namespace("", MATHML)
LOGGER = logging.getLogger(__name__)
REPLACEMENTS = (
    (re.compile(r"\{\\rm\s+(\w+)\}"), r"{\\mathrm{\1}}"),
    (re.compile(r"\\dots(?![a-z])"), r"\\ldots"),
    (re.compile(r"\\([td]?frac)(\d)(\d)"), r"\\\1{\2}{\3}"),  # the converter reads the number 12, and the next letter
)
"""Replacements for LaTeX that the converter does not know or reads in another way."""


def convert_formula(node: nodes.Element, block: bool) -> str:
    """Return the formula of a node as MathML.  A formula that cannot be converted gives a warning."""
    formula = node.astext()
    for known, other in REPLACEMENTS:
        formula = known.sub(other, formula)
    try:
        tree = latex2mathml.tex2mathml(formula, as_block=block)
    except MathError as error:
        LOGGER.warning("formula %r: %s", node.astext(), error, location=node)
        return ""
    return with_accents(str(tree))


# the converter puts the index of what has an accent below it: base, index, accent in one <munderover>
def with_accents(text: str) -> str:
    """Return MathML in which the index of a letter with an accent is beside the letter."""
    readable = ENTITY.sub(lambda match: html.unescape(match[0]), text)
    tree = ElementTree.fromstring(readable)  # noqa: S314  # the converter's own
    for node in tree.iter(f"{{{MATHML}}}munderover"):
        base, index, over = node
        if over.text in ACCENTS:
            node.tag = f"{{{MATHML}}}msub"
            letter = ElementTree.Element(f"{{{MATHML}}}mover", {"accent": "true"})
            letter.extend([base, over])
            node[:] = [letter, index]
    return ElementTree.tostring(tree, encoding="unicode")


def visit_inline(translator: Any, node: nodes.math) -> None:
    """Write an inline formula."""
    translator.body.append(convert_formula(node, block=False))
    raise nodes.SkipNode


def visit_block(translator: Any, node: nodes.math_block) -> None:
    """Write a displayed formula."""
    translator.body.append(convert_formula(node, block=True))
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer `mathml`."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
