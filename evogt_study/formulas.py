"""Parse formulas as symbolic expressions without executing code, and evaluate the expressions on arrays.

A formula contains numbers, names, ``+ - * / **``, parentheses and the functions in `FUNCTIONS`.  Limits on length,
nesting and powers bound the time and memory of `parse`.
"""

import ast
import difflib
import math
import re
import warnings
from collections.abc import Callable, Mapping
from functools import lru_cache, partial, reduce
from operator import add, mul, sub, truediv
from typing import Any, NamedTuple

import numpy as np
import sympy

from evogt_study.errors import FormulaError, shorten

Operation = tuple[str | Callable[..., Any], tuple[int, ...]]
"""Name of a symbol, or a function with the indices of the operations that give its arguments."""
SPACE = ("x", "y", "z")
RESERVED = (*SPACE, "t", "pi")
FUNCTIONS: dict[str, tuple[Callable[[Any], sympy.Expr], Callable[[float], float]]] = {
    "sin": (sympy.sin, math.sin), "cos": (sympy.cos, math.cos), "tan": (sympy.tan, math.tan),
    "asin": (sympy.asin, math.asin), "acos": (sympy.acos, math.acos), "atan": (sympy.atan, math.atan),
    "sinh": (sympy.sinh, math.sinh), "cosh": (sympy.cosh, math.cosh), "tanh": (sympy.tanh, math.tanh),
    "exp": (sympy.exp, math.exp), "log": (sympy.log, math.log), "sqrt": (sympy.sqrt, math.sqrt),
    "abs": (sympy.Abs, abs),
}  # fmt: skip
_NUMPY: dict[Any, Callable[..., Any]] = {
    sympy.sin: np.sin, sympy.cos: np.cos, sympy.tan: np.tan, sympy.asin: np.arcsin, sympy.acos: np.arccos,
    sympy.atan: np.arctan, sympy.sinh: np.sinh, sympy.cosh: np.cosh, sympy.tanh: np.tanh, sympy.exp: np.exp,
    sympy.log: np.log, sympy.Abs: np.abs, sympy.sign: np.sign,
}  # fmt: skip
_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: add, ast.Sub: sub, ast.Mult: mul, ast.Div: truediv, ast.Pow: pow,
}  # fmt: skip
_CHARACTERS = frozenset("".join(map(chr, range(32, 127)))) - {"#", "\\"}  # Python would skip comments and line joins
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")
MAX_CHARACTERS = 4000
"""Maximum number of characters of a formula, which bounds the time to parse the formula."""
MAX_TERMS = 100
"""Maximum depth of the syntax tree, where each term of a sum adds a level.  Python limits nested calls to 1,000."""
MAX_DEPTH = 32
"""Maximum number of nested calls, powers and sums.  The second derivative of 32 levels takes up to 1 s."""
MAX_EXPONENT = 64
"""Maximum exponent of a formula.  Derivatives of (...)**64 are still short."""
_MAX_DEGREE = 256
"""Maximum degree of a product.  Without this limit, the derivative of (x**64)**64 has thousands of factors."""
MAX_DIGITS = 300
"""Maximum number of digits of an exact number, which is the range of a double."""
_MAX_CONSTANT = 1e100
"""Maximum absolute value of a constant.  Its square does not overflow.  Exact arithmetic on 9**9**9 would not end."""
MAX_PRODUCT_EXPONENT = 8
"""Maximum exponent of a power that is computed as a product, because products of small integers are exact.  For
8,000 values, the product takes 0.8 times as long as np.power at exponent 8, and 1.3 times at exponent 12."""


def symbol(name: str) -> sympy.Symbol:
    """Return the real SymPy symbol for a name in a formula."""
    # for a real symbol, the derivative of abs(x) is sign(x)
    return sympy.Symbol(name, real=True)


def parse(text: str, key: str = "formula") -> sympy.Expr:
    """Return the symbolic expression of a formula.  Messages name the formula by its `key`.

    >>> parse("exp(-t)*sin(2*pi*x/epsilon)")
    exp(-t)*sin(2*pi*x/epsilon)

    Raises FormulaError for a text that is not in the grammar.
    """
    if not isinstance(text, str):
        raise FormulaError(f'`{key}` must be a formula, got {shorten(text)}. Write "{shorten(text)}" as a string')
    text = text.strip()
    return _Translation(text, key).translate(_read_syntax_tree(text, key)).expression


def find_parameters(expression: sympy.Expr) -> set[str]:
    """Return the names of all symbols in an expression except x, y, z, t and pi."""
    return {str(name) for name in expression.free_symbols} - set(RESERVED)


def _read_syntax_tree(text: str, key: str) -> ast.expr:
    """Return the Python syntax tree of a formula.  Raises FormulaError if the formula exceeds a limit."""
    if len(text) > MAX_CHARACTERS:
        raise FormulaError(f"`{key}` must have at most {MAX_CHARACTERS} characters, got {len(text)}")
    outside = [character for character in text if character not in _CHARACTERS]
    if outside:
        raise _Translation(text, key).refuse(f"the character {outside[0]!r}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # for "1x" and similar texts, Python only warns
            tree = ast.parse(text, mode="eval")
    # the parser raises MemoryError if nesting overflows its stack
    except (SyntaxError, ValueError, RecursionError, MemoryError, Warning) as error:
        reason = error.msg if isinstance(error, SyntaxError) else str(error)
        raise FormulaError(f"`{key}` must be a formula, got {shorten(text)}: {reason}") from None
    waiting: list[tuple[ast.AST, int, int]] = [(tree.body, 0, 0)]
    while waiting:
        node, level, depth = waiting.pop()
        if level > MAX_TERMS or depth > MAX_DEPTH:
            raise _Translation(text, key).refuse(f"more than {MAX_DEPTH} levels of nesting or {MAX_TERMS} terms")
        children = [each for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr)]
        # a chain such as a + b + c adds one level
        waiting += [(each, level + 1, depth + (_find_chain(node) != _find_chain(each))) for each in children]
    return tree.body


def _find_chain(node: ast.AST) -> object:
    """Return "sum" or "product" for an arithmetic operator, or the node itself for any other node."""
    kind = type(node.op) if isinstance(node, ast.BinOp) else None
    return "sum" if kind in (ast.Add, ast.Sub) else "product" if kind in (ast.Mult, ast.Div) else node


class _Part(NamedTuple):
    """Translated part of a formula.  A constant part has a `value`.  `degree` is the number of factors."""

    expression: sympy.Expr
    value: float | None
    degree: int = 1


class _Translation:
    """Translation of a syntax tree into a symbolic expression, without constants above `_MAX_CONSTANT`."""

    def __init__(self, text: str, key: str) -> None:
        self.text, self.key = text, key

    def refuse(self, what: str) -> FormulaError:
        return FormulaError(
            f"`{self.key}` must be made of numbers, names, + - * / **, parentheses and functions "
            f"({' '.join(FUNCTIONS)}), got {what} in {shorten(self.text)}"
        )

    def translate(self, node: ast.expr) -> _Part:
        if isinstance(node, ast.Constant):
            return self.read_number(node)
        if isinstance(node, ast.Name):
            if not _NAME.match(node.id):
                raise self.refuse(f"the name {node.id!r}")
            if node.id in FUNCTIONS:
                raise self.refuse(f"{node.id!r} without an argument")
            return _Part(sympy.pi, math.pi) if node.id == "pi" else _Part(symbol(node.id), None)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.UAdd, ast.USub)):
            operand = self.translate(node.operand)
            if isinstance(node.op, ast.UAdd):
                return operand
            return _Part(-operand.expression, None if operand.value is None else -operand.value, operand.degree)
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return self.combine(_OPERATORS[type(node.op)], self.translate(node.left), self.translate(node.right))
        if isinstance(node, ast.Call):
            return self.translate_call(node)
        raise self.refuse(_describe_node(node))

    def read_number(self, node: ast.Constant) -> _Part:
        value = node.value
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.refuse(shorten(value))
        written = ast.get_source_segment(self.text, node) or ""
        if not re.fullmatch(r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", written):
            raise self.refuse(f"the number {shorten(written)}")
        if value == 0 and not re.search("[1-9]", re.split("[eE]", written)[0]):
            return _Part(sympy.S.Zero, 0.0)
        if not 1.0 / _MAX_CONSTANT < value < _MAX_CONSTANT:
            raise self.refuse(f"the number {shorten(written)}, outside {1 / _MAX_CONSTANT:g} to {_MAX_CONSTANT:g},")
        return _Part(sympy.Rational(written), float(value))  # with exact numbers, such as 9/20 for 0.45, terms cancel

    def combine(self, operator: Callable[[Any, Any], Any], left: _Part, right: _Part) -> _Part:
        degree = max(left.degree, right.degree) if operator in (add, sub) else left.degree + right.degree
        if operator is pow and right.value is not None:
            if not abs(right.value) <= MAX_EXPONENT:
                raise self.refuse(f"an exponent outside -{MAX_EXPONENT} to {MAX_EXPONENT}")
            if left.value == 0 and right.value < 0:
                raise self.refuse("a division by zero")
            degree = left.degree * max(1, math.ceil(abs(right.value)))
        if degree > _MAX_DEGREE:
            raise self.refuse(f"powers and products of degree above {_MAX_DEGREE}")
        if left.value is not None and right.value is not None:
            value = self.compute_constant(operator, left.value, right.value)
            exact = left.expression
            # number of digits of the numerator or the denominator
            digits = max(len(str(abs(exact.p))), len(str(exact.q))) if exact.is_Rational else 1
            if operator is pow and digits * abs(right.value) > MAX_DIGITS:
                return _Part(sympy.Float(value), value)
            return _Part(operator(left.expression, right.expression), value, degree)
        if operator is truediv and right.value == 0:
            raise self.refuse("a division by zero")
        if operator is pow and left.value is not None:
            if left.value <= 0:
                raise self.refuse("a number that is not positive, to a power that is not a number,")
            # exp(exponent * log(base)), because exact powers could grow without bound
            return self.make_part(sympy.exp(right.expression * sympy.Float(math.log(left.value))), degree)
        return self.make_part(operator(left.expression, right.expression), degree)

    def make_part(self, expression: sympy.Expr, degree: int) -> _Part:
        """Return a part of a formula, which is constant if all names cancel, as in x - x."""
        if expression.free_symbols:
            return _Part(expression, None, degree)
        return _Part(expression, self.compute_constant(float, expression), degree)

    def translate_call(self, node: ast.Call) -> _Part:
        if not isinstance(node.func, ast.Name):
            raise self.refuse(f"a call of {_describe_node(node.func)}")
        name = node.func.id
        if name not in FUNCTIONS:
            near = difflib.get_close_matches(name, FUNCTIONS, 1)
            raise self.refuse(f"the function {name!r}" + (f" (did you mean {near[0]!r}?)" if near else ""))
        if node.keywords or len(node.args) != 1:
            raise self.refuse(f"{name!r} with {len(node.args) + len(node.keywords)} arguments")
        argument = self.translate(node.args[0])
        symbolic, numerical = FUNCTIONS[name]
        if argument.value is None:
            return self.make_part(symbolic(argument.expression), 1)
        value = self.compute_constant(numerical, argument.value)  # before SymPy, which would expand exp(1e9*log(7))
        # SymPy would restore the power from the logarithm of an exact number
        return _Part(sympy.Float(value) if name == "log" else symbolic(argument.expression), value)

    def compute_constant(self, function: Callable[..., Any], *arguments: Any) -> float:
        try:
            value = function(*arguments)
        except (ArithmeticError, ValueError, TypeError):
            value = math.nan
        if isinstance(value, complex) or not abs(value) < _MAX_CONSTANT:
            raise self.refuse("a constant that is not a real number of ordinary size")
        return float(value)


def _describe_node(node: ast.AST) -> str:
    """Return the description of a syntax node for messages."""
    return {
        "Attribute": "a dot", "Subscript": "an index", "Lambda": "a lambda", "Compare": "a comparison",
        "BoolOp": "and/or", "IfExp": "if/else", "NamedExpr": "an assignment", "JoinedStr": "a string",
        "BinOp": "an operator other than + - * / **", "UnaryOp": "an operator other than + -",
        "List": "a list", "Tuple": "a comma", "Dict": "braces", "Set": "braces",
    }.get(type(node).__name__, type(node).__name__)  # fmt: skip


def evaluate_formula(expression: sympy.Expr, values: Mapping[str, Any]) -> Any:
    """Evaluate an expression for numbers or arrays.  An operation that NumPy lacks raises FormulaError."""
    return compile_formulas((expression,), {})(values)[0]


def compile_formulas(
    expressions: tuple[sympy.Expr, ...], parameters: Mapping[str, float]
) -> Callable[[Mapping[str, Any]], list[Any]]:
    """Return a function that evaluates the expressions for the values of all symbols except `parameters`."""
    return _compile_operations(expressions, tuple(parameters), *parameters.values())


@lru_cache(maxsize=256, typed=True)  # formulas distinguish 1 and 1.0
def _compile_operations(
    expressions: tuple[sympy.Expr, ...], names: tuple[str, ...], *numbers: float
) -> Callable[[Mapping[str, Any]], list[Any]]:
    operations, results = _list_operations(expressions)
    parameters = dict(zip(names, numbers, strict=True))
    known: list[Any] = [None] * len(operations)
    given: list[tuple[int, str]] = []
    steps: list[tuple[int, Callable[..., Any], int, tuple[int, ...]]] = []
    varying: set[int] = set()
    # each operation follows its arguments, so one pass finds all operations that vary
    for place, (operate, arguments) in enumerate(operations):
        if isinstance(operate, str) and operate in parameters:
            known[place] = parameters[operate]
        elif isinstance(operate, str):
            given.append((place, operate))
            varying.add(place)
        # constant, such as 2 pi / epsilon
        elif varying.isdisjoint(arguments):
            with np.errstate(all="ignore"):  # undefined values become NaN
                known[place] = operate(*[known[i] for i in arguments])
        else:
            # for short formulas, separate arguments take a third less time than a list
            steps.append((place, operate, arguments[0], arguments[1:]))
            varying.add(place)

    def evaluate(values: Mapping[str, Any]) -> list[Any]:
        # copy, because `known` holds the constants of all calls
        slots = known.copy()
        for place, name in given:
            slots[place] = values[name]
        for place, operate, one, rest in steps:
            slots[place] = operate(slots[one], slots[rest[0]]) if rest else operate(slots[one])
        return [slots[i] for i in results]

    return evaluate


@lru_cache(maxsize=256)
def _list_operations(expressions: tuple[sympy.Expr, ...]) -> tuple[tuple[Operation, ...], tuple[int, ...]]:
    """Return the operations in order of evaluation, and the index of the result of each expression."""
    operations: list[Operation] = []
    places: dict[sympy.Expr, int] = {}

    def add_operation(operate: str | Callable[..., Any], *arguments: int) -> int:
        operations.append((operate, arguments))
        return len(operations) - 1

    def find_place(expression: sympy.Expr) -> int:
        if expression in places:
            return places[expression]
        power = expression.exp if expression.is_Pow else sympy.S.Zero
        is_product = power.is_Integer and 0 < abs(power) <= MAX_PRODUCT_EXPONENT
        if expression.is_Add or expression.is_Mul or is_product:
            # in the order of SymPy, so that results do not depend on the process
            operands = [expression.base] * abs(int(power)) if is_product else expression.args
            operate = np.add if expression.is_Add else np.multiply
            number = reduce(lambda left, right: add_operation(operate, left, right), map(find_place, operands))
            number = add_operation(_invert, number) if power < 0 else number
        elif power == sympy.S.Half:
            number = add_operation(np.sqrt, find_place(expression.base))
        else:
            number = add_operation(_find_operation(expression), *map(find_place, expression.args))
        places[expression] = number
        return number

    results = tuple(find_place(expression) for expression in expressions)
    return tuple(operations), results


def _find_operation(expression: sympy.Expr) -> str | Callable[..., Any]:
    """Return the name of a symbol, or the function that computes an expression from its operands."""
    if expression.is_Symbol:
        return str(expression.name)
    if not expression.args:  # a number or pi
        if not (expression.is_number and expression.is_real):
            raise FormulaError(f"{expression} is not a real number")
        number = float(expression)
        return lambda: number
    if expression.is_Pow:
        # floats, because NumPy has no negative powers of integers
        return lambda base, exponent: np.power(np.asarray(base, dtype=float), exponent)
    if expression.func not in _NUMPY:
        raise FormulaError(f"{expression.func.__name__} has no numerical value. Use smoother functions.")
    return _NUMPY[expression.func]


_invert = partial(np.divide, 1.0)
