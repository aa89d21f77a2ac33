"""From symbolic expressions to functions that NumPy evaluates: separation of time and space, and evaluation.

Evaluation walks the expression tree and applies one NumPy function per node, each distinct subexpression once.  No code
is generated from the text of a formula, so none can be executed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from functools import lru_cache, reduce
from typing import Any

import numpy as np
import sympy

from evogt_study.errors import FormulaError
from evogt_study.method.arrays import Array
from evogt_study.method.problem import NonSeparable, Separable, SpaceTimeFunction
from evogt_study.problems.grammar import SPACE, symbol

TIME = symbol("t")
COORDINATES = tuple(symbol(name) for name in SPACE)

# A product of sums is multiplied out only while the result stays small; beyond, the general path is the cheaper one.
MAX_TERMS = 500

_NUMPY: dict[Any, Callable[..., Any]] = {
    sympy.sin: np.sin, sympy.cos: np.cos, sympy.tan: np.tan, sympy.asin: np.arcsin, sympy.acos: np.arccos,
    sympy.atan: np.arctan, sympy.sinh: np.sinh, sympy.cosh: np.cosh, sympy.tanh: np.tanh, sympy.exp: np.exp,
    sympy.log: np.log, sympy.Abs: np.abs, sympy.sign: np.sign,
}  # fmt: skip

Terms = tuple[tuple[sympy.Expr, sympy.Expr], ...]


def separated(expression: sympy.Expr) -> Terms | None:
    """Pairs (m_k, p_k) with expression = sum_k m_k(t) p_k(x), as few as grouping finds; None where it does not split.

    Zero has no pairs.  Terms of one modulation are one profile, unless terms of one profile are as few: then 1 and
    cos(x) are profiles of 1 + (1 + sin(t)) cos(x), and what is computed for 1 serves other problems too.

    >>> x, t = COORDINATES[0], TIME
    >>> separated(sympy.exp(-t) * (sympy.sin(x) + 2) + 3 * sympy.exp(-t))
    ((exp(-t), sin(x) + 5),)
    """
    profiles: dict[sympy.Expr, sympy.Expr] = {}
    terms = _summands(expression)
    if terms is None:
        return None
    for term in terms:
        pair = _split(term)
        if pair is None:
            return None
        profiles[pair[0]] = profiles.get(pair[0], sympy.S.Zero) + pair[1]
    pairs = tuple((modulation, profile) for modulation, profile in profiles.items() if profile != 0)
    regrouped = _by_profile(pairs)
    return regrouped if 1 < len(pairs) >= len(regrouped) else pairs


def _by_profile(pairs: Terms) -> Terms:
    """The same sum, with the factors of one function of space, which has no constant of its own, in one modulation."""
    modulations: dict[sympy.Expr, sympy.Expr] = {}
    for modulation, profile in pairs:
        for term in sympy.Add.make_args(profile):
            scale, shape = term.as_independent(*COORDINATES, as_Add=False)
            modulations[shape] = modulations.get(shape, sympy.S.Zero) + scale * modulation
    return tuple((modulation, shape) for shape, modulation in modulations.items() if modulation != 0)


def _mixed(expression: sympy.Expr) -> bool:
    return bool(expression.has(TIME) and expression.has(*COORDINATES))


def _summands(expression: sympy.Expr) -> list[sympy.Expr] | None:
    """Products whose sum the expression is, multiplied out only where time and space meet; None where too many.

    (sympy's own expand would multiply out denominators and pure functions of space too.)
    """
    if not _mixed(expression):
        return [expression]
    if expression.is_Add:
        parts = [_summands(term) for term in expression.args]
        if any(part is None for part in parts) or sum(len(part or ()) for part in parts) > MAX_TERMS:
            return None
        return [term for part in parts for term in part or ()]
    if expression.is_Mul:
        return _product([_summands(factor) for factor in expression.args])
    if expression.is_Pow and expression.exp.is_Integer and expression.exp > 0:
        return _power_of(expression)
    if isinstance(expression, sympy.exp):
        return _product([[sympy.exp(part)] for part in _summands(expression.args[0]) or [expression.args[0]]])
    if expression.is_Pow and not expression.base.has(TIME, *COORDINATES):
        return _product([[expression.base**part] for part in _summands(expression.exp) or [expression.exp]])
    return [expression]


def _power_of(expression: sympy.Expr) -> list[sympy.Expr] | None:
    base, exponent = _summands(expression.base), int(expression.exp)
    if base is not None and len(base) == 1:
        return [base[0] ** exponent]
    return _product([base] * exponent) if exponent < MAX_TERMS else None


def _product(factors: list[list[sympy.Expr] | None]) -> list[sympy.Expr] | None:
    """Sums multiplied out, None as soon as there are too many terms."""
    terms = [sympy.S.One]
    for factor in factors:
        if factor is None or len(terms) * len(factor) > MAX_TERMS:
            return None
        terms = [left * right for left in terms for right in factor]
    return terms


def _split(term: sympy.Expr) -> tuple[sympy.Expr, sympy.Expr] | None:
    """(factor of t, factor of x and parameters) of one product, or None where a factor holds both."""
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


def space_time_function(expression: sympy.Expr, terms: Terms | None, values: Mapping[str, float]) -> SpaceTimeFunction:
    """`expression` with its parameters set to `values`, as the method layer's function of nodes and times."""
    if terms is None:
        return NonSeparable(lambda nodes, t: _at_nodes(expression, nodes, {**values, "t": t}))
    pairs = terms or ((sympy.S.One, sympy.S.Zero),)
    if not _representable(pairs, values):
        return NonSeparable(lambda nodes, t: _at_nodes(expression, nodes, {**values, "t": t}))

    def profiles(nodes: Array) -> Array:
        known: dict[sympy.Expr, Any] = {}  # shared by the profiles, which have most of their factors in common
        return np.stack([_at_nodes(profile, nodes, values, known) for _, profile in pairs])

    def modulations(times: Array) -> Array:
        return np.stack([_broadcast(evaluate(m, {**values, "t": times}), len(times)) for m, _ in pairs])

    steady = len(pairs) == 1 and not pairs[0][0].has(TIME)
    return Separable(profiles, None if steady else modulations)


def _representable(pairs: Terms, values: Mapping[str, float]) -> bool:
    """Whether the factors are finite where their product is: exp((t - x)/epsilon) splits into two that may overflow."""
    corners = np.array(list(itertools.product((0.0, 1.0), repeat=len(SPACE))))
    with np.errstate(all="ignore"):
        return all(
            np.isfinite(evaluate(modulation, {**values, "t": 1.0})).all()
            and not np.isinf(_at_nodes(profile, corners, values)).any()
            for modulation, profile in pairs
        )


def profile_function(expression: sympy.Expr, values: Mapping[str, float]) -> Callable[[Array], Array]:
    """The expression at t = 0 as a function of space: nodes (Q, d) -> (Q,)."""
    return lambda nodes: _at_nodes(expression, nodes, {**values, "t": 0.0})


def elementwise_function(expression: sympy.Expr, name: str, values: Mapping[str, float]) -> Callable[[Array], Array]:
    """The expression as a function of the one variable `name`, applied to each entry of an array."""
    return lambda array: np.broadcast_to(np.asarray(evaluate(expression, {**values, name: array})), array.shape)


def _at_nodes(
    expression: sympy.Expr, nodes: Array, values: Mapping[str, Any], known: dict[sympy.Expr, Any] | None = None
) -> Array:
    columns = dict(zip(SPACE, nodes.T, strict=False))
    return _broadcast(evaluate(expression, {**values, **columns}, known), len(nodes))


def _broadcast(value: Any, count: int) -> Array:
    return np.broadcast_to(np.asarray(value, dtype=float), (count,))


def evaluate(expression: sympy.Expr, values: Mapping[str, Any], known: dict[sympy.Expr, Any] | None = None) -> Any:
    """The number or array that `expression` is, given `values` of its symbols; `known` remembers subexpressions.

    Raises FormulaError for an operation that has no numerical counterpart (a derivative that sympy left standing).
    """
    known = {} if known is None else known
    found = known.get(expression)
    if found is None:
        found = known[expression] = _evaluated(expression, values, known)
    return found


def _evaluated(expression: sympy.Expr, values: Mapping[str, Any], known: dict[sympy.Expr, Any]) -> Any:
    if expression.is_Symbol:
        return values[expression.name]
    if not expression.args:  # a number or pi; sums and functions of numbers are computed in floating point below
        return _number(expression)
    arguments = [evaluate(argument, values, known) for argument in expression.args]
    if expression.is_Add:
        return reduce(np.add, arguments)
    if expression.is_Mul:
        return reduce(np.multiply, arguments)
    if expression.is_Pow:
        return _power(arguments[0], expression.exp, arguments[1])
    if expression.func not in _NUMPY:
        raise FormulaError(f"{expression.func.__name__} has no numerical value; use smoother functions")
    return _NUMPY[expression.func](*arguments)


@lru_cache(maxsize=1024)  # sympy's own conversion costs as much as a small array
def _number(expression: sympy.Expr) -> float:
    if not (expression.is_number and expression.is_real):
        raise FormulaError(f"{expression} is not a real number")
    return float(expression)


def _power(base: Any, exponent: sympy.Expr, value: Any) -> Any:
    if exponent == sympy.S.Half:
        return np.sqrt(base)
    if exponent == -1:
        return np.divide(1.0, base)
    if exponent.is_Integer and abs(exponent) <= 8:
        power = reduce(np.multiply, [base] * abs(int(exponent)))
        return power if exponent > 0 else np.divide(1.0, power)
    return np.power(np.asarray(base, dtype=float), value)
