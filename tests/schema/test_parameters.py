"""Declarations of parameters: what each reader admits, and the one line that tells what it does not."""

import math

import pytest

from evogt_study.errors import InputError, ParameterError
from evogt_study.pde.methods.declarations import read_quadrature_rule
from evogt_study.pde.numerics import QuadratureRule
from evogt_study.schema.parameters import Parameter, choice, integer, one_or_several, read_anything, real, several

UNIT = Parameter("tau", "in (0, 1)", real(0.0, 1.0), remedy="use e.g. 1e-12")


def declared(read):
    return Parameter("p", "as declared", read)


def same(value, other):
    return value == other and type(value) is type(other)


# --- what is read -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("read", "raw", "expected"),
    [
        (integer(0), 0, 0), (integer(1), 1, 1), (integer(1), 2**64 - 1, 2**64 - 1), (integer(-3), -3, -3),
        (real(), -1e300, -1e300), (real(), 3, 3.0), (real(0.0), 5e-324, 5e-324),
        (real(0.0, 1.0, high_included=True), 1.0, 1.0), (real(0.0, 1.0, high_included=True), 1, 1.0),
        (real(), 0.1 + 0.2, 0.1 + 0.2), (choice(("a", "b")), "b", "b"), (several(integer(1)), [240, 120], (240, 120)),
        (several(integer(1)), (240,), (240,)), (several(real()), [1, 0.5], (1.0, 0.5)),
        (one_or_several(real(0.0)), 4, 4.0), (one_or_several(real(0.0)), [4, 0.1 + 0.2], (4.0, 0.1 + 0.2)),
        (read_quadrature_rule, 320, QuadratureRule("gauss_legendre", 320)),
        (read_quadrature_rule, {"rule": "gauss_legendre", "points": 320}, QuadratureRule("gauss_legendre", 320)),
        (read_quadrature_rule, {"points": 7, "rule": "composite_midpoint"}, QuadratureRule("composite_midpoint", 7)),
        (read_quadrature_rule, QuadratureRule("gauss_legendre", 3), QuadratureRule("gauss_legendre", 3)),
        (read_anything, True, True), (read_anything, "word", "word"),
    ],
)  # fmt: skip
def test_admitted_values(read, raw, expected):
    value = declared(read).value(raw)
    assert same(value, expected)
    if isinstance(expected, tuple):
        assert [type(entry) for entry in value] == [type(entry) for entry in expected]


HUGE = 10**400  # an integer that TOML can hold and a float cannot

REFUSED = {
    "integer": (integer(1), [0, -1, 1.0, 60.0, True, "60", None, [60], math.nan, math.inf, 2**64, HUGE, {"count": 3}]),
    "real": (real(), [math.nan, math.inf, -math.inf, True, "1", None, [1.0], HUGE, {}]),
    "open interval": (real(0.0, 1.0), [0.0, -0.0, 1.0, 1, 0, -1e-300, 1.0000001, 1.0000000000000002]),
    "half-open interval": (real(0.0, 1.0, high_included=True), [0.0, 1.00000000000001, 2]),
    "choice": (choice(("a", "b")), ["c", "A", "", 1, True, None, ["a"], {"a": 1}]),
    "several": (several(integer(1)), [[], (), 240, "240", [240, 0], [[240]], [240, 1.5], {"0": 1}]),
    "one or several": (one_or_several(real(0.0)), [[], [0.0], 0.0, [1.0, math.nan], [[1.0]], "4", True]),
    "quadrature": (
        read_quadrature_rule,
        [
            0, -1, 1.0, True, "gauss_legendre", None, [320], 10**6, HUGE, {}, {"rule": "gauss_legendre"}, {"points": 3},
            {"rule": "simpson", "points": 3}, {"rule": "gauss_legendre", "points": 3, "weights": 1},
            {"rule": "gauss_legendre", "points": {"rule": "gauss_legendre", "points": 3}},
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("read", "raw"),
    [
        pytest.param(read, raw, id=f"{name}-{number}")
        for name, (read, raws) in REFUSED.items()
        for number, raw in enumerate(raws)
    ],
)
def test_refused_values(read, raw):
    with pytest.raises(ParameterError, match=r"^`p` must be as declared( and below 2\^64)?, got ") as caught:
        declared(read).value(raw, "s.toml, constants.p")
    assert "(s.toml, constants.p)" in str(caught.value)
    assert "\n" not in str(caught.value)


# --- what is said -----------------------------------------------------------------------------------------------------


def test_the_message_has_name_wanted_got_place_and_remedy():
    with pytest.raises(ParameterError) as caught:
        UNIT.value(2.0, "studies/x.toml, constants.tau")
    assert str(caught.value) == "`tau` must be in (0, 1), got 2.0 (studies/x.toml, constants.tau). Use e.g. 1e-12"
    assert isinstance(caught.value, InputError)
    assert isinstance(caught.value, ValueError)
    assert caught.value.__cause__ is None
