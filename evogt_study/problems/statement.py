"""A problem stated as formulas, and the parabolic data that follow from them.

Either the exact solution is given, and the source f = u_t - div(a grad u) + F'(u) is derived symbolically; or the
initial value with a source.  A lifting u_b gives the boundary values, a potential F(u) makes the problem a gradient
flow.  Names in formulas other than x y z t pi are parameters; they get values when a `Problem` is made.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import sympy

from evogt_study.errors import FormulaError, ParameterError, ProblemError
from evogt_study.numerics.problem import Lifting, Potential, Problem
from evogt_study.numerics.problem_checks import check_boundary, parameters_told
from evogt_study.problems.expressions import (
    COORDINATES,
    TIME,
    Terms,
    elementwise_function,
    elementwise_functions,
    profile_function,
    separated,
    space_time_function,
)
from evogt_study.problems.grammar import RESERVED, SPACE, parameters_of, parse, symbol
from evogt_study.problems.weak_form import WeakIdentity, weak_defect, weak_gradient

SOLUTION = symbol("u")
"""The solution's name in a potential."""

LOOKED_AT = (0.01, 0.37)
"""Times, as parts of the final one, at which weak forms are tested: near the start, where nothing has decayed yet."""


@dataclass(frozen=True)
class Statement:
    """A problem in formulas; call it with its parameters' values to get the `Problem`.

    exact: u(x, t), or else initial: u_0(x) with source: f(x, t).  diffusion: a(x, t).  All on (0, 1)^dimension, with
    the boundary values of lifting: u_b(x, t) (remark nonhomo), zero where it is left out.  potential: F(u), a formula
    in u and parameters, adds F'(u) to the left-hand side, as in Allen-Cahn: F = "(u**2 - 1)**2/4".  `final_time` is the
    customary T.  Raises FormulaError where a formula is outside the grammar or the formulas contradict each other.

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
    lifting: str | None = None
    potential: str | None = None

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

        Raises ParameterError for a missing or unknown parameter and ProblemError where the solution is not zero, or not
        the lifting, on the boundary, or where a jump makes the derived source, or the lifting's gradient, wrong.
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
            lifting=None if data.lifting is None else data.lifting.at(values),
            potential=None if data.potential is None else _potential(data.potential, values),
        )
        check_boundary(problem)
        _check_weak_forms(self, problem)
        return problem


Split = tuple[sympy.Expr, Terms | None]
"""An expression with its split into modulations and profiles."""


@dataclass(frozen=True, eq=False)
class SymbolicLifting:
    """u_b with its derivatives, as in `evogt_study.numerics.problem.Lifting`."""

    value: Split
    rate: Split
    gradient: tuple[Split, ...]
    flux: tuple[Split, ...]

    @staticmethod
    def of(value: sympy.Expr, diffusion: sympy.Expr, dimension: int) -> SymbolicLifting:
        """Differentiate the lifting and multiply its gradient by the diffusion."""
        gradient = [sympy.diff(value, x) for x in COORDINATES[:dimension]]
        return SymbolicLifting(
            _split(value),
            _split(sympy.diff(value, TIME)),
            tuple(map(_split, gradient)),
            tuple(_split(diffusion * slope) for slope in gradient),
        )

    def at(self, values: dict[str, float]) -> Lifting:
        """The lifting as functions, for these parameter values."""
        return Lifting(
            space_time_function(*self.value, values),
            space_time_function(*self.rate, values),
            tuple(space_time_function(*slope, values) for slope in self.gradient),
            tuple(space_time_function(*flux, values) for flux in self.flux),
        )

    @property
    def expressions(self) -> tuple[sympy.Expr, ...]:
        """All of its expressions."""
        return tuple(split[0] for split in (self.value, self.rate, *self.gradient, *self.flux))


def _split(expression: sympy.Expr) -> Split:
    return expression, separated(expression)


def _potential(value: sympy.Expr, values: dict[str, float]) -> Potential:
    name = str(SOLUTION)
    slope = sympy.diff(value, SOLUTION)
    return Potential(
        elementwise_function(value, name, values),
        elementwise_function(slope, name, values),
        lambda shape: elementwise_functions((value, slope), name, values, shape),
    )


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
    lifting: SymbolicLifting | None
    potential: sympy.Expr | None


@lru_cache(maxsize=64)  # one derivation a process, however many parameter values and runs use it
def derived(statement: Statement) -> Derived:
    """Parse the formulas and derive the source, f = u_t - div(a grad u) + F'(u) (eq:linear_parabolic)."""
    diffusion = _parsed(statement.diffusion, "diffusion", statement.dimension, steady=False)
    potential = _parsed_potential(statement.potential)
    lifting = None
    if statement.lifting is not None:
        lifted = _parsed(statement.lifting, "lifting", statement.dimension, steady=False)
        lifting = SymbolicLifting.of(lifted, diffusion, statement.dimension)
    if statement.exact is not None:
        exact: sympy.Expr | None = _parsed(statement.exact, "exact", statement.dimension, steady=False)
        source = manufactured_source(exact, diffusion, statement.dimension) + _reaction(potential, exact)
        initial = exact  # evaluated at t = 0
    else:
        exact = None
        source = _parsed(
            "0" if statement.source is None else statement.source, "source", statement.dimension, steady=False
        )
        initial = _parsed(str(statement.initial), "initial", statement.dimension, steady=True)
    formulas = [diffusion, source, initial] + ([] if exact is None else [exact])
    formulas += [] if lifting is None else lifting.expressions
    parameters = frozenset().union(*(parameters_of(formula) for formula in formulas))
    if potential is not None:
        _check_evaluable(potential, sympy.diff(potential, SOLUTION))
        parameters |= parameters_of(potential) - {str(SOLUTION)}
    _check_evaluable(*formulas)
    return Derived(
        parameters=parameters,
        exact=exact,
        initial=initial,
        diffusion=diffusion,
        source=source,
        exact_terms=None if exact is None else separated(exact),
        diffusion_terms=separated(diffusion),
        source_terms=separated(source),
        lifting=lifting,
        potential=potential,
    )


@lru_cache(maxsize=64)
def _claims(statement: Statement) -> tuple[tuple[str, WeakIdentity], ...]:
    """What the formulas have to fulfil in the weak sense, each with the words for it.

    u and u_b are in H1, and u solves the problem: (f, v) - (u_t, v) - (F'(u), v) = (a grad u, grad v).
    """
    data, dimension = derived(statement), statement.dimension
    claims = []
    if data.exact is not None:
        claims += [("`exact` must be without jumps", identity) for identity in weak_gradient(data.exact, dimension)]
        along = enumerate(COORDINATES[:dimension])
        flux = tuple((axis, data.diffusion * sympy.diff(data.exact, x)) for axis, x in along)
        residual = data.source - sympy.diff(data.exact, TIME) - _reaction(data.potential, data.exact)
        claims.append(("the flux `diffusion` * grad(`exact`) must be without jumps", WeakIdentity(residual, flux)))
    if data.lifting is not None:
        gradient = weak_gradient(data.lifting.value[0], dimension)
        claims += [("`lifting` must be without jumps", identity) for identity in gradient]
    return tuple(claims)


def _reaction(potential: sympy.Expr | None, solution: sympy.Expr) -> sympy.Expr:
    """F'(u) at the solution, zero without a potential."""
    return sympy.S.Zero if potential is None else sympy.diff(potential, SOLUTION).subs(SOLUTION, solution)


def _parsed_potential(text: str | None) -> sympy.Expr | None:
    """The potential, a formula in u and parameters."""
    if text is None:
        return None
    expression = parse(text, "potential")
    outside = sorted({str(name) for name in expression.free_symbols} & set(RESERVED))
    if outside:
        raise FormulaError(f"`potential` must be a formula in u and parameters, got {', '.join(outside)} in {text!r}")
    return expression


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
    if expression.has(SOLUTION):
        raise FormulaError(
            f"`{key}` must be free of u, the solution, got {text!r}; only `potential`, F(u), may hold it and adds "
            "F'(u) to the equation; a parameter needs another name"
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


def _check_weak_forms(statement: Statement, problem: Problem) -> None:
    """Raise ProblemError, with the measured defect, where the symbolic derivatives are not the weak ones."""
    broken = _broken_claim(statement, tuple(problem.parameters.items()))
    if broken is not None:
        wanted, defect = broken
        instead = "" if problem.exact is None else ", or state `initial` and `source` instead of `exact`"
        raise ProblemError(
            f"{wanted}, got a relative defect of {defect:.2g} in the weak form{parameters_told(problem)}; "
            f"smooth the formulas{instead}"
        )


@lru_cache(maxsize=1024)  # a study's cases have few problems, which are made for each of them
def _broken_claim(statement: Statement, values: tuple[tuple[str, float], ...]) -> tuple[str, float] | None:
    """The first claim that the formulas do not fulfil for these parameters, with its defect."""
    times = tuple(part * (statement.final_time or 1.0) for part in LOOKED_AT)
    for wanted, identity in _claims(statement):
        defect = weak_defect(identity, statement.dimension, dict(values), times)
        if defect:
            return wanted, defect
    return None
