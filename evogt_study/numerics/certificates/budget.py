"""The final error of a run split by its causes (eq:error_split_retained), on a rule with weights w.

    u - u_N = (u - v_N) + (v_N - P u) + (P u - u_semi) + (u_semi - u_N)

v_N is the best approximation of u in the span of all features, P u the quadrature-orthogonal projection on the retained
space, u_semi the semidiscrete solution in it: full space, truncation, evolution and quadrature, time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg

from evogt_study.numerics.certificates.problem_data import UnitBox
from evogt_study.numerics.certificates.tensor_grid import TensorGrid
from evogt_study.numerics.pipeline import Discretisation
from evogt_study.pde.galerkin.problem import Problem
from evogt_study.pde.galerkin.retained_space import WeightedSVD, retain, trial_functions, weighted_svd
from evogt_study.pde.numerics.arrays import Array

SMALLEST = 1e-14
"""Directions of relative size below this are rounding, and no part of the space of all features."""
LARGE = 1e-7
"""Directions above this are computed to ten digits and more."""
ORTHOGONAL = 1e-3
"""Cosine between what is left and a direction at which it is as small as it gets, but for 1e-6 of it.  Rounding lets it
reach 1e-5 to 1e-4 for features that nearly depend on each other."""
BUDGET = ("error_full_space", "error_retained", "error_evolution", "error_time")
"""Names of what the split is recorded as."""
ITERATIONS = 12
"""1 to 3 are enough for runs of the paper's studies; more are a rule of assembly that does not resolve the features."""


@dataclass(frozen=True, eq=False)
class ErrorBudget:
    """The four differences at the nodes, (Q,) each, which add up to the error; weights' roots (Q,) and || u ||."""

    full_space: Array
    truncation: Array
    evolution: Array
    time: Array
    roots: Array
    norm: float

    @cached_property
    def parts(self) -> dict[str, float]:
        """Relative norms || v ||_w / || u ||_w by the names of the variables that record them.

        error_retained is that of u - P u, the full space's part included, so that it falls with tau.
        """
        retained = self.full_space + self.truncation
        differences = self.roots * np.array([self.full_space, retained, self.evolution, self.time])
        norms = np.sqrt(np.vecdot(differences, differences)) / self.norm
        return dict(zip(BUDGET, norms.tolist(), strict=True))


@dataclass(frozen=True, eq=False)
class FullSpace:
    """The span of all features, by their values at the nodes times the roots of the weights (Q, N), and these roots.

    combined (N, N): combinations that are orthonormal on the rule of assembly, and nearly so here.  kept: how many of
    them are computed well, then of all that count; none where that rule has fewer nodes than features.
    """

    weighted: Array
    roots: Array
    combined: Array
    kept: tuple[int, ...]

    @staticmethod
    def of(weighted: Array, roots: Array, svd: WeightedSVD, volume: float) -> FullSpace:
        """The space by the singular values that the run has on its own rule.

        volume: of the domain, in which that rule integrates; the roots are of weights whose sum is one.
        """
        sizes, kept, combined = svd.singular_values, tuple[int, ...](), svd.right
        if sizes[-1] > 0.0:
            # sizes fall, so that what is kept is a stretch at their front
            kept = tuple(int(np.count_nonzero(sizes > least * sizes[0])) for least in (LARGE, SMALLEST))
            combined = combined / sizes * np.sqrt(volume)
        return FullSpace(weighted, roots, combined, kept)

    def best(self, values: Array) -> Array:
        """The best approximation of a function at the nodes, (Q,) -> (Q,)."""
        weighted = self.roots * values
        left = (weighted, weighted @ self.weighted) if self.kept else None
        # the small directions have coefficients as large as one over their size times what is left: after the large
        # ones that is so little that their rounding does not show
        for count in self.kept:
            left = left and self._rest(*left, self.combined[:, :count])
        if left is None:
            return np.asarray(self.weighted @ _least_squares(self.weighted, weighted) / self.roots)
        return values - left[0] / self.roots

    # conjugate gradients of the normal equations: an iteration reads the features twice, while the mass of the
    # directions would take as many operations as there are of them.  `conjugate_gradients` ends by the load; this ends
    # by what is left, which may be 1e-10 of it, before rounding makes it grow again
    def _rest(self, left: Array, moments: Array, combined: Array) -> tuple[Array, Array] | None:
        """Remainder of a weighted function off the combinations, and its moments; None if these are no basis."""
        before, direction = 1.0, np.zeros(combined.shape[1])
        for _ in range(ITERATIONS):
            gradient = moments @ combined
            size = float(gradient @ gradient)
            if not size > ORTHOGONAL**2 * (left @ left):  # nor where it is no number
                return left, moments
            direction = gradient + size / before * direction
            image = self.weighted @ (combined @ direction)
            left, before = left - size / (image @ image) * image, size
            moments = left @ self.weighted
        return None


def error_budget(exact: Array, space: FullSpace, states: tuple[Array, Array, Array], norm: float) -> ErrorBudget:
    """Split the final error by its values at the nodes of a rule.

    exact: u - u_b (Q,); states: P u, the semidiscrete solution and the run's, (Q,) each; norm: || u ||.
    """
    best, (projected, semidiscrete, final) = space.best(exact), states
    return ErrorBudget(
        exact - best, best - projected, projected - semidiscrete, semidiscrete - final, space.roots, norm
    )  # fmt: skip


def _least_squares(weighted: Array, values: Array) -> Array:
    """Coefficients of the best approximation, through a QR factorisation of the weighted trial functions first."""
    # R of [A b] has all of the problem, in N + 1 rows instead of Q: the SVD inside lstsq is of that
    augmented = np.column_stack([weighted, values])
    (triangle,) = scipy.linalg.qr(augmented, mode="r", overwrite_a=True, check_finite=False)
    count = weighted.shape[1]
    return np.asarray(scipy.linalg.lstsq(triangle[:count, :count], triangle[:count, count], cond=SMALLEST)[0])


def retained_error(problem: Problem, run: Discretisation, solved: Callable[..., tuple[Array, ...]]) -> float:
    """|| u - P u || / || u || of the retained space that `run` has, on its validation rule: nothing is evolved.

    solved: u(T) - u_b(T) at the nodes of each grid that is given.  It tells what another space would have without
    running there.
    """
    features = problem.domain.features(run.dictionary, run.seed)
    trial = trial_functions(problem.domain, features, problem.domain.quadrature(run.quadrature))
    space = retain(trial, weighted_svd(trial), run.tau)
    grid = TensorGrid.of_rule(run.validation, problem.dimension)
    nodal, exact = solved(TensorGrid.of_rule(run.quadrature, problem.dimension), grid)
    projected = space.project(nodal)
    nodes = UnitBox.of(problem.domain).nodes(grid)
    difference, weights = space.evaluate(nodes, projected) - exact, grid.weights.ravel()
    return float(np.sqrt(difference**2 @ weights / (exact**2 @ weights)))
