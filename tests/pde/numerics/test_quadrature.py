"""Quadrature rules: the degrees that they integrate exactly, and their tensor products."""

import math

import numpy as np
import pytest
from numpy.polynomial.legendre import legval

from evogt_study.pde.domains import UnitCube
from evogt_study.pde.numerics import RULES, QuadratureRule

EPS = np.finfo(float).eps


def legendre(degree, x):
    """The Legendre polynomial of (0, 1), P_k(2x - 1): integral 0 for k >= 1, size at most 1."""
    return legval(2.0 * x - 1.0, [0.0] * degree + [1.0])


def on_interval(rule, points):
    quadrature = UnitCube(1).quadrature(QuadratureRule(rule, points))
    return quadrature, quadrature.nodes[:, 0]


@pytest.mark.parametrize("points", [1, 2, 3, 4, 5, 8, 13, 20, 40, 80])
@pytest.mark.parametrize("rule", RULES)
def test_every_degree_that_a_rule_promises_is_exact(rule, points):
    quadrature, x = on_interval(rule, points)
    degrees = range(2 * points if rule == "gauss_legendre" else 2)
    integrals = [float(legendre(degree, x) @ quadrature.weights) for degree in degrees]
    # nodes are rounded, and P_k is as steep as k(k + 1) at the ends; measured: up to 16 eps, at n = 40
    assert integrals == pytest.approx([1.0] + [0.0] * (len(integrals) - 1), abs=64 * EPS)


@pytest.mark.parametrize("dimension", [1, 2, 3])
@pytest.mark.parametrize("points", [1, 2, 9, 20])
@pytest.mark.parametrize("rule", RULES)
def test_weights_are_positive_and_sum_to_one_and_nodes_are_inside(rule, points, dimension):
    quadrature = UnitCube(dimension).quadrature(QuadratureRule(rule, points))
    assert quadrature.nodes.shape == (points**dimension, dimension)
    assert quadrature.weights.shape == (points**dimension,)
    assert (quadrature.weights > 0.0).all()
    assert ((quadrature.nodes > 0.0) & (quadrature.nodes < 1.0)).all()
    assert math.fsum(quadrature.weights) == pytest.approx(1.0, abs=8 * EPS)


@pytest.mark.parametrize("rule", RULES)
def test_another_rule_has_one_point_more_or_as_many_as_it_may(rule):
    def another(points, dimension):
        return QuadratureRule(rule, points).make_check_rule(dimension)

    assert another(1, 1) == QuadratureRule("gauss_legendre", 2)
    assert another(20, 3) == QuadratureRule("gauss_legendre", 21)
    assert another(2048, 1) == QuadratureRule("gauss_legendre", 2047)
    assert another(215, 3) == QuadratureRule("gauss_legendre", 214)  # 216^3 are more than ten million nodes
    assert QuadratureRule("composite_midpoint", 5000).make_check_rule(1) == QuadratureRule("gauss_legendre", 2047)
