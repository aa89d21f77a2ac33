"""The energy bound of one run, on a grid that is refined until it resolves the residual."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import partial

import numpy as np

from evogt_study.numerics.certificates.bound import EnergyBound, energy_bound
from evogt_study.numerics.certificates.problem_data import ProblemData
from evogt_study.numerics.certificates.reconstruction import TimeRule
from evogt_study.numerics.certificates.run_functions import RunFunctions
from evogt_study.numerics.certificates.tensor_grid import TensorGrid
from evogt_study.numerics.pipeline import Share, Solution
from evogt_study.numerics.time_grid import TimeGrid, Trajectory

KNOTS = {1: 20, 2: 8, 3: 6}
"""States that the reconstruction interpolates, at most: more change the bounds of the paper's runs by less than 1 %."""
PANEL = 8
"""Gauss points of a panel in one direction."""
GRIDS = {1: (32, 64, 128, 256), 2: (48, 64, 80, 112), 3: (22, 28, 36, 44)}
"""Panels (1-D) or points per direction that are tried one after the other; the first do for the paper's runs."""
RESOLVED = {1: 0.01, 2: 0.05, 3: 0.08}
"""Part of the bound's square that the grid may leave unresolved, and that is added: half of it on the bound."""


@dataclass(frozen=True, eq=False)
class RunBound:
    """The bound with the run's functions on the grid that it was computed on, and the problem there at the end."""

    bound: EnergyBound
    functions: RunFunctions
    at_the_end: ProblemData


def knots_of(solution: Solution) -> Trajectory:
    """The states that the reconstruction interpolates: those observed where all are, else of a march of their own."""
    grid = solution.discretisation.grid
    count = min(KNOTS[solution.problem.dimension], grid.steps)
    steps = tuple(int(step) for step in np.round(np.linspace(0, grid.steps, count + 1)))
    place = {step: number for number, step in enumerate(grid.observed)}
    if place.keys() >= set(steps):
        found = [place[step] for step in steps]
        return Trajectory(solution.trajectory.times[found], solution.trajectory.coefficients[found])
    knots = TimeGrid(grid.final_time, grid.steps, steps)
    return solution.discretisation.integrator.march(solution.system, knots)


def run_bound(solution: Solution, knots: Trajectory, share: Share, problem_key: Hashable) -> RunBound:
    """The bound of a run by its states at the knots; `problem_key` identifies its problem."""
    problem, rule = solution.problem, TimeRule.between(knots.times)
    found: RunBound | None = None
    for count in GRIDS[problem.dimension]:
        grid = TensorGrid(1, PANEL, count) if problem.dimension == 1 else TensorGrid(problem.dimension, count)
        data = share(
            "certificate data",
            (problem_key, grid, knots.times.tobytes()),
            partial(ProblemData.of, problem, grid, rule.times),
        )
        functions = RunFunctions.of(solution.space, grid)
        reconstructed = functions.reconstructed(knots.coefficients, knots.times)
        found = RunBound(energy_bound(reconstructed, rule, data.part), functions, data.part(slice(-1, None)))
        if found.bound.resolution <= RESOLVED[problem.dimension]:
            break
    assert found is not None  # noqa: S101  # there are grids for each dimension
    return found
