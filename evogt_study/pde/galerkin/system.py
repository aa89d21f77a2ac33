"""Galerkin assembly on the retained space: alpha' + K(t) alpha + r(alpha, t) = b(t), alpha(0) (eq:retained_ode).

r_i = (F'(u), phi~_i)_q of a potential F (eq:ac_g_quad, where it has the other sign), or -(g(u, x, t), phi~_i)_q of a
nonlinear reaction; absent where the problem has neither.  With a lifting u = u_b + phi~ . alpha, and b is the lifted
load (eq:lifted_load).

Separable data are assembled once per profile.  Data whose time and space do not split are assembled from the nodes at
each time at which they are used; the numbers are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np

from evogt_study.errors import ProblemError
from evogt_study.pde.galerkin import assembly
from evogt_study.pde.galerkin.problem import (
    Lifting,
    NonlinearReaction,
    Potential,
    Problem,
    Separable,
    Tensor,
    multiply,
)
from evogt_study.pde.galerkin.retained_space import RetainedSpace, trial_values
from evogt_study.pde.numerics.arrays import Array
from evogt_study.pde.numerics.quadrature import Quadrature


@dataclass(frozen=True, eq=False)
class AssembledLifting:
    """Terms of the lifting u_b in norms, energies and nodal values, each as a function of times."""

    mass: assembly.Series
    flux: assembly.Series
    square: assembly.Series
    energy: assembly.Series
    nodal: assembly.Series


@dataclass(frozen=True, eq=False)
class Reaction:
    """The nonlinear term r = F'(u), or r = -g(u, x, t), with the values (Q, r), weights and nodes that project it."""

    law: Potential | NonlinearReaction
    values: Array
    weights: Array
    nodes: Array

    def prepare(self) -> Callable[[Array, Array | None, float], tuple[Array, float]]:
        """Return the function (alpha, u_b, t) -> (r, phi~_i)_q and sum_q w_q F(u).  Each call overwrites the last
        result."""
        # Called at every step of a gradient flow: new arrays at each operation took 6 % of its time.
        values, weights, projected, law = self.values, self.weights, np.empty(self.values.shape[1]), self.law
        u, weighted = np.empty_like(weights), np.empty_like(weights)

        def react(alpha: Array, lifted: Array | None, t: float) -> tuple[Array, float]:
            np.matmul(values, alpha, out=u)
            if lifted is not None:
                np.add(u, lifted, out=u)
            if isinstance(law, Potential):
                value, slope = law.both(u)
                bulk = float(weights @ value)
            else:
                slope, bulk = -law.value(u, self.nodes, t), 0.0
            np.matmul(np.multiply(weights, slope, out=weighted), values, out=projected)
            return projected, bulk

        return react

    def jacobian(self, alpha: Array, lifted: Array | None, t: float) -> Array:
        """Return d(r, phi~_i)_q / d alpha_j = (r_u phi~_j, phi~_i)_q of a reaction, (r, r)."""
        assert isinstance(self.law, NonlinearReaction)  # noqa: S101  # potentials are never implicit
        u = self.values @ alpha
        if lifted is not None:
            u += lifted
        return assembly.weighted_gram(self.values[None], -self.weights * self.law.slope(u, self.nodes, t))


@dataclass(frozen=True, eq=False)
class GalerkinSystem:
    """The retained system with identity mass."""

    stiffness: Callable[[float], Array]
    autonomous: bool
    load: assembly.Series
    initial: Array
    lifting: AssembledLifting | None = None
    reaction: Reaction | None = None
    steady_load: bool = False
    symmetric: bool = True
    diffusion: Callable[[float], Array] | None = None

    @cached_property
    def modes(self) -> tuple[Array, Array]:
        """Eigenvalues (r,) and eigenvectors (r, r) of K at t = 0, for the steps of an autonomous system."""
        stiffness = self.stiffness(0.0)
        stiff = stiffness.any(axis=0)
        if stiff.all():
            return np.linalg.eigh(stiffness)
        # a function without stiffness (the constant) is a mode with eigenvalue 0: eigh would give one of 1e-16 |K|, by
        # which the mass grows at each step
        eigenvalues, basis = np.zeros(self.initial.size), np.eye(self.initial.size)
        block = np.ix_(stiff, stiff)
        eigenvalues[stiff], basis[block] = np.linalg.eigh(stiffness[block])
        return eigenvalues, basis

    def nodal_lifting(self, t: float) -> Array | None:
        """Return u_b at the assembly nodes, (Q,), or None without a lifting."""
        return None if self.lifting is None else self.lifting.nodal(np.array([t]))[0]

    @property
    def linear(self) -> bool:
        """True if the system has no nonlinear term."""
        return self.reaction is None

    @property
    def mass(self) -> Array:
        """The diagonal of the mass matrix: ones."""
        return np.ones_like(self.initial)

    def jacobian(self, t: float, alpha: Array) -> Array:
        """Return d alpha'/d alpha, (r, r)."""
        if self.reaction is None:
            return -self.stiffness(t)
        return -(self.stiffness(t) + self.reaction.jacobian(alpha, self.nodal_lifting(t), t))

    def rate(self, t: float, alpha: Array) -> Array:
        """Return alpha' = b - K alpha - r (eq:retained_ode), (r,)."""
        rate = self.load(np.array([t]))[0] - self.stiffness(t) @ alpha
        if self.reaction is not None:
            rate -= self.reaction.prepare()(alpha, self.nodal_lifting(t), t)[0]
        return np.asarray(rate)


@dataclass(frozen=True, eq=False)
class NodalData:
    """Data of a problem at the assembly nodes, which all seeds share.  None for data that are not separable."""

    diffusion: Array | None
    source: Array | None
    initial: Array


# without u_b: the retained space holds u - u_b, which vanishes on the Dirichlet boundary
def nodal_data(problem: Problem, nodes: Array) -> NodalData:
    """Evaluate the parts that do not depend on time at `nodes` (Q, d)."""
    initial = problem.initial(nodes) - problem.lift_at(nodes, 0.0)
    diffusion, source = (
        part.profiles(nodes) if isinstance(part, Separable) else None for part in (problem.diffusion, problem.source)
    )
    return NodalData(diffusion, source, initial)


# in retained coordinates from the start: raw N x N matrices would be ill-conditioned, and are never formed
def assemble(
    space: RetainedSpace,
    problem: Problem,
    term: assembly.StiffnessTerm = assembly.compute_term,
    nodal: NodalData | None = None,
) -> GalerkinSystem:
    """Assemble stiffness, load and initial value in retained coordinates (eq:raw_to_normalized)."""
    rule = space.quadrature
    nodal = nodal_data(problem, rule.nodes) if nodal is None else nodal
    basis = assembly.DenseBasis(rule, space.values, space.gradients)
    faces = {face.face: basis_on_face(space, rule, face.face) for face in problem.faces}
    load, flux = assembly.assemble_load(basis, problem, faces, nodal.source)
    lifting = None if problem.lifting is None else _assemble_lifting(space, problem.lifting, flux)
    stiffness, diffusion = assembly.operator_matrix(basis, problem, faces, nodal.diffusion, term)
    law = problem.reaction if isinstance(problem.reaction, NonlinearReaction) else problem.potential
    return GalerkinSystem(
        stiffness, problem.has_steady_operator, load, space.project(nodal.initial), lifting,
        None if law is None else Reaction(law, space.values, rule.weights, rule.nodes), problem.has_steady_load,
        symmetric=problem.advection is None,  # only b . grad u makes a form that is not symmetric
        diffusion=diffusion,
    )  # fmt: skip


def basis_on_face(space: RetainedSpace, quadrature: Quadrature, name: str) -> assembly.DenseBasis:
    """Return the retained basis on a face of the domain."""
    rule = quadrature.faces[name]
    values = trial_values(space.domain, space.features, rule.nodes) @ space.transform
    return assembly.DenseBasis(rule, values, np.empty((0, *values.shape)))


def _assemble_lifting(space: RetainedSpace, lifting: Lifting, flux: assembly.Series) -> AssembledLifting:
    nodes, weights = space.quadrature.nodes, space.quadrature.weights
    densities = [multiply(*pair) for pair in zip(lifting.flux, lifting.gradient, strict=True)]
    squares = multiply(lifting.value, lifting.value)

    def integrate(nodal: assembly.Series) -> assembly.Series:
        # with few times in memory at once
        return lambda times: np.concatenate([nodal(part) @ weights for part in assembly.split_times(times)])

    return AssembledLifting(
        mass=assembly.moments_of(lifting.value, nodes, space.project),
        flux=flux,
        square=integrate(lambda times: squares(nodes, times)),
        energy=integrate(lambda times: reduce(np.add, [part(nodes, times) for part in densities])),
        nodal=lambda times: lifting.value(nodes, times),
    )


def check_diffusion(problem: Problem, quadrature: Quadrature, times: Array) -> None:
    """Raise ProblemError unless a, or the least eigenvalue of A, is positive and finite at the nodes at all `times`."""
    tensor = isinstance(problem.diffusion, Tensor)
    wanted = "positive definite" if tensor else "positive"
    # at the nodes and times that K is made of: what a is elsewhere cannot make it indefinite
    for part in assembly.split_times(times[:1] if problem.diffusion.steady else times):
        values = problem.diffusion(quadrature.nodes, part)
        if tensor and np.isfinite(values).all():
            values = np.asarray(np.linalg.eigvalsh(values), dtype=np.float64)
        smallest, largest = float(np.min(values)), float(np.max(values))
        if not smallest > 0.0:  # so that NaN is refused too
            got = f"a least eigenvalue of {smallest:.6g}" if tensor else f"a minimum of {smallest:.6g}"
            raise ProblemError(f"`diffusion` must be {wanted} on the assembly nodes, got {got}")
        if not largest < np.inf:
            raise ProblemError(f"`diffusion` must be finite on the assembly nodes, got a maximum of {largest:.6g}")
