"""tanh of affine functions by products of exponentials: the same as tanh, on every part of a grid, for any slope."""

import numpy as np
import pytest

from evogt_study.pde.dictionaries import Dictionary
from evogt_study.pde.dictionaries.tanh_dictionaries import AffineMap, factor_exponentials
from evogt_study.pde.domains import UnitCube
from evogt_study.pde.numerics import QuadratureRule

extended = pytest.mark.skipif(np.finfo(np.longdouble).eps > 2e-19, reason="no numbers longer than doubles here")


def grid(dimension, rule, points):
    return UnitCube(dimension).quadrature(QuadratureRule(rule, points)).nodes


def evaluated(affine, nodes, rows=700):
    """By blocks that are no multiples of a grid's rows."""
    out = np.empty((len(nodes), len(affine.slopes)))
    write_block = affine.tanh(nodes)
    for start in range(0, len(nodes), rows):
        block = slice(start, min(start + rows, len(nodes)))
        write_block(block, out[block])
    return out


def in_long_doubles(affine, nodes):
    shifted = (nodes - affine.centre).astype(np.longdouble)
    return np.tanh(shifted @ affine.slopes.T.astype(np.longdouble) + affine.shifts.astype(np.longdouble))


GRIDS = [(1, "composite_midpoint", 4096), (2, "gauss_legendre", 42), (3, "gauss_legendre", 14)]
grids = pytest.mark.parametrize(("dimension", "rule", "points"), GRIDS)


@extended
@grids
@pytest.mark.parametrize("family", ["transnet", "gaussian_rf", "uniform_elm"])
@pytest.mark.parametrize("gamma", [0.3, 4.0, 30.0])
def test_products_are_tanh_to_four_units_of_1e_16(dimension, rule, points, family, gamma):
    affine = Dictionary(family, 60, gamma).sample(7, dimension).affine
    nodes = grid(dimension, rule, points)
    assert factor_exponentials(affine, nodes) is not None
    assert np.abs(evaluated(affine, nodes) - in_long_doubles(affine, nodes)).max() <= 4e-16


def moved(nodes, row, column):
    nodes = nodes.copy()
    nodes[row, column] += 1e-3
    return nodes


@pytest.mark.parametrize(
    "nodes",
    [
        np.random.default_rng(0).random((2000, 2)),
        grid(1, "composite_midpoint", 1000),  # 1/1000 is rounded, so that no sum of two is exact
        grid(1, "gauss_legendre", 512),
        moved(grid(2, "gauss_legendre", 42), 900, 0),
        moved(grid(2, "gauss_legendre", 42), 900, 1),
        moved(grid(1, "composite_midpoint", 1024), 1023, 0),
        np.delete(grid(2, "gauss_legendre", 42), 300, axis=0),
    ],
    ids=lambda nodes: f"{nodes.shape}",
)
def test_other_nodes_take_tanh_itself(nodes):
    affine = Dictionary("gaussian_rf", 60, 4.0).sample(7, nodes.shape[1]).affine
    assert factor_exponentials(affine, nodes) is None
    assert np.array_equal(evaluated(affine, nodes, len(nodes)), np.tanh(affine(nodes)))


@grids
@pytest.mark.parametrize("size", [1e-300, 149.0, 151.0, 299.0, 301.0, 1e4, 1e150, 1e300])
@pytest.mark.parametrize("shift", [0.0, 1.0, 1e5, 1e7, 1e300])
def test_no_slope_and_no_shift_is_too_large(dimension, rule, points, size, shift):
    """Nothing overflows (warnings are errors); +-1 where the exponents are out of range, and nowhere else."""
    rng = np.random.default_rng(3)
    slopes = size * rng.choice([-1.0, 1.0], (40, dimension)) * ([1.0] if dimension == 1 else rng.random((40, 1)))
    affine = AffineMap(slopes, shift * rng.uniform(-1.0, 1.0, 40), np.full(dimension, 0.5))
    nodes = grid(dimension, rule, points)
    found = evaluated(affine, nodes)
    # a plain z is off by the rounding of its terms
    bound = 4e-16 + 4.0 * np.finfo(float).eps * (size + min(shift, 40.0 + size))
    assert np.abs(found).max() <= 1.0
    assert np.abs(found - np.tanh(affine(nodes))).max() <= min(bound, 2.0)
