"""Expressions evaluated by NumPy: each is once laid out as a list of operations on arrays, then run through.

No code is generated from the text of a formula, so none can be executed.  Subexpressions that several expressions have
in common are computed once.  Operations are NumPy's: each takes an array for its result, or None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, partial, reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import sympy

from evogt_study.errors import FormulaError

Array = npt.NDArray[np.float64]

_NUMPY: dict[Any, Callable[..., Any]] = {
    sympy.sin: np.sin, sympy.cos: np.cos, sympy.tan: np.tan, sympy.asin: np.arcsin, sympy.acos: np.arccos,
    sympy.atan: np.arctan, sympy.sinh: np.sinh, sympy.cosh: np.cosh, sympy.tanh: np.tanh, sympy.exp: np.exp,
    sympy.log: np.log, sympy.Abs: np.abs, sympy.sign: np.sign,
}  # fmt: skip
# of 8,000 values, products take 0.8 of the time of np.power for an exponent of 8, and 1.3 for 12
LARGEST_PRODUCT = 8
"""Exponents up to this one are products, which are faster than np.power and exact for small whole numbers."""


def evaluate(expression: sympy.Expr, values: Mapping[str, Any]) -> Any:
    """The number or array that `expression` is, given `values` of its symbols.

    Raises FormulaError for an operation that has no numerical counterpart (a derivative that sympy left standing).
    """
    return evaluate_all((expression,), values)[0]


def evaluate_all(expressions: tuple[sympy.Expr, ...], values: Mapping[str, Any]) -> list[Any]:
    """As `evaluate`, for several expressions of the same symbols."""
    return _prepared(expressions, ())(values)


def prepared(
    expressions: tuple[sympy.Expr, ...], parameters: Mapping[str, float]
) -> Callable[[Mapping[str, Any]], list[Any]]:
    """The expressions as a function of the values of all other symbols; what depends on none is computed once.

    The numbers are those of `evaluate_all`, bit for bit.  Raises FormulaError as `evaluate` does.
    """
    return _prepared(expressions, tuple(parameters), *parameters.values())


@lru_cache(maxsize=256, typed=True)  # 1 and 1.0 are not the same number of a formula
def _prepared(
    expressions: tuple[sympy.Expr, ...], names: tuple[str, ...], *numbers: float
) -> Callable[[Mapping[str, Any]], list[Any]]:
    known, given, steps, results = _split(expressions, dict(zip(names, numbers, strict=True)))
    # of few nodes a formula takes as long as its calls do: arguments that are named take a third less than a list
    calls = [(place, operate, arguments[0], arguments[1:]) for place, operate, arguments in steps]

    def evaluated(values: Mapping[str, Any]) -> list[Any]:
        # constants stay as they are from call to call
        slots = known.copy()
        for place, name in given:
            slots[place] = values[name]
        for place, operate, one, rest in calls:
            slots[place] = operate(slots[one], slots[rest[0]]) if rest else operate(slots[one])
        return [slots[i] for i in results]

    return evaluated


def repeated(
    expressions: tuple[sympy.Expr, ...], values: Mapping[str, Any], variable: str, shape: tuple[int, ...]
) -> Callable[[Array], list[Any]]:
    """The expressions as a function of one `variable`, an array of `shape`, that asks for no memory when it is called.

    Operations write into arrays that are at hand, one of which serves several in turn; results are valid until the next
    call.  What does not depend on the variable is computed now.  The numbers are those of `evaluate_all`, bit for bit.
    """
    slots, given, steps, results = _split(expressions, {name: values[name] for name in values if name != variable})
    last_use = {i: place for place, _, arguments in steps for i in arguments}
    outs: dict[int, Array] = {}
    free: list[Array] = []
    for place, _, arguments in steps:
        # an array is free again at its last use, unless it is a result: entries are read before they are written
        free += [outs[i] for i in {*arguments} if i in outs and last_use[i] == place and i not in results]
        outs[place] = free.pop() if free else np.empty(shape)

    def evaluated(array: Array) -> list[Any]:
        for place, name in given:
            slots[place] = {variable: array}[name]
        for place, operate, arguments in steps:
            slots[place] = operate(*[slots[i] for i in arguments], out=outs[place])
        return [slots[i] for i in results]

    return evaluated


Operation = tuple[str | Callable[..., Any], tuple[int, ...]]
"""A symbol's name, or a function and the numbers of the operations whose results it takes."""


def _split(
    expressions: tuple[sympy.Expr, ...], known: Mapping[str, Any]
) -> tuple[list[Any], list[tuple[int, str]], list[tuple[int, Callable[..., Any], tuple[int, ...]]], tuple[int, ...]]:
    """Values of what depends on `known` symbols only, places of the others, operations on these, and of results."""
    operations, results = _laid_out(expressions)
    slots: list[Any] = []
    given: list[tuple[int, str]] = []
    steps: list[tuple[int, Callable[..., Any], tuple[int, ...]]] = []
    varying: set[int] = set()
    # arguments come before what is made of them, so that one pass tells which vary
    for place, (operate, arguments) in enumerate(operations):
        slots.append(None)
        if isinstance(operate, str) and operate in known:
            slots[place] = known[operate]
        elif isinstance(operate, str):
            given.append((place, operate))
            varying.add(place)
        # numbers and parameters only, such as 2 pi / epsilon
        elif varying.isdisjoint(arguments):
            with np.errstate(all="ignore"):  # what is no number shows in the values
                slots[place] = operate(*[slots[i] for i in arguments])
        else:
            steps.append((place, operate, arguments))
            varying.add(place)
    return slots, given, steps, results


@lru_cache(maxsize=256)
def _laid_out(expressions: tuple[sympy.Expr, ...]) -> tuple[tuple[Operation, ...], tuple[int, ...]]:
    """Operations in an order in which each finds its arguments computed, and where the expressions' results are."""
    operations: list[Operation] = []
    places: dict[sympy.Expr, int] = {}

    def added(operate: str | Callable[..., Any], *arguments: int) -> int:
        operations.append((operate, arguments))
        return len(operations) - 1

    def place(expression: sympy.Expr) -> int:
        if expression not in places:
            places[expression] = laid_out(expression)
        return places[expression]

    # from the first operand to the last, as sympy orders them, so that results do not depend on the process
    def folded(operate: np.ufunc, operands: Iterable[int]) -> int:
        return reduce(lambda left, right: added(operate, left, right), operands)

    def laid_out(expression: sympy.Expr) -> int:
        if expression.is_Add or expression.is_Mul:
            return folded(np.add if expression.is_Add else np.multiply, [place(part) for part in expression.args])
        if expression.is_Pow and expression.exp == sympy.S.Half:
            return added(np.sqrt, place(expression.base))
        if expression.is_Pow and expression.exp.is_Integer and abs(expression.exp) <= LARGEST_PRODUCT:
            product = folded(np.multiply, [place(expression.base)] * abs(int(expression.exp)))
            return product if expression.exp > 0 else added(_one_over, product)
        return added(_operation(expression), *[place(part) for part in expression.args])

    results = tuple(place(expression) for expression in expressions)
    return tuple(operations), results


def _operation(expression: sympy.Expr) -> str | Callable[..., Any]:
    """Operation of the expression on the values of its operands."""
    if expression.is_Symbol:
        return str(expression.name)
    if not expression.args:  # a number or pi; sums and functions of numbers are computed in floating point
        number = _number(expression)
        return lambda: number
    if expression.is_Pow:
        return _power
    if expression.func not in _NUMPY:
        raise FormulaError(f"{expression.func.__name__} has no numerical value; use smoother functions")
    return _NUMPY[expression.func]


def _number(expression: sympy.Expr) -> float:
    if not (expression.is_number and expression.is_real):
        raise FormulaError(f"{expression} is not a real number")
    return float(expression)


def _power(base: Any, exponent: Any, out: Array | None = None) -> Any:
    # as floats: NumPy refuses whole numbers to negative whole powers
    return np.power(np.asarray(base, dtype=float), exponent, out=out)


_one_over = partial(np.divide, 1.0)
