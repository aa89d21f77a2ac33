"""Values of parameters: one canonical form each, a hash that is the same everywhere, labels that tell values apart."""

import hashlib
import math
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evogt_study.pde.numerics.quadrature import QuadratureRule
from evogt_study.schema.values import canonical, content_hash, jsonable, labels, text_label

GAUSS, MIDPOINT = QuadratureRule("gauss_legendre", 320), QuadratureRule("composite_midpoint", 4096)


def same(value, other):
    """Equal and of the same kind: True, 1 and 1.0 are three different parameter values."""
    return value == other and type(value) is type(other)


# --- canonical form ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (0.1 + 0.2, 0.3),
        (0.30000000000000004, 0.3),
        (1 / 3, 0.333333333333333),
        (1e-12, 1e-12),
        (5e-324, 5e-324),  # the least positive number has fewer digits than are kept, and stays
        (-2.5, -2.5),
        (60.0, 60.0),
        (60, 60),
        (0, 0),
        (2**62, 2**62),
        (True, True),
        (False, False),
        ("gtransnet", "gtransnet"),
        ("", ""),
        (GAUSS, GAUSS),
        ([240, 120], (240, 120)),
        ((0.1 + 0.2, [True, "a"]), (0.3, (True, "a"))),
        ([], ()),
        (np.int64(3), 3),
        (np.float64(0.1) + np.float64(0.2), 0.3),
    ],
)
def test_canonical_form(raw, expected):
    assert same(canonical(raw), expected)


def test_minus_zero_is_zero():
    assert math.copysign(1.0, canonical(-0.0)) == 1.0
    assert math.copysign(1.0, canonical([-0.0])[0]) == 1.0


def test_fifteen_digits_are_kept_and_no_more():
    assert canonical(1.00000000000001) != canonical(1.0)  # the 15th digit
    assert canonical(1.000000000000001) == canonical(1.0)  # the 16th


@pytest.mark.parametrize("raw", [math.nan, math.inf, -math.inf, [1.0, math.nan], [[-math.inf]], np.float64("nan")])
def test_numbers_that_are_not_finite_are_refused(raw):
    with pytest.raises(ValueError, match="finite"):
        canonical(raw)


@pytest.mark.parametrize("raw", [sys.float_info.max, -sys.float_info.max])
def test_rounding_to_fifteen_digits_makes_no_infinity(raw):
    """The largest floats round up beyond the range of floats: refuse them, or keep them finite."""
    try:
        value = canonical(raw)
    except ValueError:
        return
    assert math.isfinite(value)


@pytest.mark.parametrize(
    "raw", [None, 1j, b"bytes", {"rule": "gauss_legendre"}, {1, 2}, object(), [1, None], np.zeros(2)]
)
def test_what_no_parameter_can_be_is_a_value_error(raw):
    with pytest.raises(ValueError, match=r"a number|a finite number"):
        canonical(raw)


@pytest.mark.parametrize(("raw", "expected"), [(np.float32(0.5), 0.5), (np.float16(2.0), 2.0), (np.bool_(True), True)])
def test_numpy_scalars_of_any_size_are_numbers_and_truth_values(raw, expected):
    assert same(canonical(raw), expected)


def test_an_array_is_never_cut_to_a_whole_number():
    """An array answers to __index__ as an integer does; 3.7 must not become 3 on the way."""
    try:
        value = canonical(np.array(3.7))
    except ValueError:
        return
    assert value == 3.7


@settings(derandomize=True, deadline=None, max_examples=200)
@given(st.floats(min_value=-1e300, max_value=1e300))
def test_the_canonical_form_of_a_canonical_form_is_itself(x):
    once = canonical(x)
    assert same(canonical(once), once)
    assert once == pytest.approx(x, rel=1e-14, abs=5e-324)  # half a unit in the 15th digit is at most 5e-15


# --- JSON form and hash -----------------------------------------------------------------------------------------------


def test_json_form():
    content = {"rule": MIDPOINT, "hidden": (240, (1.5, "a")), 3: {"x": True}, "none": None}
    assert jsonable(content) == {
        "rule": {"rule": "composite_midpoint", "points": 4096},
        "hidden": [240, [1.5, "a"]],
        "3": {"x": True},
        "none": None,
    }


def test_a_known_content_has_a_known_hash():
    """Case keys are stored in result files, so they must not change from one version to the next."""
    content = {"values": {"tau": 1e-12, "N": 60, "on": True}, "method": "evolution", "rule": GAUSS, "list": (1, 2.5)}
    text = (
        '{"list":[1,2.5],"method":"evolution","rule":{"points":320,"rule":"gauss_legendre"},'
        '"values":{"N":60,"on":true,"tau":1e-12}}'
    )
    assert content_hash(content) == hashlib.sha256(text.encode()).hexdigest()[:20] == "ab66d0801a4edba061cd"


def test_the_hash_can_be_longer_and_starts_the_same():
    assert len(content_hash("study", 64)) == 64
    assert content_hash("study", 64).startswith(content_hash("study"))


def test_the_order_of_keys_does_not_matter_and_that_of_lists_does():
    assert content_hash({"a": 1, "b": {"c": 2, "d": 3}}) == content_hash({"b": {"d": 3, "c": 2}, "a": 1})
    assert content_hash({"a": (1, 2)}) != content_hash({"a": (2, 1)})


def test_different_contents_have_different_hashes():
    contents = [1, 1.0, True, "1", (1,), ((1,),), {"1": 1}, 0, 0.5, False, "", (), {}, None, GAUSS, MIDPOINT]
    assert len({content_hash(content) for content in contents}) == len(contents)


def test_a_number_that_is_not_finite_has_no_hash():
    with pytest.raises(ValueError, match="Out of range"):
        content_hash({"tau": math.nan})


# --- labels -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 2], [1, 2]),
        ([0.1, 0.2], [0.1, 0.2]),
        ([1, 0.5], [1.0, 0.5]),
        ([True, False], [True, False]),
        (["a", "b"], ["a", "b"]),
        ([GAUSS, QuadratureRule("gauss_legendre", 64)], [320, 64]),
        ([GAUSS, MIDPOINT], ["gauss_legendre(320)", "composite_midpoint(4096)"]),
        ([MIDPOINT], ["composite_midpoint(4096)"]),
        ([(240,), (240, 120)], ["240", "240,120"]),
        ([0.8, (0.5, 0.25)], ["0.8", "0.5,0.25"]),
        ([True, 2], ["true", "2"]),
        ([False, 0.5], ["false", "0.5"]),
        ([1, "a"], ["1", "a"]),
    ],
)
def test_labels(values, expected):
    found = labels(values)
    assert found == expected
    assert [type(label) for label in found] == [type(label) for label in expected]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.1, "0.1"),
        (1e-12, "1e-12"),
        (1 / 3, "0.333333333333333"),
        (2.0, "2"),
        (320, "320"),
        (-1, "-1"),
        (True, "true"),
        (False, "false"),
        ("gaussian_rf", "gaussian_rf"),
        ((1, (0.5, True)), "1,0.5,true"),
        (GAUSS, "gauss_legendre(320)"),
        (MIDPOINT, "composite_midpoint(4096)"),
    ],
)
def test_a_value_in_one_word(value, expected):
    assert text_label(value) == expected


@settings(derandomize=True, deadline=None, max_examples=200)
@given(st.lists(st.floats(min_value=1e-30, max_value=1e30), min_size=2, max_size=2))
def test_labels_of_numbers_differ_exactly_where_the_canonical_numbers_do(pair):
    first, second = map(canonical, pair)
    assert (text_label(first) == text_label(second)) == (first == second)
