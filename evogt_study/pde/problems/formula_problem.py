"""Problems given by formulas, such as the problems of the paper.

For an exact solution, the source is f = u_t - div(A grad u) + b . grad u - g + F'(u), derived symbolically.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
import sympy

from evogt_study.errors import FormulaError, ProblemError, shorten
from evogt_study.formulas import RESERVED, find_parameters, parse
from evogt_study.pde.galerkin.problem import (
    Lifting,
    NaturalFace,
    NonlinearReaction,
    Potential,
    Problem,
    Separable,
    SpaceTimeFunction,
    Tensor,
    check_data,
    describe_parameters,
)
from evogt_study.pde.problems import expressions
from evogt_study.pde.problems.expressions import WeakIdentity, measure_defect
from evogt_study.pde.problems.fields import make_field_problem
from evogt_study.pde.problems.terms import (
    PERIODIC,
    SOLUTION,
    FormulaStatement,
    GridTable,
    parse_diffusion,
    parse_term,
    read_texts,
)

_TEST_TIMES = (0.01, 0.37, 1.0)
"""Times t / T of the test of weak forms: near the start, before the solution decays, and at the end.  At 0.37 no usual
modulation has a zero, unlike at T/2 or T/4."""
_MAX_DISTANCE = 8.0
"""Distance from the origin in widths of the domain.  Beyond it, powers of coordinates lose more than two digits."""


@dataclass(frozen=True)
class FormulaProblem(FormulaStatement):
    """Problem given by formulas in x, y, z, t, pi and parameters.

    A call with parameter values returns a `Problem`.

    Parameters
    ----------
    dimension : int
        Number of space dimensions, 1 to 3.
    exact : str, optional
        Exact solution u(x, t), from which the class derives the source.
    initial, source : str, optional
        Initial value u_0(x) and source f(x, t).  Pass `initial` if the problem has no `exact`.
    diffusion : str or list, default "1"
        Diffusion a(x, t), the diagonal of A, the rows of A, or "FILE.csv".  Formulas may contain u and its derivatives.
        The file has the coordinates of a grid and the column `value`.
    advection : list of str, optional
        Entries of the velocity b.
    reaction : str, optional
        Reaction g(u, x, t).
    potential : str, optional
        Potential F(u) of a gradient flow.
    lifting : str, optional
        Boundary values u_b(x, t), zero by default.
    domain, boundary : optional
        Tables as in a study file, by default the unit cube with Dirichlet faces.
    final_time, name : float and str, optional
        Final time T of runs that state no other time, and the name of the problem in results.
    flux, fields : optional
        Flux that replaces `diffusion`, or a mapping of names to `Field` for several fields.
    terms : FieldTerms, optional
        Python functions that replace fluxes and reactions.
    boundary_tolerance : float, optional
        Largest accepted relative difference between boundary values.

    Raises
    ------
    FormulaError
        If a formula is outside the grammar, or the formulas contradict each other.

    Examples
    --------
    >>> heat = FormulaProblem(dimension=1, exact="exp(-t)*sin(k*pi*x)", diffusion="nu")
    >>> sorted(heat.parameters)
    ['k', 'nu']
    >>> heat(k=2, nu=0.1).dimension
    1
    """

    dimension: int  # also by position
    exact: str | None = None
    initial: str | None = None
    source: str | None = None
    diffusion: str | tuple[Any, ...] | GridTable = "1"
    lifting: str | None = None
    potential: str | None = None
    advection: tuple[Any, ...] | None = None
    reaction: str | None = None

    # several fields, or terms that are nonlinear in u or its gradient, need a `FieldProblem`
    def __new__(cls, *values: Any, **given: Any) -> Any:
        """Return a `FieldProblem` if the formulas need one."""
        nonlinear = make_field_problem(given) if given else None
        return object.__new__(cls) if nonlinear is None else nonlinear

    def __post_init__(self) -> None:
        self.read_geometry()
        if (self.exact is None) == (self.initial is None):
            given = "both" if self.exact is not None else "neither"
            raise FormulaError(f"a problem must state one of `exact` and `initial`, got {given}")
        if self.exact is not None and self.source is not None:
            raise FormulaError("`source` must be left out if `exact` is given, because it follows from `exact`")
        if self.potential is not None and (self.reaction is not None or self.advection is not None):
            beside = "reaction" if self.reaction is not None else "advection"
            remedy = "Add -F'(u) to `reaction`" if beside == "reaction" else "State -F'(u) as `reaction`"
            raise FormulaError(
                f"`{beside}` must be left out beside `potential`, because it is no part of the gradient flow. {remedy} "
                "and leave `potential` out"
            )
        if isinstance(self.diffusion, (GridTable, Mapping)) or str(self.diffusion).endswith(".csv"):
            object.__setattr__(self, "diffusion", GridTable.from_values(self.diffusion, self.dimension))
            if self.exact is not None:
                remedy = "State `initial` and `source`"
                raise FormulaError(f"`exact` must be left out beside a table of `diffusion`. {remedy}")
        for name in ("diffusion", "advection"):
            object.__setattr__(self, name, _freeze(getattr(self, name)))
        derive_terms(self)

    @property
    def content(self) -> dict[str, Any]:
        given = {part.name: getattr(self, part.name) for part in fields(self) if part.name != "domain"}
        content = {name: value for name, value in given.items() if value not in (None, (), "", 0.0)}
        if isinstance(self.diffusion, GridTable):
            content["diffusion"] = self.diffusion.content
        return content | self.describe_shape()

    @property
    def key_content(self) -> dict[str, Any]:
        """JSON content that identifies the problem in run keys, without the name."""
        content = {name: getattr(self, name) for name in ("dimension", "exact", "initial", "source", "diffusion")}
        names = ("lifting", "potential", "advection", "reaction", "boundary")
        content |= {name: value for name in names if (value := getattr(self, name))}
        if isinstance(self.diffusion, GridTable):
            content["diffusion"] = {"table": self.diffusion.digest}
        return content | self.describe_shape(whole=False)

    @property
    def has_exact(self) -> bool:
        """True if the problem states its exact solution."""
        return self.exact is not None

    @property
    def parameters(self) -> frozenset[str]:
        """Names of the parameters in the formulas."""
        return derive_terms(self).parameters

    def until(self, final_time: float | None, /, **values: float) -> Problem:
        """Return the problem for parameter values.  Raises ProblemError if its data up to `final_time` disagree."""
        data, values = derive_terms(self), self.read_values(self.parameters, values)
        places = _find_far_places(self.domain, final_time or 1.0)
        initial = expressions.make_nodal_function(data.initial, values)

        def make(expression: sympy.Expr) -> SpaceTimeFunction:
            return expressions.make_space_time_function(expression, values, places)

        rows, lifting, potential = data.diffusion, None, None
        diffusion: SpaceTimeFunction | Tensor
        reaction: SpaceTimeFunction | NonlinearReaction | None
        if isinstance(rows, tuple):
            # the same function for A_ij and A_ji
            upper = [[None if a == 0 else make(a) for a in row[i:]] for i, row in enumerate(rows)]
            axes = range(self.dimension)
            diffusion = Tensor(tuple(tuple(upper[min(i, j)][abs(i - j)] for j in axes) for i in axes))
        else:
            diffusion = make(rows)
        if data.is_linear:
            reaction = None if data.coefficient == 0 else make(data.coefficient)
        else:
            g, slope = (expressions.make_nodal_function(each, values) for each in (data.reaction, data.slope))
            reaction = NonlinearReaction(lambda u, nodes, t: g(nodes, t, u=u), lambda u, nodes, t: slope(nodes, t, u=u))
        if data.lifting:
            d, (u_b, rate, *others) = self.dimension, tuple(map(make, data.lifting))
            lower_order = others[2 * d] if len(others) > 2 * d else None
            parts = tuple(others[:d]), tuple(others[d : 2 * d])
            lifting = Lifting(u_b, rate, *parts, lower_order, str(self.lifting))
        if data.potential is not None:
            both = (data.potential, sympy.diff(data.potential, SOLUTION))
            potential = Potential(*(expressions.make_elementwise(each, str(SOLUTION), values) for each in both))
        gradient = None if data.exact is None else expressions.make_gradient(data.exact, self.dimension, values)
        problem = Problem(
            dimension=self.dimension, diffusion=diffusion, initial=lambda nodes: initial(nodes, 0.0),
            source=make(data.source), exact=None if data.exact is None else make(data.exact), exact_gradient=gradient,
            final_time=self.final_time, name=self.name, parameters=values, lifting=lifting, potential=potential,
            domain=self.domain, advection=tuple(map(make, data.advection)) or None,
            reaction=reaction, boundary_tolerance=self.boundary_tolerance,
            faces=tuple(NaturalFace(face, make(flux), None if h is None else make(h)) for face, flux, h in data.faces),
        )  # fmt: skip
        if isinstance(table := self.diffusion, GridTable):
            if lifting is not None:
                lifting = replace(lifting, flux=tuple(map(table.scale, lifting.gradient)))
            problem = replace(problem, diffusion=Separable(lambda nodes: table(nodes)[None]), lifting=lifting)
        check_data(problem, final_time, list(map(make, data.exact_flux)))
        broken = _find_broken_claim(self, final_time or 1.0, tuple(values.items()))
        if broken is not None:
            instead = "" if data.exact is None else ", or state `initial` and `source` instead of `exact`"
            got = f"a relative defect of {broken[1]:.2g} in the weak form{describe_parameters(problem)}"
            raise ProblemError(f"{broken[0]}, got {got}. Smooth the formulas{instead}")
        return problem


def _freeze(raw: Any) -> Any:
    """Convert nested lists to tuples.  Raises FormulaError for a mapping."""
    if isinstance(raw, dict):
        raise FormulaError(f"a formula must be a string, a number or a list of them, got {shorten(raw)}")
    return tuple(_freeze(part) for part in raw) if isinstance(raw, (list, tuple)) else raw


def _find_far_places(domain: Any, final_time: float) -> expressions.Places | None:
    """Return some points and times if the domain is far from the origin, and None otherwise."""
    lower, upper = map(np.array, domain.inner_box())
    widths = upper - lower
    if (np.maximum(np.abs(lower), np.abs(upper)) <= _MAX_DISTANCE * widths).all():
        return None
    parts = np.array(list(product((0.1, 0.45, 0.93), repeat=len(lower))))
    return lower + parts * widths, final_time * np.array([0.0, 0.37, 1.0])


class SymbolicProblem:
    """Expressions of a formula problem, with n . (A grad u) = flux - transfer u on the `faces`.

    A linear reaction is g = `coefficient` u + `remainder`, and both are zero for a nonlinear reaction.  `lifting`
    contains u_b, its time derivative, gradient and flux, and b . grad u_b - c u_b unless that sum is zero.
    """

    def __init__(self, statement: FormulaProblem) -> None:
        d, zero, is_table = statement.dimension, sympy.S.Zero, isinstance(statement.diffusion, GridTable)
        self.dimension = d
        self.diffusion = sympy.S.One if is_table else parse_diffusion(statement.diffusion, d)
        advection = () if statement.advection is None else read_texts(statement.advection, "advection", d)
        self.advection = tuple(parse_term(text, "advection", d) for text in advection)
        reaction, source = ("0" if text is None else text for text in (statement.reaction, statement.source))
        self.reaction = parse_term(reaction, "reaction", d, without=())
        self.slope = sympy.diff(self.reaction, SOLUTION)
        self.is_linear = not self.slope.has(SOLUTION)
        self.coefficient = self.slope if self.is_linear else zero
        self.remainder = self.reaction.subs(SOLUTION, 0) if self.is_linear else zero
        self.faces = list[tuple[str, sympy.Expr, sympy.Expr | None]]()
        for face, data in ((face, data) for face, data in statement.boundary if data != PERIODIC):
            terms = {key: parse_term(text, f"boundary.{face}.{key}", d) for key, text in data}
            transfer = terms.get("transfer")
            flux = terms["flux"] if transfer is None else transfer * terms["outside"]
            self.faces.append((face, flux, transfer))
        self.potential: sympy.Expr | None = None
        if statement.potential is not None:
            self.potential = parse(statement.potential, "potential")
            if outside := sorted({str(name) for name in self.potential.free_symbols} & set(RESERVED)):
                got = f"{', '.join(outside)} in {statement.potential!r}"
                raise FormulaError(f"`potential` must be a formula in u and parameters, got {got}")
        self.lifting: tuple[sympy.Expr, ...] = ()
        if statement.lifting is not None:
            u_b = parse_term(statement.lifting, "lifting", d)
            slopes = (sympy.diff(u_b, x) for x in expressions.COORDINATES[:d])
            lower_order = self.compute_transport(u_b) - self.coefficient * u_b
            self.lifting = (u_b, sympy.diff(u_b, expressions.TIME), *slopes, *self.compute_flux(u_b))
            self.lifting += () if lower_order == 0 else (lower_order,)
        self.exact: sympy.Expr | None = None
        if statement.exact is None:
            self.source = parse_term(source, "source", d)
            self.initial = parse_term(str(statement.initial), "initial", d, steady=True)
        else:
            self.exact = self.initial = parse_term(statement.exact, "exact", d)  # u_0 is its value at t = 0
            self.source = self.derive_source(self.exact)
            if self.potential is not None:
                self.source += sympy.diff(self.potential, SOLUTION).subs(SOLUTION, self.exact)
        has_fluxes = self.exact is not None and (self.faces or statement.domain.periods())
        self.exact_flux = self.compute_flux(self.initial) if has_fluxes else ()
        self.source += self.remainder  # the constant part of a linear reaction
        rows = self.diffusion if isinstance(self.diffusion, tuple) else ((self.diffusion,),)
        formulas = [entry for row in rows for entry in row]
        formulas += [*self.advection, self.reaction, self.slope, *self.lifting, self.source, self.initial]
        formulas += [part for _, *parts in self.faces for part in parts if part is not None]
        if self.potential is not None:
            formulas += [self.potential, sympy.diff(self.potential, SOLUTION)]
        for formula in formulas:
            if formula.has(sympy.zoo, sympy.nan, sympy.oo, sympy.I, sympy.DiracDelta, sympy.Derivative):
                got = f"{str(formula)[:80]} after differentiation"
                raise FormulaError(f"the formulas must be smooth and real, got {got}")
        self.parameters = frozenset[str]().union(*map(find_parameters, formulas)) - {str(SOLUTION)}

    def compute_flux(self, u: sympy.Expr) -> tuple[sympy.Expr, ...]:
        """Return the flux A grad u of a function u."""
        gradient = [sympy.diff(u, x) for x in expressions.COORDINATES[: self.dimension]]
        if not isinstance(self.diffusion, tuple):
            return tuple(self.diffusion * slope for slope in gradient)
        rows = self.diffusion
        return tuple(sum((a * s for a, s in zip(row, gradient, strict=True)), sympy.S.Zero) for row in rows)

    def compute_transport(self, u: sympy.Expr) -> sympy.Expr:
        """Return the advection term b . grad u of a function u."""
        along = zip(self.advection, expressions.COORDINATES, strict=False)
        return sum((b * sympy.diff(u, x) for b, x in along), sympy.S.Zero)

    def derive_source(self, u: sympy.Expr) -> sympy.Expr:
        """Return the source u_t - div(A grad u) + b . grad u - g(u) of the problem that u solves."""
        flux = zip(self.compute_flux(u), expressions.COORDINATES, strict=False)
        divergence = sum((sympy.diff(f, x) for f, x in flux), sympy.S.Zero)
        return (
            sympy.diff(u, expressions.TIME) - divergence + self.compute_transport(u) - self.reaction.subs(SOLUTION, u)
        )


# one derivation per process for all parameter values and runs, with a few kilobytes each
derive_terms = lru_cache(maxsize=64)(SymbolicProblem)


@lru_cache(maxsize=64)
def _list_claims(statement: FormulaProblem) -> tuple[tuple[str, WeakIdentity], ...]:
    """Return the weak identities of u, of the equation and of the lifting, each with its text for messages."""
    data, axes, claims = derive_terms(statement), range(statement.dimension), list[tuple[str, WeakIdentity]]()
    if data.exact is not None:
        claims += [("`exact` must be without jumps", WeakIdentity.from_flux((axis, data.exact))) for axis in axes]
        identity = WeakIdentity.from_flux(*enumerate(data.compute_flux(data.exact)))
        claims.append(("the flux `diffusion` * grad(`exact`) must be without jumps", identity))
    if data.lifting:
        claims += [
            ("`lifting` must be without jumps", WeakIdentity.from_flux((axis, data.lifting[0]))) for axis in axes
        ]
    return tuple(claims)


@lru_cache(maxsize=1024)  # the cases of a study share few problems, but create a problem for each case
def _find_broken_claim(
    statement: FormulaProblem, final_time: float, values: tuple[tuple[str, float], ...]
) -> tuple[str, float] | None:
    """Return the text and the defect of the first identity that the formulas violate for these parameters."""
    times, box = tuple(part * final_time for part in _TEST_TIMES), statement.domain.inner_box()
    for wanted, identity in _list_claims(statement):
        if defect := measure_defect(identity.map_to_cube(*box), statement.dimension, dict(values), times):
            return wanted, defect
    return None


# eq:1d_multi, tab:main1d: one solution, a coefficient of scale epsilon
oscillatory_1d = FormulaProblem(
    dimension=1, exact="exp(-t)*sin(16*pi*x)", diffusion="1 + cos(2*pi*x/epsilon)/2", final_time=0.25,
    name="oscillatory_1d",
)  # fmt: skip
# tab:epsdep1d: a solution with a component of scale epsilon.  It vanishes at x = 1 only if 2/epsilon is an integer.
target_1d = FormulaProblem(
    dimension=1, exact="exp(-t)*(sin(pi*x) + sin(2*pi*x/epsilon)/5)", diffusion="1e-3", final_time=0.25,
    name="target_1d",
)  # fmt: skip
BUILT_IN = {statement.name: statement for statement in (oscillatory_1d, target_1d)}
