"""Formulas run through as lists of operations: once for all arguments, and again and again in the same memory."""

import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from evogt_study.errors import FormulaError
from evogt_study.formulas import evaluate_all, parse, prepared, repeated

SHAPE = (3, 7)
PARAMETERS = {"c": 1.75, "k": -0.5}


def combined(parts):
    return st.one_of(
        st.builds("({} {} {})".format, parts, st.sampled_from("+-*/"), parts),
        st.builds("{}({})".format, st.sampled_from(["sin", "exp", "tanh", "abs", "sqrt", "log"]), parts),
        st.builds("({})**{}".format, parts, st.sampled_from(["2", "3", "-1", "-3", "0.5", "1.5", "c", "u"])),
    )


leaves = st.sampled_from(["u", "c", "k", "2", "0.3", "pi"])
formulas = combined(st.one_of(leaves, combined(st.one_of(leaves, combined(leaves)))))


@pytest.mark.long
@given(st.lists(formulas, min_size=1, max_size=3), st.integers(0, 99))
@settings(derandomize=True, deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
def test_repeated_and_prepared_evaluation_have_the_bits_of_a_single_one(texts, seed):
    """For each of several arrays in turn: nothing of an earlier one is left in the memory."""
    arrays = np.random.default_rng(seed).normal(size=(3, *SHAPE))
    with np.errstate(all="ignore"):
        try:
            expressions = tuple(parse(text, "f") for text in texts)
            evaluate_all(expressions, {**PARAMETERS, "u": arrays[0]})
        except FormulaError:  # outside the grammar, or without numerical value
            assume(False)
        function = repeated(expressions, PARAMETERS, "u", SHAPE)
        at_once = prepared(expressions, PARAMETERS)
        for array in arrays:
            before = array.copy()
            once = evaluate_all(expressions, {**PARAMETERS, "u": array})
            for again in (function(array), at_once({"u": array})):
                for left, right in zip(once, again, strict=True):
                    assert np.shape(left) == np.shape(right)
                    assert np.asarray(left).tobytes() == np.asarray(right).tobytes()
            assert np.array_equal(array, before)


@pytest.mark.parametrize(
    "text", ["(u**2 - 1)**2/4", "c*u + k", "exp(-u**2)/(1 + u**4)**3", "sqrt(1 + u**2) - 3*sin(c*u)", "abs(u)**1.5"]
)
def test_repeated_evaluation_asks_for_no_memory(text):
    shape = (100_000,)
    function = repeated((parse(text, "f"),), PARAMETERS, "u", shape)
    array = np.linspace(-1.0, 1.0, *shape)
    function(array)
    assert most_bytes(lambda: function(array)) < array.nbytes / 10
    # it would be seen
    assert most_bytes(lambda: evaluate_all((parse(text, "f"),), {**PARAMETERS, "u": array})) >= array.nbytes


def most_bytes(work: Callable[[], object]) -> int:
    """Most memory that `work` asks for at once: the least of three looks, since other threads' is counted with it."""
    looks = []
    for _ in range(3):
        tracemalloc.start()
        try:
            work()
            looks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    return min(looks)


def test_few_arrays_serve_a_long_formula():
    text, shape = "u", (50_000,)
    for number in range(12):
        text = f"sin({text} + {number}*c)"
    tracemalloc.start()
    try:
        function = repeated((parse(text, "f"), parse("u**2 + c", "f")), PARAMETERS, "u", shape)
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    array = np.linspace(-1.0, 1.0, *shape)
    assert len(function(array)) == 2
    assert array.nbytes < taken < 5 * array.nbytes  # of some twenty operations


def test_what_does_not_depend_on_the_variable_is_computed_once():
    calls = []

    class Counted(float):
        def __array_ufunc__(self, ufunc, method, *inputs, **options):
            calls.append(ufunc.__name__)
            return getattr(ufunc, method)(*[float(each) if isinstance(each, Counted) else each for each in inputs])

    function = repeated((parse("u + sin(c)", "f"),), {"c": Counted(0.5)}, "u", (4,))
    for _ in range(3):
        assert np.array_equal(function(np.ones(4))[0], 1.0 + np.sin(np.full(4, 0.5)))
    assert calls == ["sin"]
