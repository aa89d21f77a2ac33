"""The hard boundary factor D(x) = prod_l x_l (1 - x_l) of the unit cube, which vanishes on its boundary."""

from __future__ import annotations

import numpy as np

from evogt_study.numerics.arrays import Array


def boundary_factor(nodes: Array) -> Array:
    """D at `nodes`, (Q, d) -> (Q,)."""
    return np.asarray(np.prod(nodes * (1.0 - nodes), axis=1))


def boundary_gradient(nodes: Array) -> Array:
    """dD/dx_l at `nodes`, (Q, d) -> (d, Q)."""
    return np.stack([_differentiated(nodes, (axis,)) for axis in range(nodes.shape[1])])


def boundary_hessian(nodes: Array) -> Array:
    """d2D/dx_l dx_m at `nodes`, (Q, d) -> (d, d, Q)."""
    axes = range(nodes.shape[1])
    return np.stack([np.stack([_differentiated(nodes, (row, column)) for column in axes]) for row in axes])


def _differentiated(nodes: Array, axes: tuple[int, ...]) -> Array:
    """D with one derivative taken along each entry of `axes`: each direction contributes x - x^2, 1 - 2x or -2."""
    result = np.ones(nodes.shape[0])
    for axis, x in enumerate(nodes.T):
        result *= (x * (1.0 - x), 1.0 - 2.0 * x, np.full_like(x, -2.0))[axes.count(axis)]
    return result
