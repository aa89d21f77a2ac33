"""The grammar of formulas: what it admits has the value that Python gives it; all else is refused, and quickly."""

import math
import re
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import numpy as np
import pytest
import sympy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evogt_study.errors import FormulaError
from evogt_study.formulas import (
    FUNCTIONS,
    MAX_CHARACTERS,
    MAX_DEPTH,
    MAX_EXPONENT,
    MAX_TERMS,
    compile_formulas,
    evaluate_formula,
    parse,
)

TEXTS = tomllib.loads(Path(__file__).with_name("formulas.toml").read_text(encoding="utf-8"))
EPS = 2.0**-52
VALUES = {"x": 0.37, "y": 0.81, "z": 0.12, "t": 0.6, "k": 2.5, "epsilon": 0.1, "long_name2": 1.25, "E": 0.7, "I": 1.9}

searching = settings(derandomize=True, deadline=None, max_examples=400, suppress_health_check=[HealthCheck.too_slow])


def by_python(text):
    """The same text in Python's own floating-point arithmetic."""
    functions = {name: numerical for name, (_, numerical) in FUNCTIONS.items()}
    return eval(text, {"__builtins__": {}}, {**functions, **VALUES, "pi": math.pi})


def by_package(text):
    return float(evaluate_formula(parse(text), VALUES))


def refused(text, key="the_key"):
    """The message of a formula that must be refused, by name of its key and within a second."""
    start = time.process_time()
    with pytest.raises(FormulaError) as caught:
        parse(text, key)
    assert time.process_time() - start < 1.0
    assert f"`{key}`" in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("text", TEXTS["valid"])
def test_an_admitted_formula_has_the_value_that_python_gives_it(text):
    # decimals are exact in the package, and constants are folded: the two round differently in the last bits
    assert by_package(text) == pytest.approx(by_python(text), rel=32 * EPS, abs=4 * EPS)


def test_the_functions_are_those_that_are_documented():
    assert " ".join(FUNCTIONS) == "sin cos tan asin acos atan sinh cosh tanh exp log sqrt abs"


def test_decimals_are_exact_so_that_terms_cancel():
    assert parse("0.1 + 0.2 - 0.3") == 0
    assert parse("0.45") == sympy.Rational(9, 20)
    assert parse("1e-3*x - x/1000") == 0


def test_sizes_are_admitted_up_to_their_bounds():
    assert parse("x" + "+x" * MAX_TERMS) == parse(f"{MAX_TERMS + 1}*x")
    assert parse("1" + " " * (MAX_CHARACTERS - 3) + "+x") == parse("1 + x")
    assert parse(f"x**{MAX_EXPONENT}").exp == MAX_EXPONENT
    assert parse("(x**64)**4") == parse("x") ** 256
    assert parse("sin(" * MAX_DEPTH + "x" + ")" * MAX_DEPTH).has(sympy.Symbol("x", real=True))


@pytest.mark.parametrize("text", [*TEXTS["refused"], "\ud800", "x\udfff"])
def test_everything_else_is_refused_by_the_name_of_its_key(text):
    refused(text)


@pytest.mark.parametrize(
    "text",
    [
        "x" + "+x" * (MAX_TERMS + 1), "x" + "/(2+x" * 17 + ")" * 17, "sin(" * 90 + "x" + ")" * 90,
        "(" * 150 + "x" + ")" * 150 + "+" * 300 + "y", "(" * 1900 + "x" + ")" * 1900,
        "sin(" * (MAX_DEPTH + 1) + "x" + ")" * (MAX_DEPTH + 1), "-" * 3000 + "x", "x**" * 1000 + "x", "2**" * 500 + "2",
        "x" + " " * MAX_CHARACTERS + "+ 1", "x" * (MAX_CHARACTERS + 1), "1" * 3000, "0." + "1" * 3000 + "e500",
        "x+" * 1999 + "x", "(" * MAX_CHARACTERS, "[" * 3000 + "]" * 900, "f" * 10_000_000,
    ], ids=lambda text: f"{text[:8]}...{len(text)}",
)  # fmt: skip
def test_long_and_deep_input_is_refused(text):
    def seconds():
        start = time.process_time()
        assert len(refused(text)) < 400  # a message is one line, whatever the formula's length
        return time.process_time() - start

    assert min(seconds() for _ in range(3)) < 0.1  # nothing was built


# Formulas whose exact value has billions of digits.  They must not be tried in this process: if one gets through, sympy
# computes it in C for minutes, and no exception or signal stops it.
EXPENSIVE = [
    "9**(9**9 + x - x)", "9**(9**9*x/x)", "exp(1e9*log(7) + x - x)", "(9**(9**9*x))**(1/x)",
    "exp(1e9*log(7)*x)*exp(1e9*log(7) - 1e9*log(7)*x)", "1e-99999999", "0e99999999",
    "((((1e-99**64)**64)**64)**64)**64",
    "((((1.000000001**64)**64)**64)**64)**64",
]  # fmt: skip

PROGRAM = """
import multiprocessing, sys
from evogt_study.errors import FormulaError
from evogt_study.formulas import parse

def attempt(text):
    try:
        parse(text)
    except FormulaError:
        pass

for text in sys.argv[1:]:
    process = multiprocessing.get_context("fork").Process(target=attempt, args=(text,))
    process.start()
    process.join(2.0)
    print("quick" if process.exitcode == 0 else "still busy after 2 s" if process.is_alive() else "failed", flush=True)
    process.kill()
"""


@pytest.fixture(scope="module")
def endings():
    """How reading each of the expensive formulas ends, in processes that can be stopped."""
    done = subprocess.run([sys.executable, "-c", PROGRAM, *EXPENSIVE], capture_output=True, text=True, check=True)
    return dict(zip(EXPENSIVE, done.stdout.splitlines(), strict=True))


@pytest.mark.parametrize("text", EXPENSIVE)
def test_a_formula_cannot_occupy_the_machine(text, endings):
    assert endings[text] == "quick"


def test_a_long_formula_is_refused_by_its_size():
    assert "more than 32 levels of nesting or 100 terms" in refused("x" + "+x" * 101, "diffusion")
    assert "must have at most 4000 characters, got 4001" in refused("x" * 4001, "diffusion")


WORDS = """
x y t k pi sin cos exp log sqrt abs ( ) + - * / ** , . 1 2 9 0.5 1e9 1e-99 [ ] { } : = := == < if else lambda for in and
not None True 1j _ __ ' " # ; % @ & | ~ ^ \\ f' 0x ... import await yield é х
"""
TOKENS = [*WORDS.split(), " ", "\n", "\t", "\0"]
random_text = st.one_of(
    st.text(max_size=40),
    st.text(alphabet="xyt0123456789.+-*/()e_ ", max_size=30),
    st.lists(st.sampled_from(TOKENS), max_size=25).map("".join),
    st.lists(st.sampled_from(TOKENS), max_size=25).map(" ".join),
)


def outcome(text):
    """The expression and the message of a refusal: one of them is None."""
    try:
        return parse(text, "the_key"), None
    except FormulaError as error:
        return None, str(error)


@pytest.mark.long
@searching
@given(random_text)
def test_random_text_is_either_a_formula_or_refused(text):
    expression, message = outcome(text)
    if message is not None:
        assert "`the_key`" in message
        return
    assert isinstance(expression, sympy.Expr)
    assert all(re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", symbol.name) for symbol in expression.free_symbols)


@pytest.mark.parametrize("texts", [("u + sin(c)",), ("(u**2 - 1)**2/4", "u**c - exp(k*u)"), ("c", "abs(u)**-3")])
def test_prepared_evaluation_has_the_bits_of_a_single_one(texts):
    expressions, parameters = tuple(parse(text, "f") for text in texts), {"c": 1.75, "k": -0.5}
    function = compile_formulas(expressions, parameters)
    for array in np.random.default_rng(0).uniform(0.1, 2.0, (3, 3, 7)):
        once = compile_formulas(expressions, {})({**parameters, "u": array})
        for left, right in zip(once, function({"u": array}), strict=True):
            assert np.asarray(left).tobytes() == np.asarray(right).tobytes()
