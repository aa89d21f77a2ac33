"""The problem of a study, typeset for a page: the equation with the formulas of the study file, in MathML."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import Any, NamedTuple

from markupsafe import Markup
from sympy.printing.mathml import mathml

from evogt_study.errors import FormulaError, StudyError, cut, shortened
from evogt_study.formulas import parse
from evogt_study.pde.problems import BUILT_IN
from evogt_study.pde.problems.terms import ProblemTable
from evogt_study.study.model import validated
from evogt_study.text import escape_text

SCRIPT = {"a": "𝒶", "A": "𝒜", "b": "𝒷", "f": "𝒻", "F": "ℱ", "g": "ℊ"}
"""Letters for parts of the equation if a parameter has the plain letter."""
_MAX_ENTRIES, MAX_FACES = 3, 6
"""Entries of a vector, and faces of a box in three dimensions.  No problem has more, but a file may list more."""
MATH = Markup(
    '<div class="scroll" role="group" aria-label="formula" tabindex="0"><math displaystyle="true">{}</math></div>'
)
WORDS, ITEM = Markup('<span class="quiet">{}</span>'), Markup("<li>{}{}</li>\n")
EXACT_WORDS = "the exact solution, from which source and initial value follow"


class Line(NamedTuple):
    """One line of a problem: MathML, which may be empty, and text beside it."""

    formula: Markup
    words: str = ""

    @property
    def item(self) -> Markup:
        math = MATH.format(self.formula) if self.formula else Markup("")
        return ITEM.format(math, WORDS.format(escape_text(self.words, "\n\t")) if self.words else "")


def typeset(stated: str | Mapping[str, Any]) -> str:
    """Return the problem of a study as items of an HTML list; empty if it is not a problem."""
    return Markup("").join(line.item for line in problem_lines(stated))


def formula(text: object) -> Markup:
    """Return a formula as SymPy typesets it; any other text unchanged."""
    try:
        # the grammar has no character that HTML escapes, so only the names of signs are replaced
        return Markup(html.unescape(mathml(parse(str(text)), printer="presentation")))  # noqa: S704
    except FormulaError:
        return Markup("<mtext>{}</mtext>").format(escape_text(cut(str(text), 200)))


def row(template: str, **parts: Markup) -> Markup:
    """Return signs and letters with spaces between them as MathML; a letter of `parts` gives that part."""
    signs = []
    for sign in template.split():
        letter = Markup("<mi>{}</mi>") if sign.isalpha() or sign == "∇" else Markup("<mo>{}</mo>")
        signs.append(
            parts[sign] if sign in parts else (Markup("<mn>{}</mn>") if sign.isdigit() else letter).format(sign)
        )
    return Markup("<mrow>{}</mrow>").format(Markup("").join(signs))


def _vector(entries: Iterable[Markup]) -> Markup:
    return row("( V )", V=row(",").join(entries))


def _matrix(rows: list[list[Any]]) -> Markup:
    cells = [Markup("").join(Markup("<mtd>{}</mtd>").format(formula(e)) for e in each[:_MAX_ENTRIES]) for each in rows]
    body = Markup("").join(Markup("<mtr>{}</mtr>").format(each) for each in cells[:_MAX_ENTRIES])
    return row("( M )", M=Markup("<mtable>{}</mtable>").format(body))


def problem_lines(raw: Any) -> Iterator[Line]:
    """Yield the lines of a problem, which a study file gives as a table or a name."""
    if isinstance(raw, str) and raw in BUILT_IN:
        raw = BUILT_IN[raw].table
    try:
        stated = validated(ProblemTable, raw, "problem") if isinstance(raw, dict) else None
    except StudyError:
        stated = None
    if stated is None or stated.fields is not None or stated.flux is not None:
        return  # the text of the study has the formulas of nonlinear fluxes
    used = re.findall(r"[A-Za-z_]\w*", repr([part for name, part in stated if name != "domain"]))
    letters = {each: Markup("<mi>{}</mi>").format(SCRIPT[each] if each in used else each) for each in SCRIPT}
    letters["A"] = letters["a" if isinstance(stated.diffusion, str) else "A"]
    letters["U"] = Markup("<msub><mi>u</mi><mi>t</mi></msub>")
    terms = "U = div ( A ∇ u )" + (" − b · ∇ u" if stated.advection is not None else "")
    terms += (" + g" if stated.reaction is not None else "") + (" − F ′ ( u )" if stated.potential is not None else "")
    terms += " + f" if stated.exact is not None or stated.source is not None else ""
    yield Line(row(terms, **letters), "in Ω, for 0 < t ≤ T")
    if isinstance(stated.diffusion, str):
        yield Line(row("A = V", **letters, V=formula(stated.diffusion)))
    elif all(isinstance(each, list) for each in stated.diffusion):
        yield Line(row("A = V", **letters, V=_matrix(stated.diffusion)))
    else:
        yield Line(row("A = diag V", **letters, V=_vector(map(formula, stated.diffusion[:_MAX_ENTRIES]))))
    if stated.advection is not None:
        yield Line(row("b = V", **letters, V=_vector(map(formula, stated.advection[:_MAX_ENTRIES]))))
    data = {"reaction": "g = V", "potential": "F ( u ) = V", "exact": "u = V", "source": "f = V"}
    for name, form in (data | {"initial": "u ( · , 0 ) = V"}).items():
        if (text := getattr(stated, name)) is not None:
            yield Line(row(form, **letters, V=formula(text)), EXACT_WORDS if name == "exact" else "")
    for face, given in list(stated.boundary.items())[:MAX_FACES]:
        parts = {key[0].upper(): formula(text) for key, text in given.items()} if isinstance(given, Mapping) else {}
        template = {"F": "n · ( A ∇ u ) = F", "OT": "n · ( A ∇ u ) = ( T ) ( O − u )"}.get("".join(sorted(parts)))
        yield (
            Line(row(template, **letters | parts), f"on the face {face}")
            if template
            else Line(Markup(""), f"{face}: {given}")
        )
    rest = "on the rest of the boundary, where there is one" if stated.boundary else "on the boundary"
    yield Line(row("u = V", V=formula("0" if stated.lifting is None else stated.lifting)), rest)
    yield Line(*_domain(stated.dimension, stated.domain))


def _domain(dimension: object, domain: Mapping[str, Any] | None) -> tuple[Markup, str]:
    """Ω as a formula, or as text if it has none."""
    if domain is None:
        power = Markup("<msup>{}<mn>{}</mn></msup>").format(row("( 0 , 1 )"), str(dimension)[:9])
        return row("Ω = V", V=row("( 0 , 1 )") if dimension == 1 else power), ""
    lower, upper = domain.get("lower"), domain.get("upper")
    if isinstance(lower, list) and isinstance(upper, list) and len(lower) == len(upper):
        sides = [_vector(map(formula, pair)) for pair in zip(lower, upper, strict=True)]
        return row("Ω = V", V=row("×").join(sides)), ""
    kind, given = next(iter(domain.items()), ("", ""))
    which = PurePath(given).name if isinstance(given, str) else shortened(given, 200)
    return row("Ω"), f"is the {kind} {which}"
