"""The Radau IIA method of order five for y' = b - K(t) y, in a basis in which K is nearly diagonal.

With it the final state of a linear retained system free of the error of its time steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy  # which imports its parts when they are first used: workers would pay 0.06 s for scipy.sparse at start

from evogt_study.numerics.arrays import Array
from evogt_study.numerics.galerkin import GalerkinSystem
from evogt_study.numerics.integrators.radau_iia_3 import RadauIIA3
from evogt_study.numerics.stiffness import at_times

STAGES: Array = RadauIIA3.tableau.matrix
"""The matrix of the method; its last row are the weights too."""
# c_3 = 1 exactly, which as the sum of a row it is only but for rounding
NODES = np.append(RadauIIA3.tableau.nodes[:-1], 1.0)
AHEAD = (NODES[:, None] + 1.0) ** np.arange(3) @ np.linalg.inv(NODES[:, None] ** np.arange(3))
"""From the rates of a step to those of the next, by the parabola through them."""
TOLERANCE = 1e-12
"""Relative, of the three stages of a step together."""
MOST_ITERATIONS = 100
STEPS = 12
"""Of `semidiscrete_state`.  Against 48 steps the time's part of runs of the paper's five linear studies changes by less
than 1 %, but where it is below 1e-5 of the error: there by up to 11 %."""
NEAR = 1e-8
"""`TOLERANCE` of these."""


@dataclass(frozen=True, eq=False)
class RadauSteps:
    """Steps of one size; `inverse` (m, 3, 3) solves for the stages where K is the diagonal matrix of `eigenvalues`."""

    step: float
    inverse: Array
    tolerance: float = TOLERANCE

    @staticmethod
    def of(step: float, eigenvalues: Array, tolerance: float = TOLERANCE) -> RadauSteps:
        """For the eigenvalues (m,) of the diagonal matrix that K is, or is near to."""
        stages = np.eye(3) + step * eigenvalues.reshape(-1, 1, 1) * STAGES
        return RadauSteps(step, np.asarray(np.linalg.inv(stages), dtype=np.float64), tolerance)

    def advanced(
        self, state: Array, load: Array, images: Callable[[Array], Array], guess: Array
    ) -> tuple[Array, Array]:
        """The state after a step, and the rates k_i = b_i - K_i (y + h sum_j a_ij k_j) of its stages.

        load: b_i - K_i y, (3, ...); images: (v_1, v_2, v_3) -> K_i v_i; guess of the rates (3, ...), to start from.
        """
        rates = self._solved(load, images, guess).reshape(load.shape)
        return state + self.step * np.tensordot(STAGES[-1], rates, axes=1), rates

    def _corrected(self, flat: Array) -> Array:
        return np.asarray(np.einsum("kij,jk->ik", self.inverse, flat.reshape(3, -1)).ravel())

    def _solved(self, load: Array, images: Callable[[Array], Array], guess: Array) -> Array:
        solvers = scipy.sparse.linalg

        def operator(flat: Array) -> Array:
            mixed = np.tensordot(STAGES, flat.reshape(load.shape), axes=1)
            return np.asarray(flat + self.step * images(mixed).ravel())

        def linear(function: Callable[[Array], Array]) -> Any:
            # without its type it would be applied once to find that out
            return solvers.LinearOperator((load.size, load.size), function, dtype=np.float64)

        solved, _ = solvers.gmres(
            linear(operator), load.ravel(), guess.ravel(),
            # maxiter counts cycles: one of at most `restart` iterations, never restarted
            M=linear(self._corrected), rtol=self.tolerance, restart=MOST_ITERATIONS, maxiter=1,
        )  # fmt: skip
        return np.asarray(solved)


def semidiscrete_state(system: GalerkinSystem, final_time: float) -> Array:
    """alpha(T) of alpha' + K(t) alpha = b(t), (r,), in the eigenbasis of K at half time."""
    diagonal = system.autonomous and system.symmetric
    middle = system.stiffness(final_time / 2.0)
    # with an advection of the symmetric part: a basis to precondition in need not make K diagonal
    eigenvalues, basis = system.modes if diagonal else np.linalg.eigh((middle + middle.T) / 2.0)
    step = final_time / STEPS
    method = RadauSteps.of(step, eigenvalues, NEAR)
    state = system.initial @ basis
    stages = step * (np.arange(STEPS)[:, None] + NODES)
    all_loads = (system.load(stages.ravel()) @ basis).reshape(STEPS, 3, -1)
    if diagonal:  # a step is one multiplication a mode
        weights = step * np.einsum("i,kij->jk", STAGES[-1], method.inverse)
        factor = method.inverse[:, -1].sum(axis=1)  # the last stage's, which does not cancel where K is stiff
        for force in np.einsum("njk,jk->nk", all_loads, weights):
            state = factor * state + force
        return np.asarray(basis @ state)
    rates = np.zeros((3, len(state)))
    for times, loads in zip(stages, all_loads, strict=True):
        stiffness = at_times(system.stiffness, times)

        def images(vectors: Array, stiffness: Array = stiffness) -> Array:
            return np.asarray((stiffness @ (vectors @ basis.T)[:, :, None])[:, :, 0] @ basis)

        load = loads - images(np.broadcast_to(state, rates.shape))
        state, rates = method.advanced(state, load, images, AHEAD @ rates)
    return np.asarray(basis @ state)
