"""The discrete-time random feature method (Zhou et al. 2026, arXiv 2604.25502).

Each stage of an IMEX Runge-Kutta scheme is a collocation problem in the span of phi = D psi:

    min_c sum_m | phi(x_m) . c - dt gamma (L phi)(x_m) . c - rhs_m |^2,    L u = div(a grad u)

The source is explicit.  The scheme is ARS(4,4,3) of Ascher, Ruuth and Spiteri (1997), of order three.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import scipy.linalg

from evogt_study.pde.baselines.space_time_regression import StrongForm, apply_operator
from evogt_study.pde.dictionaries.base import SmoothFeatures
from evogt_study.pde.numerics.arrays import Array
from evogt_study.pde.numerics.time_grid import TimeGrid

IMPLICIT = np.array([
    [0, 0, 0, 0, 0], [0, 1 / 2, 0, 0, 0], [0, 1 / 6, 1 / 2, 0, 0], [0, -1 / 2, 1 / 2, 1 / 2, 0],
    [0, 3 / 2, -3 / 2, 1 / 2, 1 / 2],
])  # fmt: skip
EXPLICIT = np.array([
    [0, 0, 0, 0, 0], [1 / 2, 0, 0, 0, 0], [11 / 18, 1 / 18, 0, 0, 0], [5 / 6, -5 / 6, 1 / 2, 0, 0],
    [1 / 4, 7 / 4, 3 / 4, -7 / 4, 0],
])  # fmt: skip
"""Weights of the explicit part of ARS(4,4,3).  Its last stage is the end of the step."""


def march_by_collocation(
    strong: StrongForm, features: SmoothFeatures, nodes: Array, grid: TimeGrid, cutoff: float
) -> Iterator[Array]:
    """Return the coefficients after each step."""
    problem, dt, nodal, psi = strong.problem, grid.dt, EXPLICIT.sum(axis=1), features.second_order(nodes)
    values = np.asarray(apply_operator(strong, psi, nodes, 0.0)[0] * psi.value)

    @lru_cache(maxsize=1)
    def linearise(t: float) -> tuple[Array, Array]:
        """Return L phi at the nodes, and the solution operator of the least squares."""
        L = apply_operator(strong, psi, nodes, t)[1]
        return L, np.asarray(scipy.linalg.pinv(values - dt / 2.0 * L, rtol=cutoff), dtype=np.float64)

    c = scipy.linalg.pinv(values, rtol=cutoff) @ problem.initial(nodes)
    yield c
    for n in range(grid.steps):
        times, base, slopes = (n + nodal) * dt, values @ c, np.zeros((len(nodal), len(nodes)))
        sources = problem.source(nodes, times)
        for i in range(1, len(nodal)):
            L, solve = linearise(0.0 if problem.diffusion.steady else float(times[i]))
            c = solve @ (base + dt * (EXPLICIT[i, :i] @ sources[:i] + IMPLICIT[i, :i] @ slopes[:i]))
            slopes[i] = L @ c
        yield c
