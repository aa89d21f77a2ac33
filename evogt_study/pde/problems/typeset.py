"""The problem of a study, typeset for a page: the equation with the formulas of the study file, in MathML.

The first part makes the lines of a problem.  The second part typesets a formula by its syntax tree.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any, NamedTuple

from markupsafe import Markup

from evogt_study.errors import FormulaError, StudyError, cut, shortened
from evogt_study.formulas import syntax_tree
from evogt_study.pde.problems import BUILT_IN
from evogt_study.pde.problems.terms import ProblemTable
from evogt_study.schema.parameters import GREEK
from evogt_study.study.model import validated
from evogt_study.text import shown

NAMED = {"asin": "arcsin", "acos": "arccos", "atan": "arctan"}
"""Functions with another name in print."""
_INDEXED = re.compile(r"([A-Za-z]+)_?(\d+)")
_SIGNS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "−"}
SPACE = Markup('<mspace width="0.17em"></mspace>')  # the thin space of TeX, 3/18 em
SUM, PRODUCT, RAISED, ATOM = range(4)
"""How firmly a piece holds together.  A piece that is looser than its place requires gets parentheses."""
SCRIPT = {"a": "𝒶", "A": "𝒜", "b": "𝒷", "f": "𝒻", "F": "ℱ", "g": "ℊ"}
"""Letters for parts of the equation if a parameter has the plain letter."""
MOST_ENTRIES, MOST_FACES = 3, 6
"""Entries of a vector, and faces of a box in three dimensions.  No problem has more, but a file may list more."""
MATH = Markup(
    '<div class="scroll" role="group" aria-label="formula" tabindex="0"><math displaystyle="true">{}</math></div>'
)
WORDS, ITEM = Markup('<span class="quiet">{}</span>'), Markup("<li>{}{}</li>\n")
_NABLA = Markup("<mi>∇</mi>")
_NORMAL = Markup("<mi>n</mi>")


class Line(NamedTuple):
    """One line of a problem: MathML, which may be empty, and text beside it."""

    formula: Markup
    words: str = ""

    @property
    def item(self) -> Markup:
        """The line as an item of a list."""
        math = MATH.format(self.formula) if self.formula else Markup("")
        return ITEM.format(math, WORDS.format(shown(self.words, "\n\t")) if self.words else "")


def typeset(stated: str | Mapping[str, Any]) -> str:
    """Return the problem of a study as items of an HTML list; empty if it is not a problem."""
    return Markup("").join(line.item for line in problem_lines(stated))


def problem_lines(raw: Any) -> Iterator[Line]:
    """The lines of a problem, which a study file gives as a table or a name."""
    if isinstance(raw, str) and raw in BUILT_IN:
        raw = BUILT_IN[raw].table
    if not isinstance(raw, dict):
        return
    try:
        stated = validated(ProblemTable, raw, "problem")
    except StudyError:
        return
    yield Line(_equation(stated), "in Ω, for 0 < t ≤ T")
    yield from _coefficients(stated)
    yield from _data(stated)
    yield from _boundary(stated)
    yield Line(*_domain(stated.dimension, stated.domain))


def _equation(stated: ProblemTable) -> Markup:
    """The terms of u_t = div(a grad u) - b . grad u + g - F'(u) + f that the problem has."""
    slope = row(_NABLA, name("u"))
    spread = fenced(row(_diffusion(stated), SPACE, slope))
    parts = [_given("u", "t"), operator("="), Markup("<mi>div</mi>"), spread]
    if stated.advection is not None:
        parts += [operator("−"), _letter(stated, "b"), operator("·"), slope]
    if stated.reaction is not None:
        parts += [operator("+"), _letter(stated, "g")]
    if stated.potential is not None:
        parts += [operator("−"), Markup("<msup>{}<mo>′</mo></msup>").format(_letter(stated, "F")), fenced(name("u"))]
    if stated.exact is not None or stated.source is not None:
        parts += [operator("+"), _letter(stated, "f")]
    return row(*parts)


def _coefficients(stated: ProblemTable) -> Iterator[Line]:
    rows = stated.diffusion
    if isinstance(rows, str):
        yield _is(_diffusion(stated), formula(rows))
    elif all(isinstance(each, list) for each in rows):
        yield _is(
            _diffusion(stated),
            matrix([[formula(entry) for entry in each[:MOST_ENTRIES]] for each in rows[:MOST_ENTRIES]]),
        )
    else:
        yield _is(_diffusion(stated), row(Markup("<mi>diag</mi>"), _vector(rows)))
    if stated.advection is not None:
        yield _is(_letter(stated, "b"), _vector(stated.advection))
    if stated.reaction is not None:
        yield _is(_letter(stated, "g"), formula(stated.reaction))
    if stated.potential is not None:
        yield _is(row(_letter(stated, "F"), fenced(name("u"))), formula(stated.potential))


def _data(stated: ProblemTable) -> Iterator[Line]:
    """The exact solution, or the source and the initial value."""
    if stated.exact is not None:
        yield _is(name("u"), formula(stated.exact), "the exact solution, from which source and initial value follow")
    if stated.source is not None:
        yield _is(_letter(stated, "f"), formula(stated.source))
    if stated.initial is not None:
        yield _is(
            row(name("u"), fenced(row(operator("·"), operator(","), Markup("<mn>0</mn>")))), formula(stated.initial)
        )


def _boundary(stated: ProblemTable) -> Iterator[Line]:
    """Conditions on the named faces, and on the other faces, where u is the lifting or zero."""
    for face, given in list(stated.boundary.items())[:MOST_FACES]:
        data = given if isinstance(given, Mapping) else {}
        if "flux" in data:
            yield _is(_outward(stated), formula(data["flux"]), f"on the face {face}")
        elif {"transfer", "outside"} <= set(data):
            inflow = row(
                fenced(formula(data["transfer"])), fenced(row(formula(data["outside"]), operator("−"), name("u")))
            )
            yield _is(_outward(stated), inflow, f"on the face {face}")
        else:
            yield Line(Markup(""), f"{face}: {given}")
    value = Markup("<mn>0</mn>") if stated.lifting is None else formula(stated.lifting)
    rest = "on the rest of the boundary, where there is one" if stated.boundary else "on the boundary"
    yield _is(name("u"), value, rest)


def _outward(stated: ProblemTable) -> Markup:
    flux = fenced(row(_diffusion(stated), SPACE, _NABLA, name("u")))
    return row(_NORMAL, operator("·"), flux)


def _domain(dimension: object, domain: Mapping[str, Any] | None) -> tuple[Markup, str]:
    """Ω as a formula, or as text if it has none."""
    omega = Markup("<mi>Ω</mi>")
    if domain is None:
        unit = fenced(row(Markup("<mn>0</mn>"), operator(","), Markup("<mn>1</mn>")))
        cube = unit if dimension == 1 else Markup("<msup>{}<mn>{}</mn></msup>").format(unit, str(dimension)[:9])
        return row(omega, operator("="), cube), ""
    lower, upper = domain.get("lower"), domain.get("upper")
    if isinstance(lower, list) and isinstance(upper, list) and len(lower) == len(upper):
        sides = [fenced(row(formula(a), operator(","), formula(b))) for a, b in zip(lower, upper, strict=True)]
        product = [part for side in sides for part in (operator("×"), side)][1:]
        return row(omega, operator("="), *product), ""
    kind, given = next(iter(domain.items()), ("", ""))
    which = PurePath(given).name if isinstance(given, str) else shortened(given, 200)
    return omega, f"is the {kind} {which}"


def _diffusion(stated: ProblemTable) -> Markup:
    """a of a scalar, A of a tensor."""
    return _letter(stated, "a" if isinstance(stated.diffusion, str) else "A")


def _letter(stated: ProblemTable, letter: str) -> Markup:
    """The letter of a part of the equation, in script if a parameter of the problem has its name."""
    parts = (
        stated.diffusion, stated.advection, stated.reaction, stated.potential, stated.source, stated.exact,
        stated.initial, stated.lifting, stated.boundary,
    )  # fmt: skip
    is_parameter = letter in re.findall(r"[A-Za-z_]\w*", repr(parts))
    return Markup("<mi>{}</mi>").format(SCRIPT[letter]) if is_parameter else name(letter)


def _given(letter: str, index: str) -> Markup:
    return Markup("<msub>{}{}</msub>").format(name(letter), name(index))


def _vector(entries: list[Any]) -> Markup:
    parts = [part for entry in entries[:MOST_ENTRIES] for part in (operator(","), formula(entry))][1:]
    return fenced(row(*parts))


def _is(left: Markup, right: Markup, beside: str = "") -> Line:
    return Line(row(left, operator("="), right), beside)


class _Piece(NamedTuple):
    text: Markup
    firm: int


def formula(text: object) -> Markup:
    """A formula, typeset; any other text unchanged."""
    try:
        return _piece(syntax_tree(str(text))).text
    except FormulaError:
        return words(cut(str(text), 200))


def words(text: str) -> Markup:
    """Text within a formula."""
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
    """A part of the syntax tree of a valid formula."""
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
    """The piece, in parentheses if it would come apart."""
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
        # digits after a space would look like a part of the number before
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
    """A function of its argument, with a power at its name if there is one, as in sin²(x)."""
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
