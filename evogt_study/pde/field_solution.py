"""One run of a problem for several fields or with nonlinear fluxes, stage by stage."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evogt_study.pde.domains import Box
from evogt_study.pde.domains.base import WithConstant
from evogt_study.pde.galerkin.flux_system import FluxSystem
from evogt_study.pde.galerkin.retained_space import RetainedSpace, retain, trial_functions, weighted_svd
from evogt_study.pde.integrators.newton_steps import NewtonSteps, check_integrator
from evogt_study.pde.numerics.arrays import Array
from evogt_study.pde.numerics.time_grid import Trajectory
from evogt_study.pde.pipeline import Discretisation, Share, afresh
from evogt_study.pde.problems.fields import FieldData


@dataclass(frozen=True, eq=False)
class FieldSolution:
    """Coefficients of all fields at the observed times."""

    data: FieldData
    system: FluxSystem
    trajectory: Trajectory

    def evaluate(self, nodes: Array) -> Array:
        """The fields at the observed times, (P, d) -> (S, n, P)."""
        pairs = zip(self.trajectory.coefficients, self.trajectory.times.tolist(), strict=True)
        return np.stack([self.system.evaluate(z, nodes, t) for z, t in pairs])


def solve_fields(
    data: FieldData, run: Discretisation, tolerance: float = 1e-13, keep: bool = True, share: Share = afresh
) -> FieldSolution:
    """Solve in one retained space for each field (eq:retained_basis).

    Raises ParameterError for an integrator that cannot advance the fields, EmptySpaceError, and DivergedError if
    Newton's method does not converge.
    """
    check_integrator(run.integrator)
    boxes = [data.problem.box(each) for _, each in data.problem.fields]
    spaces = [_space(box, run, share) for box in boxes]
    rules = {name: rule for space in spaces for name, rule in space.quadrature.faces.items()}
    system = FluxSystem(data.terms, spaces, rules)
    return FieldSolution(data, system, NewtonSteps(system, tolerance, keep).march(run.integrator, run.grid))


def _space(box: Box, run: Discretisation, share: Share) -> RetainedSpace:
    def make() -> RetainedSpace:
        features = box.features(run.dictionary, run.seed)
        if run.dictionary.RANDOM and not len(box.boundary_points()):
            features = WithConstant(features)
        trial = trial_functions(box, features, box.quadrature(run.quadrature))
        return retain(trial, weighted_svd(trial), run.tau)

    return share("retained space", (run.dictionary, run.seed, run.quadrature, run.tau, box), make)
