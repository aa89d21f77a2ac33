"""Relative errors: their formula, with known numbers, and the two ways to them."""

import numpy as np
import pytest

from evogt_study.numerics.domains import UnitCube
from evogt_study.numerics.quadrature import QuadratureRule
from evogt_study.numerics.validation import Target, relative_errors


def test_it_is_the_weighted_norm_of_the_difference_over_that_of_the_exact_values():
    exact, numerical = np.array([[3.0, 4.0]]), np.array([[3.0, 2.0]])
    assert relative_errors(numerical, exact, np.array([1.0, 1.0])).tolist() == [0.4]
    assert relative_errors(numerical, exact, np.array([16.0, 0.0])).tolist() == [0.0]


def test_against_zero_it_is_not_defined():
    found = relative_errors(np.array([[1.0], [1.0]]), np.array([[0.0], [2.0]]), np.ones(1))
    np.testing.assert_array_equal(found, [np.nan, 0.5])


@pytest.mark.parametrize("dimension", [1, 2])
@pytest.mark.parametrize("lifted", [0.0, 0.7])
def test_errors_of_coefficients_are_those_of_the_values_that_they_stand_for(dimension, lifted):
    rng = np.random.default_rng(20261121)
    cube = UnitCube(dimension)
    rule = cube.quadrature(QuadratureRule("gauss_legendre", 6))
    raw, psi = rng.normal(size=(3, 4)), rng.normal(size=(len(rule.nodes), 4))
    exact = rng.normal(size=(3, len(rule.nodes)))
    exact[2] = 0.0
    values = lifted + cube.boundary_factor(rule.nodes)[0] * (raw @ psi.T)
    found = Target.of(cube, exact, lifted, rule).errors(raw, psi)
    np.testing.assert_allclose(found, relative_errors(values, exact, rule.weights), rtol=1e-13)
    assert np.isnan(found).tolist() == [False, False, True]
