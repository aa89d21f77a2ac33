"""Formulas as MathML, which browsers typeset without a script or a font of ours.

A formula is text from a file: it is read by the grammar of formulas, and its syntax tree is written out as it stands
there.  Nothing is evaluated, and every name is escaped.
"""

from __future__ import annotations

import ast
import re
from typing import NamedTuple

from markupsafe import Markup

from evogt_study.errors import FormulaError, cut
from evogt_study.formulas import syntax_tree
from evogt_study.schema.parameters import GREEK
from evogt_study.text import shown

NAMED = {"asin": "arcsin", "acos": "arccos", "atan": "arctan"}
"""Functions that are called otherwise in print."""
_INDEXED = re.compile(r"([A-Za-z]+)_?(\d+)")
_SIGNS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "−"}
SPACE = Markup('<mspace width="0.17em"></mspace>')  # TeX's thin space, 3/18 em
SUM, PRODUCT, RAISED, ATOM = range(4)
"""How firmly a piece holds together: one that is looser than its place asks for stands in parentheses."""


class _Piece(NamedTuple):
    text: Markup
    firm: int


def formula(text: object) -> Markup:
    """A formula of the grammar, typeset; anything else as the text that it is."""
    try:
        return _piece(syntax_tree(str(text))).text
    except FormulaError:
        return words(cut(str(text), 200))


def words(text: str) -> Markup:
    """Words within a formula."""
    return Markup("<mtext>{}</mtext>").format(shown(text))


def operator(sign: str) -> Markup:
    """A sign between two pieces, or before one."""
    return Markup("<mo>{}</mo>").format(sign)


def name(text: str) -> Markup:
    """A name as a letter: Greek where it is one, its number as an index."""
    indexed = _INDEXED.fullmatch(text)
    if indexed:
        return Markup("<msub>{}<mn>{}</mn></msub>").format(name(indexed[1]), indexed[2])
    return Markup("<mi>{}</mi>").format(GREEK.get(text, shown(text)))


def row(*parts: Markup) -> Markup:
    """Pieces side by side."""
    return Markup("<mrow>{}</mrow>").format(Markup("").join(parts))


def fenced(inner: Markup, left: str = "(", right: str = ")") -> Markup:
    """A piece between signs that grow with it."""
    return row(operator(left), inner, operator(right))


def matrix(rows: list[list[Markup]]) -> Markup:
    """Entries in rows, in parentheses."""
    cells = (Markup("").join(Markup("<mtd>{}</mtd>").format(entry) for entry in each) for each in rows)
    body = Markup("").join(Markup("<mtr>{}</mtr>").format(each) for each in cells)
    return fenced(Markup("<mtable>{}</mtable>").format(body))


def _piece(node: ast.expr) -> _Piece:
    """A part of a tree that the grammar has let through."""
    if isinstance(node, ast.Constant):
        return _number(float(str(node.value)))
    if isinstance(node, ast.Name):
        return _Piece(name(node.id), ATOM)
    if isinstance(node, ast.UnaryOp):
        sign = operator("−" if isinstance(node.op, ast.USub) else "+")
        return _Piece(row(sign, _at_least(PRODUCT, node.operand)), PRODUCT)
    if isinstance(node, ast.BinOp):
        return _joined(node)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return _applied(node.func.id, node.args[0])
    raise FormulaError("`formula` must be one of the grammar")


def _number(value: float) -> _Piece:
    digits, _, exponent = f"{value:.15g}".partition("e")
    number = Markup("<mn>{}</mn>").format(digits)
    if not exponent:
        return _Piece(number, ATOM)
    power = Markup("<msup><mn>10</mn><mn>{}</mn></msup>").format(str(int(exponent)).replace("-", "−"))
    return _Piece(row(number, operator("×"), power), PRODUCT)


def _at_least(firm: int, node: ast.expr) -> Markup:
    """The piece, in parentheses where it would come apart."""
    piece = _piece(node)
    return piece.text if piece.firm >= firm else fenced(piece.text)


def _joined(node: ast.BinOp) -> _Piece:
    left, right = node.left, node.right
    if isinstance(node.op, ast.Div):
        fraction = Markup("<mfrac>{}{}</mfrac>").format(_at_least(SUM, left), _at_least(SUM, right))
        return _Piece(fraction, RAISED)
    if isinstance(node.op, ast.Pow):
        return _power(left, right)
    if isinstance(node.op, ast.Mult):
        # digits after a space would read as a part of the number before
        sign = operator("·") if isinstance(right, ast.Constant) else SPACE
        return _Piece(row(_at_least(PRODUCT, left), sign, _at_least(RAISED, right)), PRODUCT)
    sign = operator(_SIGNS[type(node.op)])
    return _Piece(row(_at_least(SUM, left), sign, _at_least(PRODUCT, right)), SUM)


def _power(base: ast.expr, exponent: ast.expr) -> _Piece:
    above = _at_least(SUM, exponent)
    if isinstance(base, ast.Call) and isinstance(base.func, ast.Name) and base.func.id not in ("exp", "sqrt", "abs"):
        return _applied(base.func.id, base.args[0], above)
    return _Piece(Markup("<msup>{}{}</msup>").format(_at_least(ATOM, base), above), RAISED)


def _applied(function: str, argument: ast.expr, power: Markup | None = None) -> _Piece:
    """A function of its argument; with a power that stands on its name, as in sin²(x)."""
    inner = _at_least(SUM, argument)
    if function == "sqrt":
        return _Piece(Markup("<msqrt>{}</msqrt>").format(inner), ATOM)
    if function == "abs":
        return _Piece(fenced(inner, "|", "|"), ATOM)
    # a fraction as an exponent would be too small to read
    if function == "exp" and not any(isinstance(part, ast.Div) for part in ast.walk(argument)):
        return _Piece(Markup("<msup><mi>e</mi>{}</msup>").format(inner), RAISED)
    called = Markup("<mi>{}</mi>").format(NAMED.get(function, function))
    if power is not None:
        called = Markup("<msup>{}{}</msup>").format(called, power)
    return _Piece(row(called, fenced(inner)), RAISED)
