"""The discrete-time random feature method (Zhou et al. 2026, arXiv 2604.25502).

Each stage of an IMEX Runge-Kutta scheme is a collocation problem in the span of phi = D psi:

    min_c sum_m | phi(x_m) . c - dt gamma (L phi)(x_m) . c - rhs_m |^2,    L u = div(a grad u)

The source is explicit.  The scheme is ARS(4,4,3) of Ascher, Ruuth and Spiteri (1997), of order three.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import scipy.linalg

from evogt_study.pde.baselines.space_time_regression import StrongForm
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
"""ARS(4,4,3), whose last stage is the end of the step."""


def march_by_collocation(
    strong: StrongForm, features: SmoothFeatures, nodes: Array, grid: TimeGrid, cutoff: float
) -> Iterator[Array]:
    """The coefficients of all steps."""
    problem, dt, nodal = strong.problem, grid.dt, EXPLICIT.sum(axis=1)
    values, operator_at = collocate(strong, features, nodes)
    solve_initial = scipy.linalg.pinv(values, rtol=cutoff)
    c, known = solve_initial @ problem.initial(nodes), dict[float, tuple[Array, Array]]()

    def stage(t: float) -> tuple[Array, Array]:
        """L phi at the nodes, and the solution operator of the least squares."""
        key = 0.0 if problem.diffusion.steady else t
        if key not in known:
            known.clear()
            L = operator_at(t)
            known[key] = L, np.asarray(scipy.linalg.pinv(values - dt / 2.0 * L, rtol=cutoff), dtype=np.float64)
        return known[key]

    yield c
    for n in range(grid.steps):
        times, slopes, base = (n + nodal) * dt, list[Array](), values @ c
        sources = problem.source(nodes, times)
        for i in range(1, len(nodal)):
            side = base + dt * (EXPLICIT[i, :i] @ sources[:i])
            for a, slope in zip(IMPLICIT[i, 1:i], slopes, strict=True):
                side = side + dt * a * slope
            L, solve = stage(float(times[i]))
            c = solve @ side
            slopes.append(L @ c)
        yield c


def collocate(strong: StrongForm, features: SmoothFeatures, nodes: Array) -> tuple[Array, Callable[[float], Array]]:
    """phi and L phi of a time at the nodes, (J, N)."""
    psi = features.second_order(nodes)
    D, dD, hessian = (part[..., None] for part in strong.problem.domain.boundary_factor(nodes, 2))
    gradient = dD * psi.value + D * psi.gradient
    laplacian = np.trace(hessian) * psi.value + 2.0 * np.sum(dD * psi.gradient, axis=0) + D * np.trace(psi.hessian)

    def apply(t: float) -> Array:
        now = np.array([t])
        found = strong.problem.diffusion(nodes, now)[0][:, None] * laplacian
        for da, part in zip(strong.diffusion_gradient, gradient, strict=True):
            found = found + da(nodes, now)[0][:, None] * part
        return np.asarray(found)

    return np.asarray(D * psi.value), apply
