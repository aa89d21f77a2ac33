"""Functions of nodes and times from symbolic expressions, by separation of time and space."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import sympy

from evogt_study.formulas import SPACE, evaluate_formula, prepare, symbol
from evogt_study.pde.galerkin.problem import NonSeparable, Separable, SpaceTimeFunction
from evogt_study.pde.numerics import Array

TIME = symbol("t")
COORDINATES = tuple(symbol(name) for name in SPACE)
_MAX_TERMS = 500
"""Largest number of terms of an expanded product.  With more terms the general path is cheaper."""
CANCELLED = 1e-12
"""Relative difference above which the formula is evaluated instead of its terms."""

Terms = tuple[tuple[sympy.Expr, sympy.Expr], ...]
"""Pairs of a modulation, a function of time, and a profile, a function of space."""
Places = tuple[Array, Array]
"""Nodes (Q, d) and times (T,)."""


@lru_cache(maxsize=512)  # once in a process for all parameter values and runs; a few kilobytes each
def separate(expression: sympy.Expr) -> Terms | None:
    """Return pairs (m_k, p_k) with expression = sum_k m_k(t) p_k(x), or None if it is not separable.

    Zero has no pairs.  Terms of one modulation are one profile, unless terms of one profile are as few: then 1 and
    cos(x) are profiles of 1 + (1 + sin(t)) cos(x), and results for 1 serve other problems too.

    >>> x, t = COORDINATES[0], TIME
    >>> separate(sympy.exp(-t) * (sympy.sin(x) + 2) + 3 * sympy.exp(-t))
    ((exp(-t), sin(x) + 5),)
    """
    profiles: dict[sympy.Expr, sympy.Expr] = {}
    terms = _split_sum(expression)
    if terms is None:
        return None
    for term in terms:
        pair = _split_product(term)
        if pair is None:
            return None
        profiles[pair[0]] = profiles.get(pair[0], sympy.S.Zero) + pair[1]
    pairs = tuple((modulation, profile) for modulation, profile in profiles.items() if profile != 0)
    regrouped = _group_by_profile(pairs)
    return regrouped if 1 < len(pairs) >= len(regrouped) else pairs


def _group_by_profile(pairs: Terms) -> Terms:
    """Join the factors of each function of space, without constants, in one modulation."""
    modulations: dict[sympy.Expr, sympy.Expr] = {}
    for modulation, profile in pairs:
        for term in sympy.Add.make_args(profile):
            scale, shape = term.as_independent(*COORDINATES, as_Add=False)
            modulations[shape] = modulations.get(shape, sympy.S.Zero) + scale * modulation
    return tuple((modulation, shape) for shape, modulation in modulations.items() if modulation != 0)


def _split_sum(expression: sympy.Expr) -> list[sympy.Expr] | None:
    """Return products whose sum is the expression, expanded only where time and space mix, or None if too many."""
    if not (expression.has(TIME) and expression.has(*COORDINATES)):
        return [expression]
    if expression.is_Add:
        parts = [_split_sum(term) for term in expression.args]
        if any(part is None for part in parts) or sum(len(part or ()) for part in parts) > _MAX_TERMS:
            return None
        return [term for part in parts for term in part or ()]
    if expression.is_Mul:
        return _multiply_out([_split_sum(factor) for factor in expression.args])
    if expression.is_Pow and expression.exp.is_Integer and expression.exp > 0:
        base, exponent = _split_sum(expression.base), int(expression.exp)
        if base is not None and len(base) == 1:
            return [base[0] ** exponent]
        return _multiply_out([base] * exponent) if exponent < _MAX_TERMS else None
    if isinstance(expression, sympy.exp):
        return _multiply_out([[sympy.exp(part)] for part in _split_sum(expression.args[0]) or [expression.args[0]]])
    if expression.is_Pow and not expression.base.has(TIME, *COORDINATES):
        return _multiply_out([[expression.base**part] for part in _split_sum(expression.exp) or [expression.exp]])
    return [expression]


def _multiply_out(factors: list[list[sympy.Expr] | None]) -> list[sympy.Expr] | None:
    """Expand products of sums.  Return None if there are too many terms."""
    terms = [sympy.S.One]
    for factor in factors:
        if factor is None or len(terms) * len(factor) > _MAX_TERMS:
            return None
        terms = [left * right for left in terms for right in factor]
    return terms


def _split_product(term: sympy.Expr) -> tuple[sympy.Expr, sympy.Expr] | None:
    """Return (factor of t, factor of x and parameters) of one product, or None if a factor contains both."""
    modulation, profile = [], []
    for factor in sympy.Mul.make_args(term):
        if not factor.has(TIME):
            profile.append(factor)
        elif factor.has(*COORDINATES):
            return None
        else:
            modulation.append(factor)
    scale, modulations = sympy.Mul(*modulation).as_coeff_Mul()
    return modulations, scale * sympy.Mul(*profile)


def space_time_function(
    expression: sympy.Expr, values: Mapping[str, float], places: Places | None = None
) -> SpaceTimeFunction:
    """Return a function of nodes and times, which is not separated if its terms overflow or cancel at `places`."""
    terms = separate(expression)
    pairs = None if terms is None else terms or ((sympy.S.One, sympy.S.Zero),)
    # the formula itself is slower, and finite
    if pairs is None or not _is_representable(pairs, values):
        return NonSeparable(at_nodes(expression, values))
    # together: profiles have most of their factors in common
    modulations, profiles = (prepare(each, values) for each in zip(*pairs, strict=True))
    steady = len(pairs) == 1 and not pairs[0][0].has(TIME)
    made = Separable(
        lambda nodes: _fill_rows(profiles(_name_columns(nodes)), len(nodes)),
        None if steady else lambda times: _fill_rows(modulations({"t": times}), len(times)),
    )
    whole = NonSeparable(at_nodes(expression, values))
    if places is None:
        return made
    # terms that were multiplied out may cancel, such as the terms of (x - t - 1000)^4 on (1000, 1001)
    found, truth = made(*places), whole(*places)
    return whole if np.abs(found - truth).max() > CANCELLED * np.abs(truth).max() else made


def _is_representable(pairs: Terms, values: Mapping[str, float]) -> bool:
    """Return True if the factors are finite whenever their product is.  exp((t - x)/epsilon) may overflow."""
    # profiles and modulations are monotone exponentials in the cases that overflow: the corners show it
    corners = np.array(list(itertools.product((0.0, 1.0), repeat=len(SPACE))))
    with np.errstate(all="ignore"):
        return all(
            np.isfinite(evaluate_formula(modulation, {**values, "t": 1.0})).all()
            and not np.isinf(at_nodes(profile, values)(corners, 0.0)).any()
            for modulation, profile in pairs
        )


def nodal_function(expression: sympy.Expr, values: Mapping[str, float]) -> Callable[[Array, Array, float], Array]:
    """Return the expression as a function of the solution, space and time: u (Q,), nodes (Q, d), t -> (Q,)."""
    evaluated = prepare((expression,), values)
    return lambda u, nodes, t: _fill_rows(evaluated({**_name_columns(nodes), "t": t, "u": u}), len(nodes))[0]


def gradient_function(
    expression: sympy.Expr, dimension: int, values: Mapping[str, float]
) -> Callable[[Array, float], Array]:
    """Return the gradient in space: nodes (Q, d), t -> (d, Q), differentiated on first use."""

    @lru_cache(maxsize=1)
    def slopes() -> list[Callable[[Array, float], Array]]:
        return [at_nodes(sympy.diff(expression, x), values) for x in COORDINATES[:dimension]]

    return lambda nodes, t: np.stack([slope(nodes, t) for slope in slopes()])


def elementwise_function(expression: sympy.Expr, name: str, values: Mapping[str, float]) -> Callable[[Array], Array]:
    """Return the expression as an elementwise function of the variable `name`."""

    evaluated = prepare((expression,), values)

    def function(array: Array) -> Array:
        found = np.asarray(evaluated({name: array})[0])
        return found if found.shape == array.shape else np.broadcast_to(found, array.shape)

    return function


def at_nodes(expression: sympy.Expr, values: Mapping[str, float]) -> Callable[[Array, float], Array]:
    """Return the expression as a function of space and time: nodes (Q, d), t -> (Q,)."""
    evaluated = prepare((expression,), values)
    return lambda nodes, t: _fill_rows(evaluated({**_name_columns(nodes), "t": t}), len(nodes))[0]


def _name_columns(nodes: Array) -> dict[str, Array]:
    # not strict: there are three names, whatever the dimension
    return dict(zip(SPACE, nodes.T, strict=False))


def _fill_rows(values: list[Any], count: int) -> Array:
    """Return numbers and arrays (count,) as the rows of one array, in a third of the time of np.stack."""
    rows = np.empty((len(values), count))
    for row, value in zip(rows, values, strict=True):
        row[...] = value
    return rows
