"""Galerkin assembly on the retained space: alpha' + K(t) alpha = b(t), alpha(0) (eq:retained_ode).

Separable data are assembled once per profile.  Data whose time and space do not split are assembled from the nodes at
each time they are asked for; the numbers are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from evogt_study.errors import ProblemError
from evogt_study.method.arrays import Array
from evogt_study.method.problem import NonSeparable, Problem, Separable, SpaceTimeFunction
from evogt_study.method.quadrature import Quadrature
from evogt_study.method.retained_space import RetainedSpace

TIMES_AT_ONCE = 64


@dataclass(frozen=True, eq=False)
class GalerkinSystem:
    """The retained identity-mass system.

    stiffness: t -> K(t), (r, r) symmetric; autonomous: whether K does not depend on t; load: times (T,) -> b, (T, r);
    initial: alpha(0), (r,).
    """

    stiffness: Callable[[float], Array]
    autonomous: bool
    load: Callable[[Array], Array]
    initial: Array


def assemble(space: RetainedSpace, problem: Problem) -> GalerkinSystem:
    """Stiffness, load and initial value in retained coordinates (eq:raw_to_normalized)."""
    return GalerkinSystem(
        stiffness=_stiffness(space, problem.diffusion),
        autonomous=problem.diffusion.steady,
        load=_load(space, problem.source),
        initial=space.project(problem.initial(space.quadrature.nodes)),
    )


def weighted_gram(gradients: Array, nodal: Array) -> Array:
    """sum_l G_l^T diag(nodal) G_l, symmetric: (d, Q, r) and (Q,) -> (r, r)."""
    rank = gradients.shape[2]
    gram = gradients.reshape(-1, rank).T @ (nodal[:, None] * gradients).reshape(-1, rank)
    return np.asarray((gram + gram.T) / 2.0)


@dataclass(frozen=True, eq=False)
class SeparableStiffness:
    """K(t) = sum_k m_k(t) K_k, with K_k (K, r, r) assembled once for each profile."""

    diffusion: Separable
    terms: Array

    def __call__(self, t: float) -> Array:
        """K(t), (r, r)."""
        return np.asarray(np.tensordot(self.diffusion.modulated(np.array([t]))[:, 0], self.terms, axes=1))


@dataclass(frozen=True, eq=False)
class NodalStiffness:
    """K(t) assembled from the nodes at each t."""

    diffusion: NonSeparable
    space: RetainedSpace

    def __call__(self, t: float) -> Array:
        """K(t), (r, r)."""
        rule = self.space.quadrature
        return weighted_gram(self.space.gradients, rule.weights * self.diffusion.at(rule.nodes, t))


def _stiffness(space: RetainedSpace, diffusion: SpaceTimeFunction) -> SeparableStiffness | NodalStiffness:
    if not isinstance(diffusion, Separable):
        return NodalStiffness(diffusion, space)
    weights, nodes = space.quadrature.weights, space.quadrature.nodes
    terms = [weighted_gram(space.gradients, weights * profile) for profile in diffusion.profiles(nodes)]
    return SeparableStiffness(diffusion, np.stack(terms))


def _load(space: RetainedSpace, source: SpaceTimeFunction) -> Callable[[Array], Array]:
    nodes = space.quadrature.nodes
    if not isinstance(source, Separable):
        return lambda times: np.concatenate([space.project(source(nodes, part)) for part in in_blocks(times)])
    terms = space.project(source.profiles(nodes))
    return lambda times: np.asarray(source.modulated(times).T @ terms)


def in_blocks(times: Array) -> list[Array]:
    """`times` in blocks, so that values at all nodes and many steps need not fit in memory at once."""
    return np.array_split(times, max(1, -(-len(times) // TIMES_AT_ONCE)))


def check_diffusion(problem: Problem, quadrature: Quadrature, times: Array) -> None:
    """Raise ProblemError, with the measured minimum, unless a > 0 at the assembly nodes at all `times`."""
    for part in in_blocks(times[:1] if problem.diffusion.steady else times):
        values = problem.diffusion(quadrature.nodes, part)
        smallest, largest = float(np.min(values)), float(np.max(values))
        if not smallest > 0.0:  # so that NaN is refused too
            raise ProblemError(f"`diffusion` must be positive on the assembly nodes, got a minimum of {smallest:.6g}")
        if not largest < np.inf:
            raise ProblemError(f"`diffusion` must be finite on the assembly nodes, got a maximum of {largest:.6g}")
