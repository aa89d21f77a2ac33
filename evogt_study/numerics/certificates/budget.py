"""The final error of a run split by its causes (eq:error_split_retained), on a rule with weights w.

    u - u_N = (u - v_N) + (v_N - P u) + (P u - u_semi) + (u_semi - u_N)

v_N is the best approximation of u in the span of all features, P u the quadrature-orthogonal projection on the retained
space, u_semi the semidiscrete solution in it: full space, truncation, evolution and quadrature, time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dpotrf, dpotrs

from evogt_study.numerics.arrays import Array
from evogt_study.numerics.certificates.problem_data import UnitBox
from evogt_study.numerics.certificates.tensor_grid import TensorGrid
from evogt_study.numerics.pipeline import Discretisation
from evogt_study.numerics.problem import Problem
from evogt_study.numerics.retained_space import WeightedSVD, retain, trial_functions, weighted_svd

SMALLEST = 1e-14
"""Directions of relative size below this are rounding, and no part of the space of all features."""
SPREAD = 1e3
"""Ratio of pivots, 1e6 in the Gram matrix, up to which the rule of assembly resolves all features."""


@dataclass(frozen=True, eq=False)
class ErrorBudget:
    """The four differences at the nodes, (Q,) each, which add up to the error; weights (Q,) and || u ||."""

    full_space: Array
    truncation: Array
    evolution: Array
    time: Array
    weights: Array
    norm: float

    def relative(self, difference: Array) -> float:
        """|| v ||_w / || u ||_w."""
        return float(np.sqrt(difference**2 @ self.weights)) / self.norm

    @property
    def parts(self) -> dict[str, float]:
        """Relative norms by the names of the variables that record them.

        error_retained is that of u - P u, the full space's part included, so that it falls with tau.
        """
        return {
            "error_full_space": self.relative(self.full_space),
            "error_retained": self.relative(self.full_space + self.truncation),
            "error_evolution": self.relative(self.evolution),
            "error_time": self.relative(self.time),
        }


@dataclass(frozen=True, eq=False)
class FullSpace:
    """The span of all features, by their values at the nodes (Q, N), and a factorisation of their mass there.

    orthonormal: combinations (N, m) that are so on the rule of assembly, and nearly so here; mass: the Cholesky factor
    of their Gram matrix.  Both are None where that rule is too coarse for the features: then all is done here.
    """

    trial: Array
    weights: Array
    orthonormal: Array | None
    mass: Array | None

    @staticmethod
    def of(trial: Array, weights: Array, svd: WeightedSVD) -> FullSpace:
        """The space of Phi (Q, N) on a rule, by the singular values that the run has on its own rule."""
        if svd.singular_values[-1] == 0.0:  # fewer nodes of assembly than features
            return FullSpace(trial, weights, None, None)
        kept = svd.singular_values > SMALLEST * svd.singular_values[0]
        orthonormal = svd.right[:, kept] / svd.singular_values[kept]
        values = (np.sqrt(weights)[:, None] * trial) @ orthonormal
        # only the upper triangle is made, and only it is read
        mass, failed = dpotrf(dsyrk(1.0, values.T), overwrite_a=True)
        pivots = np.diag(mass)
        if failed or pivots.max() > SPREAD * pivots.min():
            return FullSpace(trial, weights, None, None)
        return FullSpace(trial, weights, orthonormal, mass)

    def best(self, values: Array) -> Array:
        """The best approximation of a function at the nodes, (Q,) -> (Q,)."""
        if self.orthonormal is None:
            return np.asarray(self.trial @ _least_squares(self.trial, values, np.sqrt(self.weights)))
        found = np.zeros_like(values)
        for _ in range(2):  # the second corrects what rounding leaves of the first
            moments = ((values - found) * self.weights) @ self.trial @ self.orthonormal
            found += self.trial @ (self.orthonormal @ dpotrs(self.mass, moments)[0])
        return found


def error_budget(
    exact: Array, space: FullSpace, transform: Array, states: tuple[Array, Array, Array], norm: float
) -> ErrorBudget:
    """Split the final error by its values at the nodes of a rule.

    exact: u - u_b (Q,); transform T_r (N, r); states: coefficients of P u, of the semidiscrete solution and of the run,
    (r,) each; norm: || u ||.
    """
    trial, weights, best = space.trial, space.weights, space.best(exact)
    projected, semidiscrete, final = (trial @ (transform @ state) for state in states)
    return ErrorBudget(
        exact - best, best - projected, projected - semidiscrete, semidiscrete - final, weights, norm
    )  # fmt: skip


def _least_squares(trial: Array, values: Array, roots: Array) -> Array:
    """Coefficients of the best approximation, through a QR factorisation of the weighted trial functions first."""
    # R of [A b] has all of the problem, in N + 1 rows instead of Q: the SVD inside lstsq is of that
    augmented = np.column_stack([roots[:, None] * trial, roots * values])
    (triangle,) = scipy.linalg.qr(augmented, mode="r", overwrite_a=True, check_finite=False)
    count = trial.shape[1]
    return np.asarray(scipy.linalg.lstsq(triangle[:count, :count], triangle[:count, count], cond=SMALLEST)[0])


def retained_error(problem: Problem, run: Discretisation, solved: Callable[[TensorGrid], Array]) -> float:
    """|| u - P u || / || u || of the retained space that `run` has, on its validation rule: nothing is evolved.

    solved: u(T) - u_b(T) at the nodes of a grid.  It tells what another space would have without running there.
    """
    features = problem.domain.features(run.dictionary, run.seed)
    trial = trial_functions(problem.domain, features, problem.domain.quadrature(run.quadrature))
    space = retain(trial, weighted_svd(trial), run.tau)
    grid = TensorGrid.of_rule(run.validation, problem.dimension)
    projected = space.project(solved(TensorGrid.of_rule(run.quadrature, problem.dimension)))
    exact = solved(grid)
    nodes = UnitBox.of(problem.domain).nodes(grid)
    difference, weights = space.evaluate(nodes, projected) - exact, grid.weights.ravel()
    return float(np.sqrt(difference**2 @ weights / (exact**2 @ weights)))
