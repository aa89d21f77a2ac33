"""Galerkin assembly on the retained space: alpha' + K(t) alpha + g(alpha, t) = b(t), alpha(0) (eq:retained_ode).

g_i = (F'(u), phi~_i)_q is absent unless the problem has a potential F (eq:ac_g_quad, where g has the other sign).  With
a lifting u = u_b + phi~ . alpha, and b is the lifted load (eq:lifted_load).

Separable data are assembled once per profile.  Data whose time and space do not split are assembled from the nodes at
each time they are asked for; the numbers are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce

import numpy as np
from scipy.linalg.blas import dsyrk

from evogt_study.errors import ProblemError
from evogt_study.numerics.arrays import Array
from evogt_study.numerics.problem import Lifting, NonSeparable, Potential, Problem, Separable, SpaceTimeFunction
from evogt_study.numerics.quadrature import Quadrature
from evogt_study.numerics.retained_space import RetainedSpace

TIMES_AT_ONCE = 64
NODES_AT_ONCE = 1024

Series = Callable[[Array], Array]
"""A quantity at several times: (T,) -> (T, ...)."""


@dataclass(frozen=True, eq=False)
class AssembledLifting:
    """What the lifting u_b adds to norms, energies and nodal values, each as a function of times.

    mass (T, r): Phi~^T W_q u_b; flux (T, r): sum_l G~_l^T W_q a d_l u_b; square (T,): ||u_b||_q^2; energy (T,):
    sum_q w_q a |grad u_b|^2; nodal (T, Q): u_b at the assembly nodes.
    """

    mass: Series
    flux: Series
    square: Series
    energy: Series
    nodal: Series


@dataclass(frozen=True, eq=False)
class Reaction:
    """The potential F with what projects F'(u): retained basis values Phi~ (Q, r) and weights w_q (Q,)."""

    potential: Potential
    values: Array
    weights: Array


@dataclass(frozen=True, eq=False)
class GalerkinSystem:
    """The retained identity-mass system.

    stiffness: t -> K(t), (r, r) symmetric; autonomous: whether K does not depend on t; load: times (T,) -> b, (T, r);
    initial: alpha(0), (r,); steady_load: whether b is known not to depend on t.
    """

    stiffness: Callable[[float], Array]
    autonomous: bool
    load: Series
    initial: Array
    lifting: AssembledLifting | None = None
    reaction: Reaction | None = None
    steady_load: bool = False


StiffnessTerm = Callable[[Array, Callable[[], Array]], Array]
"""Given a profile at the nodes (Q,) and how to compute its stiffness, the stiffness: computed, or at hand."""


def computed(profile: Array, compute: Callable[[], Array]) -> Array:
    """The `StiffnessTerm` of a single system."""
    return compute()


@dataclass(frozen=True, eq=False)
class NodalData:
    """A problem's data at the assembly nodes, which all seeds have in common.

    Profiles of the diffusion and of the source (K, Q), None for one that does not split; initial value less u_b (Q,).
    """

    diffusion: Array | None
    source: Array | None
    initial: Array


def nodal_data(problem: Problem, nodes: Array) -> NodalData:
    """Evaluate what does not depend on time at `nodes` (Q, d)."""
    initial = problem.initial(nodes)
    if problem.lifting is not None:
        initial = initial - problem.lifting.value(nodes, np.zeros(1))[0]
    return NodalData(_profiles(problem.diffusion, nodes), _profiles(problem.source, nodes), initial)


def _profiles(function: SpaceTimeFunction, nodes: Array) -> Array | None:
    return function.profiles(nodes) if isinstance(function, Separable) else None


def assemble(
    space: RetainedSpace, problem: Problem, term: StiffnessTerm = computed, nodal: NodalData | None = None
) -> GalerkinSystem:
    """Stiffness, load and initial value in retained coordinates (eq:raw_to_normalized), lifted where there is one.

    `term` may hand out the stiffness of a profile that another problem has in common with this one, and `nodal` is the
    problem's `nodal_data`, where it is at hand.
    """
    rule = space.quadrature
    nodal = nodal_data(problem, rule.nodes) if nodal is None else nodal
    load = _moments(problem.source, rule.nodes, space.project, nodal.source)
    lifting = None
    if problem.lifting is not None:
        lifting = _assembled_lifting(space, problem.lifting)
        load = _lifted_load(space, load, problem.lifting, lifting)
    return GalerkinSystem(
        stiffness=_stiffness(space, problem.diffusion, nodal.diffusion, term),
        autonomous=problem.diffusion.steady,
        load=load,
        initial=space.project(nodal.initial),
        lifting=lifting,
        reaction=None if problem.potential is None else Reaction(problem.potential, space.values, rule.weights),
        steady_load=has_steady_load(problem),
    )


def has_steady_load(problem: Problem) -> bool:
    """Whether neither the source nor what a lifting adds to the load depends on t."""
    lifting = problem.lifting
    parts = [problem.source] + ([] if lifting is None else [lifting.rate, *lifting.flux])
    return all(part.steady for part in parts)


def weighted_gram(gradients: Array, nodal: Array) -> Array:
    """sum_l G_l^T diag(nodal) G_l, symmetric: (d, Q, r) and (Q,) -> (r, r).

    As products A^T A with A = sqrt(|nodal|) G_l, which BLAS (dsyrk) does in half the work of a general one and adds up
    in place; nodes where `nodal` is negative are subtracted.  In blocks of nodes, so that A stays in cache.
    """
    roots, negative = np.sqrt(np.abs(nodal))[:, None], nodal < 0.0
    upper = np.zeros((gradients.shape[2],) * 2, order="F")
    for gradient in gradients:
        for start in range(0, len(nodal), NODES_AT_ONCE):
            block = slice(start, start + NODES_AT_ONCE)
            scaled, below = roots[block] * gradient[block], negative[block]
            if below.any():
                upper = dsyrk(-1.0, scaled[below].T, beta=1.0, c=upper, overwrite_c=1)
                scaled = scaled[~below]
            upper = dsyrk(1.0, scaled.T, beta=1.0, c=upper, overwrite_c=1)
    return np.asarray(upper + np.triu(upper, 1).T)


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


def _stiffness(
    space: RetainedSpace, diffusion: SpaceTimeFunction, profiles: Array | None, term: StiffnessTerm
) -> SeparableStiffness | NodalStiffness:
    if not isinstance(diffusion, Separable):
        return NodalStiffness(diffusion, space)
    if profiles is None:
        profiles = diffusion.profiles(space.quadrature.nodes)
    return SeparableStiffness(diffusion, stiffness_terms(space.gradients, space.quadrature.weights, profiles, term))


def stiffness_terms(gradients: Array, weights: Array, profiles: Array, term: StiffnessTerm) -> Array:
    """K_k = sum_l G_l^T diag(w p_k) G_l for the profiles p_k: (d, Q, r), (Q,) and (K, Q) -> (K, r, r)."""
    return np.stack([term(profile, partial(weighted_gram, gradients, weights * profile)) for profile in profiles])


def _moments(
    function: SpaceTimeFunction, nodes: Array, project: Callable[[Array], Array], profiles: Array | None = None
) -> Series:
    """times -> `project` of the function's nodal values, (T,) -> (T, r); one projection for each profile that it has.

    project: (..., Q) -> (..., r), linear.
    """
    if not isinstance(function, Separable):
        return lambda times: np.concatenate([project(function(nodes, part)) for part in in_blocks(times)])
    terms = project(function.profiles(nodes) if profiles is None else profiles)
    return lambda times: np.asarray(function.modulated(times).T @ terms)


def _lifted_load(space: RetainedSpace, load: Series, lifting: Lifting, assembled: AssembledLifting) -> Series:
    """(f, phi~_i) - (u_b,t, phi~_i) - (a grad u_b, grad phi~_i) (eq:lifted_load)."""
    rate = _moments(lifting.rate, space.quadrature.nodes, space.project)
    return lambda times: load(times) - rate(times) - assembled.flux(times)


def _assembled_lifting(space: RetainedSpace, lifting: Lifting) -> AssembledLifting:
    nodes, weights = space.quadrature.nodes, space.quadrature.weights
    fluxes = [
        _moments(flux, nodes, _projection(space.gradients[axis], weights)) for axis, flux in enumerate(lifting.flux)
    ]

    pairs = zip(lifting.flux, lifting.gradient, strict=True)
    densities = [_product(flux, slope, nodes) for flux, slope in pairs]
    return AssembledLifting(
        mass=_moments(lifting.value, nodes, space.project),
        flux=_sum(fluxes),
        square=_blockwise(_product(lifting.value, lifting.value, nodes), weights),
        energy=_blockwise(_sum(densities), weights),
        nodal=lambda times: lifting.value(nodes, times),
    )


def _projection(basis: Array, weights: Array) -> Callable[[Array], Array]:
    """Nodal values (..., Q) to their weighted products with the columns of `basis` (Q, r), (..., r)."""
    return lambda nodal: np.asarray((nodal * weights) @ basis)


def _sum(terms: list[Series]) -> Series:
    return lambda times: reduce(np.add, [term(times) for term in terms])


def _product(left: SpaceTimeFunction, right: SpaceTimeFunction, nodes: Array) -> Series:
    return lambda times: left(nodes, times) * right(nodes, times)


def _blockwise(nodal: Series, weights: Array) -> Series:
    """sum_q w_q v(x_q, t), with few times in memory at once."""
    return lambda times: np.concatenate([nodal(part) @ weights for part in in_blocks(times)])


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
