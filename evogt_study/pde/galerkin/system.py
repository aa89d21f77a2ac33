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
from evogt_study.pde.galerkin.problem import (
    Diffusion,
    Lifting,
    NaturalFace,
    NonlinearReaction,
    Potential,
    Problem,
    Separable,
    SpaceTimeFunction,
    Tensor,
    multiply,
)
from evogt_study.pde.galerkin.retained_space import RetainedSpace, trial_values
from evogt_study.pde.galerkin.stiffness import (
    MatrixInTime,
    NodalBasis,
    StiffnessTerm,
    compute_term,
    diffusion_matrix,
    has_steady_operator,
    lower_order_matrix,
    scalar_diffusion,
    weighted_gram,
)
from evogt_study.pde.numerics.arrays import Array
from evogt_study.pde.numerics.quadrature import Quadrature

TIMES_AT_ONCE = 64
"""Times of a block.  Values at 8,000 nodes take 4 MB."""

Series = Callable[[Array], Array]
"""Function of times that returns a quantity at these times: (T,) -> (T, ...)."""


@dataclass(frozen=True, eq=False)
class AssembledLifting:
    """Terms of the lifting u_b in norms, energies and nodal values, each as a function of times."""

    mass: Series
    flux: Series
    square: Series
    energy: Series
    nodal: Series


@dataclass(frozen=True, eq=False)
class NodalRate:
    """g(u, x, t) and dg/du at the assembly nodes, each as a function of u (Q,) and t, (Q,)."""

    value: Callable[[Array, float], Array]
    slope: Callable[[Array, float], Array]


@dataclass(frozen=True, eq=False)
class Reaction:
    """The nonlinear term r = F'(u) of a potential, or r = -g(u, x, t) of a rate, with its projection."""

    potential: Potential | None
    values: Array
    weights: Array
    rate: NodalRate | None = None

    def prepare(self) -> Callable[[Array, Array | None, float], tuple[Array, float]]:
        """Return the function (alpha, u_b, t) -> (r, phi~_i)_q and sum_q w_q F(u).  Each call overwrites the last
        result."""
        # Called at every step of a gradient flow: new arrays at each operation took 6 % of its time.
        values, weights, projected = self.values, self.weights, np.empty(self.values.shape[1])
        u, weighted, potential, rate = np.empty_like(weights), np.empty_like(weights), self.potential, self.rate

        def reacted(alpha: Array, lifted: Array | None, t: float) -> tuple[Array, float]:
            np.matmul(values, alpha, out=u)
            if lifted is not None:
                np.add(u, lifted, out=u)
            if potential is not None:
                value, slope = potential.both(u)
                bulk = float(weights @ value)
            else:
                assert rate is not None  # noqa: S101  # there is one of the two
                slope, bulk = -rate.value(u, t), 0.0
            np.matmul(np.multiply(weights, slope, out=weighted), values, out=projected)
            return projected, bulk

        return reacted

    def jacobian(self, alpha: Array, lifted: Array | None, t: float) -> Array:
        """Return d(r, phi~_i)_q / d alpha_j = (r_u phi~_j, phi~_i)_q of a rate, (r, r)."""
        assert self.rate is not None  # noqa: S101  # potentials are never implicit
        u = self.values @ alpha
        if lifted is not None:
            u += lifted
        return weighted_gram(self.values[None], -self.weights * self.rate.slope(u, t))


@dataclass(frozen=True, eq=False)
class GalerkinSystem:
    """The retained system with identity mass."""

    stiffness: MatrixInTime
    autonomous: bool
    load: Series
    initial: Array
    lifting: AssembledLifting | None = None
    reaction: Reaction | None = None
    steady_load: bool = False
    symmetric: bool = True
    diffusion: MatrixInTime | None = None

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
    initial = problem.initial(nodes)
    if problem.lifting is not None:
        initial = initial - problem.lifting.value(nodes, np.zeros(1))[0]
    return NodalData(_profiles(problem.diffusion, nodes), _profiles(problem.source, nodes), initial)


def _profiles(function: Diffusion, nodes: Array) -> Array | None:
    return function.profiles(nodes) if isinstance(function, Separable) else None


# in retained coordinates from the start: raw N x N matrices would be ill-conditioned, and are never formed
def assemble(
    space: RetainedSpace, problem: Problem, term: StiffnessTerm = compute_term, nodal: NodalData | None = None
) -> GalerkinSystem:
    """Assemble stiffness, load and initial value in retained coordinates (eq:raw_to_normalized)."""
    rule = space.quadrature
    nodal = nodal_data(problem, rule.nodes) if nodal is None else nodal
    load = _moments(problem.source, rule.nodes, space.project, nodal.source)
    faces = {face.face: on_face(space, rule, face.face) for face in problem.faces}
    if faces:
        load = _sum([load, *(_face_load(face, faces[face.face], problem.lifting) for face in problem.faces)])
    lifting = None
    if problem.lifting is not None:
        lifting = _assemble_lifting(space, problem.lifting)
        load = _assemble_lifted_load(space, load, problem.lifting, lifting)
    basis = NodalBasis(rule, space.values, space.gradients)
    stiffness, diffusion = operator_matrix(basis, problem, faces, nodal.diffusion, term)
    # only b . grad u makes a form that is not symmetric
    symmetric = problem.advection is None
    return GalerkinSystem(
        stiffness, has_steady_operator(problem), load, space.project(nodal.initial), lifting, _reaction(space, problem),
        has_steady_load(problem), symmetric, diffusion,
    )  # fmt: skip


def operator_matrix(
    basis: NodalBasis, problem: Problem, faces: dict[str, NodalBasis], profiles: Array | None = None,
    term: StiffnessTerm = compute_term,
) -> tuple[MatrixInTime, MatrixInTime | None]:  # fmt: skip
    """Return K on a basis, and its diffusion part if there are other terms."""
    if isinstance(problem.diffusion, Tensor):
        diffusion = diffusion_matrix(basis, problem)
    else:
        diffusion = scalar_diffusion(basis, problem.diffusion, profiles, term)
    others = lower_order_matrix(basis, problem, faces)
    if others is None:
        return diffusion, None
    if has_steady_operator(problem):
        constant = diffusion(0.0) + others(0.0)
        return lambda t: constant, diffusion
    return lambda t: diffusion(t) + others(t), diffusion


def on_face(space: RetainedSpace, quadrature: Quadrature, name: str) -> NodalBasis:
    """Return the retained basis on a face of the domain."""
    rule = quadrature.faces[name]
    values = trial_values(space.domain, space.features, rule.nodes) @ space.transform
    return NodalBasis(rule, values, np.empty((0, *values.shape)))


def _face_load(data: NaturalFace, face: NodalBasis, lifting: Lifting | None) -> Series:
    """Return (flux - transfer u_b, phi~_i) on a natural face."""
    project, nodes = _projection(face.values, face.rule.weights), face.rule.nodes
    flux = _moments(data.flux, nodes, project)
    if lifting is None or data.transfer is None:
        return flux
    lifted = multiply(data.transfer, lifting.value)
    return lambda times: flux(times) - project(lifted(nodes, times))


def _reaction(space: RetainedSpace, problem: Problem) -> Reaction | None:
    weights, nodes, law = space.quadrature.weights, space.quadrature.nodes, problem.reaction
    if problem.potential is not None:
        return Reaction(problem.potential, space.values, weights)
    if not isinstance(law, NonlinearReaction):
        return None
    rate = NodalRate(lambda u, t: law.value(u, nodes, t), lambda u, t: law.slope(u, nodes, t))
    return Reaction(None, space.values, weights, rate)


def has_steady_load(problem: Problem) -> bool:
    """Return True if neither the source nor the load of the lifting depends on t."""
    lifting = problem.lifting
    parts = [problem.source] + ([] if lifting is None else [lifting.rate, *lifting.flux])
    if lifting is not None and lifting.lower_order is not None:
        parts.append(lifting.lower_order)
    for face in problem.faces:
        parts.append(face.flux)
        parts += [] if lifting is None or face.transfer is None else [face.transfer, lifting.value]
    return all(part.steady for part in parts)


def _moments(
    function: SpaceTimeFunction, nodes: Array, project: Callable[[Array], Array], profiles: Array | None = None
) -> Series:
    """Return a function of times that applies the linear `project` to the nodal values, once for each profile."""
    if not isinstance(function, Separable):
        return lambda times: np.concatenate([project(function(nodes, part)) for part in in_blocks(times)])
    terms = project(function.profiles(nodes) if profiles is None else profiles)
    return lambda times: np.asarray(function.evaluate_modulations(times).T @ terms)


# The last two terms have a minus because u_b moves to the right-hand side of the weak form (remark nonhomo).
def _assemble_lifted_load(space: RetainedSpace, load: Series, lifting: Lifting, assembled: AssembledLifting) -> Series:
    """Return (f, phi~_i) - (u_b,t, phi~_i) - (A grad u_b, grad phi~_i) (eq:lifted_load), minus lower-order terms."""
    rate = _moments(lifting.rate, space.quadrature.nodes, space.project)
    if lifting.lower_order is None:
        return lambda times: load(times) - rate(times) - assembled.flux(times)
    others = _moments(lifting.lower_order, space.quadrature.nodes, space.project)
    return lambda times: load(times) - rate(times) - assembled.flux(times) - others(times)


def _assemble_lifting(space: RetainedSpace, lifting: Lifting) -> AssembledLifting:
    nodes, weights = space.quadrature.nodes, space.quadrature.weights
    fluxes = [
        _moments(flux, nodes, _projection(space.gradients[axis], weights)) for axis, flux in enumerate(lifting.flux)
    ]

    densities = [multiply(*pair) for pair in zip(lifting.flux, lifting.gradient, strict=True)]
    squares = multiply(lifting.value, lifting.value)
    return AssembledLifting(
        mass=_moments(lifting.value, nodes, space.project),
        flux=_sum(fluxes),
        square=_blockwise(lambda times: squares(nodes, times), weights),
        energy=_blockwise(lambda times: reduce(np.add, [part(nodes, times) for part in densities]), weights),
        nodal=lambda times: lifting.value(nodes, times),
    )


def _projection(basis: Array, weights: Array) -> Callable[[Array], Array]:
    """Return the weighted products of nodal values (..., Q) with the columns of `basis` (Q, r), (..., r)."""
    return lambda nodal: np.asarray((nodal * weights) @ basis)


def _sum(terms: list[Series]) -> Series:
    return lambda times: reduce(np.add, [term(times) for term in terms])


def _blockwise(nodal: Series, weights: Array) -> Series:
    """Return sum_q w_q v(x_q, t), with few times in memory at once."""
    return lambda times: np.concatenate([nodal(part) @ weights for part in in_blocks(times)])


def in_blocks(times: Array) -> list[Array]:
    """Yield `times` in blocks, so that values at all nodes and many steps need not fit in memory at once."""
    return np.array_split(times, max(1, -(-len(times) // TIMES_AT_ONCE)))


def check_diffusion(problem: Problem, quadrature: Quadrature, times: Array) -> None:
    """Raise ProblemError unless a, or the least eigenvalue of A, is positive and finite at the nodes at all `times`."""
    tensor = isinstance(problem.diffusion, Tensor)
    wanted = "positive definite" if tensor else "positive"
    # at the nodes and times that K is made of: what a is elsewhere cannot make it indefinite
    for part in in_blocks(times[:1] if problem.diffusion.steady else times):
        values = problem.diffusion(quadrature.nodes, part)
        if tensor and np.isfinite(values).all():
            values = np.asarray(np.linalg.eigvalsh(values), dtype=np.float64)
        smallest, largest = float(np.min(values)), float(np.max(values))
        if not smallest > 0.0:  # so that NaN is refused too
            got = f"a least eigenvalue of {smallest:.6g}" if tensor else f"a minimum of {smallest:.6g}"
            raise ProblemError(f"`diffusion` must be {wanted} on the assembly nodes, got {got}")
        if not largest < np.inf:
            raise ProblemError(f"`diffusion` must be finite on the assembly nodes, got a maximum of {largest:.6g}")
