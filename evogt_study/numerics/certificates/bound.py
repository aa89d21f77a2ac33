"""A bound of the error in the energy norm from the residual, without the exact solution.

For the reconstruction v of a run, R = f - v_t + div(a grad v) and e = u - v,

    || e(T) ||^2 + int_0^T || sqrt(a) grad e ||^2 dt  <=  || e(0) ||^2 + int_0^T || R ||_{-1,a}^2 dt

and the difference of both sides is int_0^T || e_t ||_{-1,a}^2 dt, which is small for errors that oscillate in space.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from evogt_study.numerics.arrays import Array
from evogt_study.numerics.certificates.problem_data import ProblemData
from evogt_study.numerics.certificates.reconstruction import Reconstruction, TimeRule
from evogt_study.numerics.certificates.residual_norm import DualNorm, in_a_cube, on_a_line
from evogt_study.numerics.certificates.spectral_space import Sampled, SpectralSpace
from evogt_study.numerics.certificates.tensor_grid import applied

VALUES_AT_ONCE = 1 << 18
"""Values of a function at several times that are worked on at once (2 MB), so that they stay in cache."""


@dataclass(frozen=True, eq=False)
class EnergyBound:
    """The bound and the squares that it is made of.

    initial: || e(0) ||^2; residual: the integral of || R ||^2; estimated: what is added for what is not bounded but
    estimated: `time_rule`, the integral's difference from a coarser rule's, and `unresolved`, the part of the
    residual in the highest modes of the grid.  representer: w with (a grad w, grad v) = R(v) at the final time, on the
    grid: what is missing from the solution but for the part of e_t.
    """

    initial: float
    residual: float
    time_rule: float
    unresolved: float
    representer: Array

    @property
    def value(self) -> float:
        """The bound of the energy norm of the error."""
        return float(np.sqrt(self.initial + self.residual + self.time_rule + self.unresolved))

    @property
    def resolution(self) -> float:
        """The part of the bound's square that the grid does not resolve."""
        return self.unresolved / max(self.initial + self.residual, np.finfo(float).tiny)


def energy_bound(solution: Reconstruction, rule: TimeRule, data_of: Callable[[slice], ProblemData]) -> EnergyBound:
    """The bound for `solution`, by the problem's data at blocks of the times of `rule`."""
    data = data_of(slice(0, 1))
    size = max(1, VALUES_AT_ONCE // data.grid.weights.size)
    norms = [_dual_norm(solution, data_of(slice(start, start + size))) for start in range(0, len(rule.times), size)]
    squares = np.concatenate([norm.squares for norm in norms])
    fine, coarse = float(rule.weights @ squares), float(rule.coarse @ squares)
    return EnergyBound(
        initial=_initial(solution, data),
        residual=fine,
        time_rule=abs(fine - coarse),
        unresolved=float(rule.weights @ np.concatenate([norm.unresolved for norm in norms])),
        representer=norms[-1].representer,
    )


def _initial(solution: Reconstruction, data: ProblemData) -> float:
    values, _ = solution.along(data.grid.along[0])
    difference = applied([values] * solution.dimension, solution.states[:1])[0] - data.initial
    return float(np.sum(difference**2 * data.grid.weights))


def _dual_norm(solution: Reconstruction, data: ProblemData) -> DualNorm:
    return residual_of(solution, *solution.at(data.times), data)


def residual_of(solution: Reconstruction, states: Array, rates: Array, data: ProblemData) -> DualNorm:
    """The residual of states and their derivatives in time, (T, m, ..., m) each, in the functions of `solution`."""
    values, slopes = solution.along(data.grid.along[0])
    run = Sampled(values, slopes, data.grid)
    remainder = data.remainder(run.evaluate(states) if data.slope is not None else states, run.evaluate(rates))
    flux = data.flux_of(run.gradient(states))
    if solution.dimension == 1:
        return on_a_line(remainder, flux[0], data.diffusion, data.grid)
    space = SpectralSpace(solution.dimension, data.grid.points - 2)
    basis = Sampled.of(space, data.grid)
    return in_a_cube(basis.moments(remainder) - basis.flux_moments(flux), data.diffusion, space, basis)
