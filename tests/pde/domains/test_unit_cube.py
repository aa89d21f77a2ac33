"""The unit cube: D is zero on every face, its derivatives against complex steps and differences; boundary points."""

import itertools

import numpy as np
import pytest

from evogt_study.pde.domains import UnitCube

EPS = np.finfo(float).eps
STEP = 1e-30  # of a complex step: no difference is taken, so it can be as small as one likes

dimensions = pytest.mark.parametrize("dimension", [1, 2, 3])


def points(dimension, count=25):
    """Random points, some of them outside the cube: D is a polynomial everywhere."""
    return np.random.default_rng(dimension).uniform(-0.2, 1.2, (count, dimension))


def boundary(nodes, order=0):
    """The derivative of this order of the package's D."""
    jet = UnitCube(nodes.shape[1]).boundary_factor(nodes, order)
    assert len(jet) == order + 1
    return jet[order]


def factor(nodes):
    """D written out, for real or complex nodes."""
    result = 1.0
    for x in nodes.T:
        result = result * x * (1.0 - x)
    return result


def shifted(nodes, axis, by):
    moved = nodes.astype(np.result_type(nodes, by))
    moved[:, axis] += by
    return moved


@dimensions
def test_the_factor_is_the_product_over_the_directions(dimension):
    nodes = points(dimension)
    assert boundary(nodes) == pytest.approx(factor(nodes), rel=8 * EPS, abs=0.0)
    assert float(boundary(np.full((1, dimension), 0.5))[0]) == 0.25**dimension


@dimensions
def test_the_factor_vanishes_on_every_face_and_nowhere_inside(dimension):
    inside = np.random.default_rng(7).uniform(0.01, 0.99, (50, dimension))
    assert (boundary(inside) > 0.0).all()
    for axis, side in itertools.product(range(dimension), (0.0, 1.0)):
        face = inside.copy()
        face[:, axis] = side
        assert not boundary(face).any(), (axis, side)


@dimensions
def test_the_outward_slope_on_a_face_is_minus_the_factor_of_the_other_directions(dimension):
    inside = np.random.default_rng(8).uniform(0.0, 1.0, (20, dimension))
    for axis, side in itertools.product(range(dimension), (0.0, 1.0)):
        face = inside.copy()
        face[:, axis] = side
        others = np.prod(np.delete(face * (1.0 - face), axis, axis=1), axis=1)
        outward = 2.0 * side - 1.0
        assert outward * boundary(face, 1)[axis] == pytest.approx(-others, rel=8 * EPS, abs=0.0)


@dimensions
def test_the_gradient_is_the_complex_step_derivative(dimension):
    nodes = points(dimension)
    wanted = [factor(shifted(nodes, axis, 1j * STEP)).imag / STEP for axis in range(dimension)]
    found = boundary(nodes, 1)
    assert found.shape == (dimension, len(nodes))
    assert found == pytest.approx(np.array(wanted), abs=4 * EPS)


@dimensions
def test_the_hessian_is_the_difference_of_complex_step_derivatives(dimension):
    nodes = points(dimension)
    # D has degree two in each direction: central differences are exact whatever their step, so it is taken large
    half = 0.25
    found = boundary(nodes, 2)
    assert found.shape == (dimension, dimension, len(nodes))
    for row, column in itertools.product(range(dimension), repeat=2):
        if row == column:
            ahead, behind = factor(shifted(nodes, row, half)), factor(shifted(nodes, row, -half))
            wanted = (ahead - 2 * factor(nodes) + behind) / half**2
        else:
            along = [factor(shifted(shifted(nodes, row, by), column, 1j * STEP)).imag / STEP for by in (half, -half)]
            wanted = (along[0] - along[1]) / (2 * half)
        assert found[row, column] == pytest.approx(wanted, abs=32 * EPS), (row, column)


@dimensions
def test_the_hessian_is_symmetric_bit_for_bit(dimension):
    hessian = boundary(points(dimension), 2)
    assert np.array_equal(hessian, hessian.swapaxes(0, 1))


def test_the_laplacian_of_the_square_bubble_is_known():
    nodes = points(2)
    x, y = nodes.T
    laplacian = np.trace(boundary(nodes, 2))
    assert laplacian == pytest.approx(-2.0 * (y * (1 - y) + x * (1 - x)), abs=4 * EPS)


@dimensions
def test_boundary_points_lie_on_every_face_and_nowhere_else(dimension):
    points = UnitCube(dimension).boundary_points()
    assert ((points >= 0.0) & (points <= 1.0)).all()
    assert ((points == 0.0) | (points == 1.0)).any(axis=1).all()
    for axis, side in itertools.product(range(dimension), (0.0, 1.0)):
        inner = np.delete(points[points[:, axis] == side], axis, axis=1)
        assert len(inner) > 0
        assert ((inner > 0.0) & (inner < 1.0)).all(axis=1).any()
