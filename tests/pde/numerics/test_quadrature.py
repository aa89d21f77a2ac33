"""Quadrature rules: what they integrate exactly, how fast they converge, and their tensor products."""

import contextlib
import itertools
import math

import numpy as np
import pytest
from numpy.polynomial.legendre import legval

from evogt_study.errors import ParameterError
from evogt_study.pde.domains import UnitCube
from evogt_study.pde.numerics.quadrature import RULES, QuadratureRule

EPS = np.finfo(float).eps


def legendre(degree, x):
    """The Legendre polynomial of (0, 1), P_k(2x - 1): integral 0 for k >= 1, size at most 1."""
    return legval(2.0 * x - 1.0, [0.0] * degree + [1.0])


def on_interval(rule, points):
    quadrature = UnitCube(1).quadrature(QuadratureRule(rule, points))
    return quadrature, quadrature.nodes[:, 0]


@pytest.mark.parametrize("points", [1, 2, 3, 4, 5, 8, 13, 20, 40, 80])
@pytest.mark.parametrize("rule", RULES)
def test_every_degree_up_to_exact_to_is_exact(rule, points):
    quadrature, x = on_interval(rule, points)
    degrees = range(QuadratureRule(rule, points).exact_to + 1)
    integrals = [float(quadrature.integrate(legendre(degree, x))) for degree in degrees]
    # nodes are rounded, and P_k is as steep as k(k + 1) at the ends; measured: up to 16 eps, at n = 40
    assert integrals == pytest.approx([1.0] + [0.0] * (len(integrals) - 1), abs=64 * EPS)


@pytest.mark.parametrize("points", [1, 2, 3, 4, 5, 8, 13, 20, 40, 80, 320])
def test_gauss_legendre_claims_degree_2n_minus_1_and_misses_degree_2n(points):
    quadrature, x = on_interval("gauss_legendre", points)
    assert QuadratureRule("gauss_legendre", points).exact_to == 2 * points - 1
    # P_n vanishes at every node, so the rule gives 0 for its square, whose integral is 1/(2n + 1)
    assert 0.0 <= float(quadrature.integrate(legendre(points, x) ** 2)) < 1e-26


@pytest.mark.parametrize("points", range(1, 7))
def test_gauss_legendre_error_of_the_first_missed_monomial(points):
    quadrature, x = on_interval("gauss_legendre", points)
    missed = 1.0 / (2 * points + 1) - float(quadrature.integrate(x ** (2 * points)))
    known = math.factorial(points) ** 4 / ((2 * points + 1) * math.factorial(2 * points) ** 2)
    assert missed == pytest.approx(known, abs=4 * EPS)  # at n = 6 the known error is 9e-8


@pytest.mark.parametrize("points", [1, 2, 3, 10, 100])
def test_composite_midpoint_claims_degree_1_and_misses_degree_2_by_the_known_amount(points):
    quadrature, x = on_interval("composite_midpoint", points)
    assert QuadratureRule("composite_midpoint", points).exact_to == 1
    assert 1 / 3 - float(quadrature.integrate(x**2)) == pytest.approx(1 / (12 * points**2), abs=4 * EPS)


def test_composite_midpoint_has_order_two_and_its_constant():
    counts = np.array([16, 32, 64, 128, 256])
    errors = []
    for points in counts:
        quadrature, x = on_interval("composite_midpoint", int(points))
        errors.append(math.e - 1.0 - float(quadrature.integrate(np.exp(x))))
    assert np.log2(np.divide(errors[:-1], errors[1:])) == pytest.approx([2.0] * 4, abs=2e-4)
    assert errors[-1] * 24 * 256**2 == pytest.approx(math.e - 1.0, rel=1e-5, abs=0.0)  # h^2/24 (f'(1) - f'(0))


@pytest.mark.parametrize("points", [1, 2, 7, 4096])
def test_composite_midpoint_nodes_are_the_cell_centres(points):
    quadrature, x = on_interval("composite_midpoint", points)
    assert np.array_equal(x, [(i + 0.5) / points for i in range(points)])
    assert np.array_equal(quadrature.weights, [1.0 / points] * points)


@pytest.mark.parametrize("dimension", [1, 2, 3])
@pytest.mark.parametrize("points", [1, 2, 9, 20])
@pytest.mark.parametrize("rule", RULES)
def test_weights_are_positive_and_sum_to_one_and_nodes_are_inside(rule, points, dimension):
    quadrature = UnitCube(dimension).quadrature(QuadratureRule(rule, points))
    assert quadrature.nodes.shape == (points**dimension, dimension)
    assert quadrature.weights.shape == (points**dimension,)
    assert quadrature.dimension == dimension
    assert (quadrature.weights > 0.0).all()
    assert ((quadrature.nodes > 0.0) & (quadrature.nodes < 1.0)).all()
    assert math.fsum(quadrature.weights) == pytest.approx(1.0, abs=8 * EPS)


@pytest.mark.parametrize("points", [320, 512])
def test_the_largest_rules_of_the_paper_are_positive_and_symmetric(points):
    quadrature, x = on_interval("gauss_legendre", points)
    assert (quadrature.weights > 0.0).all()
    assert (np.diff(x) > 0.0).all()
    assert x + x[::-1] == pytest.approx(np.ones(points), abs=2 * EPS)
    assert math.fsum(quadrature.weights) == pytest.approx(1.0, abs=8 * EPS)


@pytest.mark.parametrize(("dimension", "points"), [(2, 1), (2, 2), (2, 3), (2, 5), (3, 1), (3, 2), (3, 3)])
@pytest.mark.parametrize("rule", RULES)
def test_tensor_products_integrate_every_product_of_exact_degrees(rule, points, dimension):
    quadrature = UnitCube(dimension).quadrature(QuadratureRule(rule, points))
    degrees = range(QuadratureRule(rule, points).exact_to + 1)
    for powers in itertools.product(degrees, repeat=dimension):
        product = np.prod(quadrature.nodes ** np.array(powers), axis=1)
        exact = math.prod(1.0 / (power + 1) for power in powers)
        assert float(quadrature.integrate(product)) == pytest.approx(exact, abs=16 * EPS), powers


@pytest.mark.parametrize(("dimension", "axis"), [(2, 0), (2, 1), (3, 0), (3, 1), (3, 2)])
def test_a_tensor_product_misses_degree_2n_in_every_direction(dimension, axis):
    quadrature = UnitCube(dimension).quadrature(QuadratureRule("gauss_legendre", 3))
    square = legendre(3, quadrature.nodes[:, axis]) ** 2
    assert 0.0 <= float(quadrature.integrate(square)) < 1e-26  # the integral is 1/7


@pytest.mark.parametrize("dimension", [2, 3])
@pytest.mark.parametrize("rule", RULES)
def test_a_tensor_product_is_every_combination_of_the_rule_of_one_direction(rule, dimension):
    line, x = on_interval(rule, 4)
    cube = UnitCube(dimension).quadrature(QuadratureRule(rule, 4))
    wanted = {
        tuple(x[i] for i in index): math.prod(line.weights[i] for i in index)
        for index in itertools.product(range(4), repeat=dimension)
    }
    found = {tuple(node): weight for node, weight in zip(cube.nodes, cube.weights, strict=True)}
    assert found.keys() == wanted.keys()
    assert [found[node] for node in wanted] == pytest.approx(list(wanted.values()), rel=2 * EPS, abs=0.0)


def test_integrate_reduces_the_last_axis_only():
    quadrature, x = on_interval("gauss_legendre", 4)
    values = np.stack([x**k for k in range(6)]).reshape(2, 3, 4)
    wanted = np.reshape([1 / (k + 1) for k in range(6)], (2, 3))
    assert quadrature.integrate(values) == pytest.approx(wanted, abs=4 * EPS)


@pytest.mark.parametrize("dimension", [1, 2])
@pytest.mark.parametrize("rule", RULES)
def test_a_caller_who_writes_into_a_rule_does_not_change_the_next_one(rule, dimension):
    first = UnitCube(dimension).quadrature(QuadratureRule(rule, 6))
    for array in (first.nodes, first.weights):
        before = array.copy()
        with contextlib.suppress(ValueError):  # read-only arrays would be as good
            array[:] = -1.0
        second = UnitCube(dimension).quadrature(QuadratureRule(rule, 6))
        found = (second.nodes if array is first.nodes else second.weights).copy()
        with contextlib.suppress(ValueError):  # undone, so that a failure here does not spread to other tests
            array[:] = before
        assert np.array_equal(found, before)


def test_a_rule_is_identified_by_its_name_and_points():
    assert QuadratureRule("gauss_legendre", 8) == QuadratureRule("gauss_legendre", 8)
    assert hash(QuadratureRule("gauss_legendre", 8)) == hash(QuadratureRule("gauss_legendre", 8))
    others = [QuadratureRule("gauss_legendre", 9), QuadratureRule("composite_midpoint", 8)]
    assert QuadratureRule("gauss_legendre", 8) not in others


@pytest.mark.parametrize(
    ("rule", "points", "message"),
    [
        ("simpson", 8, "`rule` must be one of gauss_legendre, composite_midpoint, got 'simpson'"),
        ("", 8, "`rule` must be one of gauss_legendre, composite_midpoint, got ''"),
        ("gauss_legendre", 0, "`points` must be an integer >= 1, got 0"),
        ("composite_midpoint", -3, "`points` must be an integer >= 1, got -3"),
        ("gauss_legendre", 2.5, "`points` must be an integer >= 1, got 2.5"),
        ("gauss_legendre", 2049, "`points` must be at most 2048 for gauss_legendre, got 2049"),
        ("gauss_legendre", 10**9, "`points` must be at most 2048 for gauss_legendre, got 1000000000"),
    ],
)
def test_what_is_not_a_rule_is_refused_with_the_value(rule, points, message):
    with pytest.raises(ParameterError) as caught:
        QuadratureRule(rule, points)
    assert str(caught.value) == message


@pytest.mark.parametrize(("points", "dimension"), [(10**7 + 1, 1), (3163, 2), (216, 3), (10**9, 1), (10**6, 3)])
def test_a_rule_with_too_many_nodes_is_refused_before_it_is_built(points, dimension):
    with pytest.raises(ParameterError, match="`points` must be so few that the rule has at most 10,000,000 nodes"):
        UnitCube(dimension).quadrature(QuadratureRule("composite_midpoint", points))


@pytest.mark.parametrize("rule", RULES)
def test_another_rule_has_one_point_more_or_as_many_as_it_may(rule):
    def another(points, dimension):
        return QuadratureRule(rule, points).another(dimension)

    assert another(1, 1) == QuadratureRule("gauss_legendre", 2)
    assert another(20, 3) == QuadratureRule("gauss_legendre", 21)
    assert another(2048, 1) == QuadratureRule("gauss_legendre", 2047)
    assert another(215, 3) == QuadratureRule("gauss_legendre", 214)  # 216^3 are more than ten million nodes
    assert QuadratureRule("composite_midpoint", 5000).another(1) == QuadratureRule("gauss_legendre", 2047)


def test_another_rules_nodes_lie_between():
    own = QuadratureRule("gauss_legendre", 40)
    x, y = own.on_unit_interval[0], own.another(1).on_unit_interval[0]
    assert (y[:-1] < x).all()
    assert (x < y[1:]).all()
