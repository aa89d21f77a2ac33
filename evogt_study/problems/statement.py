"""A problem stated as formulas, and the parabolic data that follow from them.

Either the exact solution is given, and the source f = u_t - div(a grad u) is derived symbolically; or the initial value
with a source.  Names in formulas other than x y z t pi are parameters; they get values when a `Problem` is made.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import sympy

from evogt_study.errors import FormulaError, ParameterError, ProblemError
from evogt_study.method.arrays import Array
from evogt_study.method.problem import Problem
from evogt_study.method.quadrature import QuadratureRule
from evogt_study.problems.expressions import (
    COORDINATES,
    TIME,
    Terms,
    profile_function,
    separated,
    space_time_function,
)
from evogt_study.problems.grammar import SPACE, parameters_of, parse

# Rounding leaves sin(40 pi) at 1e-14; a solution that is meant to be nonzero on the boundary is not this small there.
BOUNDARY_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Statement:
    """A problem in formulas; call it with its parameters' values to get the `Problem`.

    exact: u(x, t), or else initial: u_0(x) with source: f(x, t).  diffusion: a(x, t).  All on (0, 1)^dimension, with
    zero boundary values.  `final_time` is the customary T.  Raises FormulaError where a formula is outside the grammar
    or the formulas contradict each other.

    >>> heat = Statement(dimension=1, exact="exp(-t)*sin(k*pi*x)", diffusion="nu")
    >>> sorted(heat.parameters)
    ['k', 'nu']
    """

    dimension: int
    exact: str | None = None
    initial: str | None = None
    source: str | None = None
    diffusion: str = "1"
    final_time: float | None = None
    name: str = ""

    def __post_init__(self) -> None:
        if type(self.dimension) is not int or self.dimension not in (1, 2, 3):
            raise ParameterError("dimension", "1, 2 or 3", self.dimension)
        if (self.exact is None) == (self.initial is None):
            given = "both" if self.exact is not None else "neither"
            raise FormulaError(f"a problem must state one of `exact` and `initial`, got {given}")
        if self.exact is not None and self.source is not None:
            raise FormulaError("`source` must be left out where `exact` is given; it is derived from it")
        derived(self)

    @property
    def parameters(self) -> frozenset[str]:
        """Names in the formulas that need a value."""
        return derived(self).parameters

    def __call__(self, **values: float) -> Problem:
        """The problem for these parameter values.

        Raises ParameterError for a missing or unknown parameter and ProblemError where the solution does not vanish on
        the boundary.
        """
        data = derived(self)
        _check_names(values, data.parameters, self.name)
        for name, value in values.items():
            if isinstance(value, (str, bytes)) or not np.isfinite(value):
                raise ParameterError(name, "a finite number", value)
        values = {name: float(value) for name, value in values.items()}
        exact = None if data.exact is None else space_time_function(data.exact, data.exact_terms, values)
        problem = Problem(
            dimension=self.dimension,
            diffusion=space_time_function(data.diffusion, data.diffusion_terms, values),
            initial=profile_function(data.initial, values),
            source=space_time_function(data.source, data.source_terms, values),
            exact=exact,
            final_time=self.final_time,
            name=self.name,
            parameters=values,
        )
        _check_boundary(problem, "initial" if exact is None else "exact")
        return problem


@dataclass(frozen=True, eq=False)
class Derived:
    """The symbolic data of a statement and how they split into modulation(t) x profile(x); None where they do not."""

    parameters: frozenset[str]
    exact: sympy.Expr | None
    initial: sympy.Expr
    diffusion: sympy.Expr
    source: sympy.Expr
    exact_terms: Terms | None
    diffusion_terms: Terms | None
    source_terms: Terms | None


@lru_cache(maxsize=64)  # one derivation a process, however many parameter values and runs use it
def derived(statement: Statement) -> Derived:
    """Parse the formulas and derive the source, f = u_t - div(a grad u) (eq:linear_parabolic)."""
    diffusion = _parsed(statement.diffusion, "diffusion", statement.dimension, steady=False)
    if statement.exact is not None:
        exact: sympy.Expr | None = _parsed(statement.exact, "exact", statement.dimension, steady=False)
        source = manufactured_source(exact, diffusion, statement.dimension)
        initial = exact  # evaluated at t = 0
    else:
        exact = None
        source = _parsed(
            "0" if statement.source is None else statement.source, "source", statement.dimension, steady=False
        )
        initial = _parsed(str(statement.initial), "initial", statement.dimension, steady=True)
    _check_evaluable(source, initial, diffusion)
    formulas = [diffusion, source, initial] + ([] if exact is None else [exact])
    return Derived(
        parameters=frozenset().union(*(parameters_of(formula) for formula in formulas)),
        exact=exact,
        initial=initial,
        diffusion=diffusion,
        source=source,
        exact_terms=None if exact is None else separated(exact),
        diffusion_terms=separated(diffusion),
        source_terms=separated(source),
    )


def manufactured_source(exact: sympy.Expr, diffusion: sympy.Expr, dimension: int) -> sympy.Expr:
    """u_t - sum_l d/dx_l (a du/dx_l), so that `exact` solves the problem with diffusion a."""
    flux = (diffusion * sympy.diff(exact, x) for x in COORDINATES[:dimension])
    divergence = sum((sympy.diff(f, x) for f, x in zip(flux, COORDINATES, strict=False)), sympy.S.Zero)
    return sympy.diff(exact, TIME) - divergence


def _parsed(text: str, key: str, dimension: int, *, steady: bool) -> sympy.Expr:
    expression = parse(text, key)
    outside = {str(name) for name in expression.free_symbols} & set(SPACE[dimension:])
    if outside:
        raise FormulaError(
            f"`{key}` must use the coordinates {', '.join(SPACE[:dimension])} of a {dimension}-D problem, "
            f"got {', '.join(sorted(outside))} in {text!r}"
        )
    if steady and expression.has(TIME):
        raise FormulaError(f"`{key}` must not depend on t, got {text!r}")
    return expression


def _check_evaluable(*expressions: sympy.Expr) -> None:
    for expression in expressions:
        if expression.has(sympy.zoo, sympy.nan, sympy.oo, sympy.I, sympy.DiracDelta, sympy.Derivative):
            raise FormulaError(
                f"the formulas must be smooth and real, got {str(expression)[:80]} after differentiation"
            )


def _check_names(values: dict[str, float], wanted: frozenset[str], name: str) -> None:
    where = f"problem {name}" if name else "problem"
    for unknown in sorted(set(values) - wanted):
        raise ParameterError(
            unknown,
            f"one of the problem's parameters ({', '.join(sorted(wanted)) or 'none'})",
            values[unknown],
            where=where,
        )
    for missing in sorted(wanted - set(values)):
        raise ParameterError(missing, "given a number", None, where=where)


def _check_boundary(problem: Problem, key: str) -> None:
    """Raise ProblemError, with the measured value, where the stated solution is not zero on the boundary."""

    def largest(nodes: Array) -> float:
        if problem.exact is None:
            return float(np.abs(problem.initial(nodes)).max())
        return float(np.abs(problem.exact(nodes, np.array([0.0, 0.37, problem.final_time or 1.0]))).max())

    with np.errstate(all="ignore"):
        on_boundary = largest(boundary_points(problem.dimension))
        inside = largest(QuadratureRule("gauss_legendre", 16).on_unit_cube(problem.dimension).nodes)
    if not on_boundary <= BOUNDARY_TOLERANCE * max(inside, 1e-300):
        values = ", ".join(f"{name} = {value:g}" for name, value in problem.parameters.items())
        raise ProblemError(
            f"`{key}` must vanish on the boundary, got a value of {on_boundary:.3g} there"
            + (f" for {values}" if values else "")
        )


def boundary_points(dimension: int) -> Array:
    """Points on every face of the unit cube, corners included, (P, dimension)."""
    along = np.array([0.0, 0.113, 0.271, 0.5, 0.618, 0.839, 1.0])
    points = np.stack([grid.ravel() for grid in np.meshgrid(*[along] * dimension, indexing="ij")], axis=1)
    return points[np.any((points == 0.0) | (points == 1.0), axis=1)]
