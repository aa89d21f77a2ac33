"""Compute the retained space by a truncated weighted SVD, and assemble Galerkin systems in dense or sparse bases.

A system is M alpha' + K(t) alpha + r(alpha, t) = b(t) (eq:retained_ode) for u = u_b + phi . alpha with a lifting u_b:

    K_ij = (A grad phi_j, grad phi_i) + (b . grad phi_j - c phi_j, phi_i) + (transfer phi_j, phi_i)_faces
    b_i = (f, phi_i) + (flux, phi_i)_faces,    r_i = (F'(u), phi_i) or -(g(u, x, t), phi_i)
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from typing import Any

import numpy as np
import scipy.linalg
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dgeqrt

from evogt_study.errors import EmptySpaceError, ProblemError
from evogt_study.pde.dictionaries.base import Features, FirstOrder
from evogt_study.pde.domains import Domain
from evogt_study.pde.domains.base import MappedFeatures
from evogt_study.pde.galerkin.problem import (
    NonlinearReaction,
    Potential,
    Problem,
    Separable,
    SpaceTimeFunction,
    Tensor,
    multiply,
)
from evogt_study.pde.numerics import Array, Quadrature

GRADIENT_NODES_AT_ONCE = 512
"""Number of nodes in a block of gradients that stays in cache.  An array of 240 features takes 1 MB."""
_NODES_AT_ONCE = 1024
"""Number of nodes in a block of `assemble_gram`.  A block takes 2 MB for 240 retained functions."""
TIMES_AT_ONCE = 64
"""Number of times in a block.  The values at 8,000 nodes take 4 MB."""
SVD = "svd"
MatrixInTime = Callable[[float], Any]
Series = Callable[[Array], Array]
"""Function that returns a quantity at given times, (T,) -> (T, ...)."""


@dataclass(frozen=True, eq=False)
class TrialFunctions:
    """Trial functions phi_j = D psi_j (eq:raw_trial_space) at the assembly nodes, with the boundary factor D."""

    domain: Domain
    features: Features
    quadrature: Quadrature
    psi: FirstOrder

    @property
    def has_constant(self) -> bool:
        """True if the last function is the constant 1."""
        return isinstance(self.features, MappedFeatures) and self.features.constant

    @property
    def values(self) -> Array:
        """Values Phi (Q, N) of the trial functions.  Each access of this property computes the array."""
        (D,) = self.domain.boundary_factor(self.quadrature.nodes)
        return np.asarray(D[:, None] * self.psi.value)


def make_trial(domain: Domain, features: Features, quadrature: Quadrature) -> TrialFunctions:
    """Evaluate the features psi and their gradients on the assembly nodes (app:feature_derivatives)."""
    return TrialFunctions(domain, features, quadrature, features.first_order(quadrature.nodes))


def evaluate_trial(domain: Domain, features: Features, nodes: Array) -> Array:
    """Return the trial functions phi = D psi at `nodes`, (Q, d) -> (Q, N)."""
    (D,) = domain.boundary_factor(nodes)
    return np.asarray(D[:, None] * features.values(nodes))


@dataclass(frozen=True, eq=False)
class WeightedSVD:
    """Singular values (N,), largest first, and V (N, N) of B = W_q^{1/2} Phi = U Sigma V^T (eq:SVD)."""

    singular_values: Array
    right: Array

    @property
    def raw_resolution(self) -> float:
        """Ratio (sigma_N / sigma_1)^2 of the eigenvalues of M_q.  Double precision resolves ratios above 2e-16."""
        return float((self.singular_values[-1] / self.singular_values[0]) ** 2)


# B = Q R and R have equal singular values and right vectors.  For 8,000 x 320 the SVD of R takes 83 ms instead of 238.
# dgeqrt factorises in blocks, which takes 66 ms instead of 100 for 8,000 x 320.
# gesdd, gesvd and QR before the SVD agree to 1e-9 in the final error of each seed.  This function uses the fastest,
# from SciPy.  With the SVD of NumPy 2.5.5 some seeds have three times the mass defect on every kernel (table tau_diag).
def compute_weighted_svd(trial: TrialFunctions) -> WeightedSVD:
    """Compute sigma and V of W_q^{1/2} Phi by a QR factorisation, because M_q would lose small eigenvalues."""
    rule = trial.quadrature
    (D,) = trial.domain.boundary_factor(rule.nodes)
    weighted = (np.sqrt(rule.weights) * D)[:, None] * trial.psi.value
    means = None
    if trial.has_constant:  # make all features orthogonal to the last one, the constant
        weighted, constant = weighted[:, :-1], weighted[:, -1]
        means = constant @ weighted / (constant @ constant)
        weighted -= np.outer(constant, means)
    factored, *_ = dgeqrt(min(64, *weighted.shape), np.asfortranarray(weighted), overwrite_a=True)
    count = weighted.shape[1]
    triangle = np.triu(factored[:count])
    _, sigma, right = scipy.linalg.svd(triangle, full_matrices=False, overwrite_a=True, check_finite=False)
    singular_values = np.zeros(count)
    # with Q < N nodes R has Q rows, and the other singular values are zero
    singular_values[: len(sigma)] = sigma
    if not singular_values[0] > 0.0:
        raise EmptySpaceError("every trial function vanishes at the assembly nodes (sigma_1 = 0)")
    if means is not None:
        sizes = np.append(sigma, np.linalg.norm(constant))
        order = np.argsort(-sizes, kind="stable")
        right = np.block([[right, -(right @ means)[:, None]], [np.zeros(right.shape[1]), 1.0]])[order]
        singular_values = np.zeros(count + 1)
        singular_values[: len(sizes)] = sizes[order]
    # The order in memory decides the last bits of its products.  The shipped results have this order.
    return WeightedSVD(singular_values, np.ascontiguousarray(right).T)


def decompose_mass(trial: TrialFunctions) -> WeightedSVD:
    """Compute sigma and V from the nonnegative eigenvalues of M_q = V Lambda V^T (eq:eig_phi), up to rounding."""
    weighted = np.sqrt(trial.quadrature.weights)[:, None] * trial.values
    eigenvalues, vectors = np.linalg.eigh(weighted.T @ weighted)
    if not eigenvalues[-1] > 0.0:
        raise EmptySpaceError("every trial function vanishes at the assembly nodes (lambda_1 = 0)")
    return WeightedSVD(np.sqrt(np.maximum(eigenvalues[::-1], 0.0)), np.ascontiguousarray(vectors[:, ::-1]))


DECOMPOSITIONS = {SVD: compute_weighted_svd, "eigenvalues": decompose_mass}
"""Functions that compute the directions of the retained space, by name."""


# uses singular values of B, because eigenvalues of M_q have half of the correct digits
def retain(trial: TrialFunctions, svd: WeightedSVD, tau: float) -> RetainedSpace:
    """Retain directions with sigma_i > sqrt(tau) sigma_1, T_r = V_r Sigma_r^{-1} (eq:normalized_phi, app:threshold)."""
    rank = int(np.count_nonzero(svd.singular_values > np.sqrt(tau) * svd.singular_values[0]))
    kept = svd.singular_values[:rank]
    transform = svd.right[:, :rank] / kept
    values, gradients = evaluate_retained(trial.domain, trial.psi, trial.quadrature.nodes, transform)
    if trial.has_constant:  # remove means due to rounding, which would change the integral of u
        means = trial.quadrature.weights @ values / trial.quadrature.weights.sum()
        means *= transform[:-1].any(axis=0)
        values, transform[-1] = values - means, transform[-1] - means
    return RetainedSpace(trial.quadrature, values, gradients, trial.domain, trial.features, transform, kept)


def evaluate_retained(domain: Domain, psi: FirstOrder, nodes: Array, transform: Array) -> tuple[Array, Array]:
    """Return phi~ = D (T_r^T psi), (Q, r), and its gradient (d, Q, r) (app:feature_derivatives)."""
    count, dimension = nodes.shape
    values, gradients = psi.value @ transform, np.empty((dimension, count, transform.shape[1]))
    D, dD = (part[..., None] for part in domain.boundary_factor(nodes, 1))
    for start in range(0, count, GRADIENT_NODES_AT_ONCE):
        block = slice(start, start + GRADIENT_NODES_AT_ONCE)
        np.multiply(psi.apply(transform, block), D[block], out=gradients[:, block])
        for axis in range(dimension):
            gradients[axis, block] += dD[axis, block] * values[block]
    # last, because the product rule above needs T_r^T psi without D
    values *= D
    return values, gradients


def assemble_gram(gradients: Array, nodal: Array) -> Array:
    """Return the symmetric matrix sum_l G_l^T diag(nodal) G_l, (d, Q, r) and (Q,) -> (r, r)."""
    # the upper triangle by BLAS (dsyrk), in Fortran order, so that dsyrk does not copy it for each block of nodes
    upper = np.zeros((gradients.shape[2],) * 2, order="F")
    roots, negative = np.sqrt(np.abs(nodal))[:, None], nodal < 0.0
    for gradient in gradients:
        for start in range(0, len(nodal), _NODES_AT_ONCE):
            block = slice(start, start + _NODES_AT_ONCE)
            scaled, below = roots[block] * gradient[block], negative[block]
            # profiles of a separable diffusion, and linear reactions, may be negative and have no root
            for sign, part in ((-1.0, below), (1.0, ~below)):
                if part.any():
                    rows = scaled if part.all() else scaled[part]
                    upper = dsyrk(sign, rows.T, beta=1.0, c=upper, overwrite_c=1)
    return np.asarray(upper + np.triu(upper, 1).T)


@dataclass(frozen=True, eq=False)
class Basis(ABC):
    """Values (Q, r) and gradients (d, Q, r) of basis functions.  Methods take nodal values (Q,) of a coefficient."""

    rule: Quadrature
    values: Any
    gradients: Any

    @abstractmethod
    def product(self, left: Any, right: Any, nodal: Array) -> Any:
        """Return the matrix left^T diag(w nodal) right of two matrices (Q, r)."""

    def gram(self, nodal: Array) -> Any:
        """Return the matrix (c phi_j, phi_i) for the nodal values of c."""
        return self.product(self.values, self.values, nodal)

    def stiffness(self, nodal: Array) -> Any:
        """Return the matrix (a grad phi_j, grad phi_i) for the nodal values of a."""
        return reduce(lambda one, two: one + two, [self.product(G, G, nodal) for G in self.gradients])

    def tensor_term(self, i: int, j: int, nodal: Array) -> Any:
        """Return the contribution of A_ij and A_ji to the stiffness."""
        if i == j:
            return self.product(gradient := self.gradients[i], gradient, nodal)
        product = self.product(self.gradients[i], self.gradients[j], nodal)
        return product + product.T  # exactly symmetric

    def project(self, nodal: Array, axis: int | None = None) -> Array:
        """Return (v, phi_i), or (v, d phi_i / dx_axis) if `axis` is given, (..., Q) -> (..., r)."""
        return np.asarray((nodal * self.rule.weights) @ (self.values if axis is None else self.gradients[axis]))


class DenseBasis(Basis):
    """Basis with dense arrays: values (Q, r) and gradients (d, Q, r)."""

    values: Array
    gradients: Array

    def product(self, left: Array, right: Array, nodal: Array) -> Array:
        if left is right:
            return assemble_gram(left[None], self.rule.weights * nodal)
        return np.asarray(left.T @ ((self.rule.weights * nodal)[:, None] * right))

    def stiffness(self, nodal: Array) -> Array:
        return assemble_gram(self.gradients, self.rule.weights * nodal)


@dataclass(frozen=True, eq=False)
class RetainedSpace(DenseBasis):
    """Retained space V_{N,r} with the basis phi~ = T_r^T phi (eq:retained_basis), orthonormal on the assembly rule."""

    domain: Domain
    features: Features
    transform: Array
    singular_values: Array

    @property
    def rank(self) -> int:
        """Number of retained directions r."""
        return int(self.transform.shape[1])

    @property
    def condition(self) -> float:
        """Condition number kappa_ret = lambda_1 / lambda_min,kept, which is at most 1 / tau."""
        return float((self.singular_values[0] / self.singular_values[-1]) ** 2)

    # symmetrise the mass, because eigvalsh reads one triangle and rounding makes the triangles differ
    @cached_property
    def mass_defect(self) -> float:
        """Mass defect epsilon_M = || Phi~^T W_q Phi~ - I_r ||_2 (app:threshold), which is zero without rounding."""
        mass = self.values.T @ (self.rule.weights[:, None] * self.values)
        defect = np.linalg.eigvalsh((mass + mass.T) / 2.0 - np.eye(self.rank))
        return float(np.abs(defect).max())

    def evaluate(self, nodes: Array, coefficients: Array) -> Array:
        """Return u_{N,r} = phi . (T_r alpha) (eq:retained_ansatz) at the nodes, (P, d) and (..., r) -> (..., P)."""
        return np.asarray((coefficients @ self.transform.T) @ evaluate_trial(self.domain, self.features, nodes).T)


def assemble_operator(
    basis: Basis, problem: Problem, faces: Mapping[str, Basis]
) -> tuple[MatrixInTime, MatrixInTime | None]:
    """Return K and its diffusion part as functions of time.  The diffusion part is None if K has no other part."""
    if isinstance(problem.diffusion, Tensor):
        upper = problem.diffusion.upper.items()
        tensor = [_assemble(part, basis, partial(basis.tensor_term, *place)) for place, part in upper]
        diffusion = add_functions(tensor)
    else:
        diffusion = _assemble(problem.diffusion, basis, basis.stiffness)
    parts = [
        _assemble(b, basis, partial(basis.product, basis.values, basis.gradients[axis]))
        for axis, b in enumerate(problem.advection or ())
    ]
    if problem.linear_reaction is not None:
        parts.append(_assemble(problem.linear_reaction, basis, lambda nodal: -basis.gram(nodal)))
    transfers = [(data.transfer, faces[data.face]) for data in problem.faces if data.transfer is not None]
    parts += [_assemble(transfer, face, face.gram) for transfer, face in transfers]
    if not parts:
        return diffusion, None
    others = add_functions(parts)
    if problem.has_steady_operator:
        constant = diffusion(0.0) + others(0.0)
        return lambda t: constant, diffusion
    return lambda t: diffusion(t) + others(t), diffusion


def _assemble(function: SpaceTimeFunction, basis: Basis, form: Callable[[Array], Any]) -> MatrixInTime:
    """Return the matrix of a coefficient as a function of time, with one assembly per separable profile."""
    if not isinstance(function, Separable):
        return lambda t: form(function.at(basis.rule.nodes, t))
    terms: Any = [form(profile) for profile in function.profiles(basis.rule.nodes)]
    if function.steady:
        return lambda t: terms[0]  # the factor of this term is one at all times
    terms = np.stack(terms) if isinstance(terms[0], np.ndarray) else terms

    def combine(t: float) -> Any:
        modulations = function.evaluate_modulations(np.array([t]))[:, 0]
        if isinstance(terms, np.ndarray):
            return np.asarray(np.tensordot(modulations, terms, axes=1))
        return reduce(operator.add, [float(m) * K for m, K in zip(modulations, terms, strict=True)])

    return combine


def assemble_load(basis: Basis, problem: Problem, faces: Mapping[str, Basis]) -> tuple[Series, Series]:
    """Return the load b minus the terms of a lifting, and the flux term of the lifting (eq:lifted_load)."""
    nodes, lifting = basis.rule.nodes, problem.lifting
    loads = [assemble_moments(problem.source, nodes, basis.project)]
    for data in problem.faces:
        face = faces[data.face]
        loads.append(assemble_moments(data.flux, face.rule.nodes, face.project))
        if lifting is not None and data.transfer is not None:
            # -(transfer u_b, phi_i) on the face
            outflow = multiply(data.transfer, lifting.value)
            loads.append(partial(lambda face, flow, at: -face.project(flow(face.rule.nodes, at)), face, outflow))
    load = add_functions(loads)
    if lifting is None:
        return load, load
    flux = add_functions(
        [assemble_moments(q, nodes, partial(basis.project, axis=axis)) for axis, q in enumerate(lifting.flux)]
    )
    # u_b moves to the right-hand side of the weak form (remark nonhomo)
    moved = [assemble_moments(lifting.rate, nodes, basis.project), flux]
    if lifting.lower_order is not None:
        moved.append(assemble_moments(lifting.lower_order, nodes, basis.project))
    return lambda times: reduce(operator.sub, [part(times) for part in (load, *moved)]), flux


def assemble_moments(function: SpaceTimeFunction, nodes: Array, project: Callable[[Array], Array]) -> Series:
    """Return the projected nodal values as a function of times, with one projection per profile of separable data."""
    if not isinstance(function, Separable):
        return lambda times: np.concatenate([project(function(nodes, part)) for part in split_times(times)])
    terms = project(function.profiles(nodes))
    return lambda times: np.asarray(function.evaluate_modulations(times).T @ terms)


def add_functions(parts: list[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    """Return the sum of functions of one time or of several times."""
    return parts[0] if len(parts) == 1 else lambda at: reduce(operator.add, [part(at) for part in parts])


def split_times(times: Array) -> list[Array]:
    """Split `times` into blocks, so that the values at all nodes of one block fit in memory."""
    return np.array_split(times, max(1, -(-len(times) // TIMES_AT_ONCE)))


@dataclass(frozen=True, eq=False)
class AssembledLifting:
    """Terms of the lifting u_b in norms, energies and nodal values, each as a function of times."""

    mass: Series
    flux: Series
    square: Series
    energy: Series
    nodal: Series


@dataclass(frozen=True, eq=False)
class Reaction:
    """Nonlinear term r = F'(u) or r = -g(u, x, t) in a basis."""

    law: Potential | NonlinearReaction
    basis: Basis

    def evaluate(self, alpha: Array, lifted: Array | float, t: float) -> tuple[Array, float]:
        """Return (r, phi_i) and sum_q w_q F(u) for u = phi . alpha + u_b."""
        u, law = self.basis.values @ alpha + lifted, self.law
        if isinstance(law, Potential):
            return self.basis.project(law.slope(u)), float(self.basis.rule.weights @ law.value(u))
        return self.basis.project(-law.value(u, self.basis.rule.nodes, t)), 0.0

    def jacobian(self, alpha: Array, lifted: Array | float, t: float) -> Any:
        """Return the matrix d(r, phi_i) / d alpha_j = (r_u phi_j, phi_i) of a reaction, (r, r)."""
        assert isinstance(self.law, NonlinearReaction)  # noqa: S101  # potentials are never implicit
        return self.basis.gram(-self.law.slope(self.basis.values @ alpha + lifted, self.basis.rule.nodes, t))


@dataclass(frozen=True, eq=False)
class GalerkinSystem:
    """System M alpha' + K(t) alpha + r(alpha, t) = b(t).  On the retained space the mass matrix M is the identity."""

    stiffness: MatrixInTime
    autonomous: bool
    load: Series
    initial: Array
    lifting: AssembledLifting | None = None
    reaction: Reaction | None = None
    symmetric: bool = True
    diffusion: MatrixInTime | None = None
    sparse_mass: Any = None

    @cached_property
    def modes(self) -> tuple[Array, Array]:
        """Eigenvalues (r,) and eigenvectors (r, r) of K at t = 0, for the steps of an autonomous system."""
        stiffness = self.stiffness(0.0)
        stiff = stiffness.any(axis=0)
        if stiff.all():
            return np.linalg.eigh(stiffness)
        # a function without stiffness (the constant) is a mode with eigenvalue 0.  `eigh` would return 1e-16 |K|, and
        # the mass would grow at each step
        eigenvalues, basis = np.zeros(self.initial.size), np.eye(self.initial.size)
        block = np.ix_(stiff, stiff)
        eigenvalues[stiff], basis[block] = np.linalg.eigh(stiffness[block])
        return eigenvalues, basis

    def nodal_lifting(self, t: float) -> Array | float:
        """Return the lifting u_b at the assembly nodes, (Q,), or zero without a lifting."""
        return 0.0 if self.lifting is None else self.lifting.nodal(np.array([t]))[0]

    @property
    def linear(self) -> bool:
        """True if the system has no nonlinear term."""
        return self.reaction is None

    @property
    def mass(self) -> Any:
        """Sparse mass matrix, or the diagonal of the identity."""
        return np.ones_like(self.initial) if self.sparse_mass is None else self.sparse_mass

    def jacobian(self, t: float, alpha: Array) -> Any:
        """Return the Jacobian of `rate`, (r, r)."""
        if self.reaction is None:
            return -self.stiffness(t)
        return -(self.stiffness(t) + self.reaction.jacobian(alpha, self.nodal_lifting(t), t))

    def rate(self, t: float, alpha: Array) -> Array:
        """Return M alpha' = b - K alpha - r (eq:retained_ode), (r,)."""
        rate = self.load(np.array([t]))[0] - self.stiffness(t) @ alpha
        if self.reaction is not None:
            rate = rate - self.reaction.evaluate(alpha, self.nodal_lifting(t), t)[0]
        return np.asarray(rate)


@dataclass(frozen=True, eq=False)
class KnownProfiles:
    """Profiles of a separable function with their values (K, Q) at the assembly nodes."""

    values: Array

    def __call__(self, nodes: Array) -> Array:
        return self.values


def sample_data(problem: Problem, nodes: Array) -> tuple[Problem, Array]:
    """Return the problem with known profiles of diffusion and source at `nodes`, and the values of u_0 - u_b."""

    def sample(part: Any) -> Any:
        return replace(part, profiles=KnownProfiles(part.profiles(nodes))) if isinstance(part, Separable) else part

    known = replace(problem, diffusion=sample(problem.diffusion), source=sample(problem.source))
    return known, problem.initial(nodes) - problem.lift_at(nodes, 0.0)


# assembles in retained coordinates, because raw N x N matrices would be ill-conditioned
def assemble(space: RetainedSpace, problem: Problem, nodal: tuple[Problem, Array] | None = None) -> GalerkinSystem:
    """Assemble the system in retained coordinates (eq:raw_to_normalized), given the result of `sample_data`."""
    faces = {face.face: evaluate_on_face(space, space.rule.faces[face.face]) for face in problem.faces}
    known, initial = sample_data(problem, space.rule.nodes) if nodal is None else nodal
    return assemble_system(space, known, faces, space.project(initial))


def assemble_system(
    basis: Basis, problem: Problem, faces: Mapping[str, Basis], initial: Array, mass: Any = None
) -> GalerkinSystem:
    """Assemble the system of a problem in a basis, with the coefficients `initial` and the sparse matrix `mass`."""
    load, flux = assemble_load(basis, problem, faces)
    nodes, weights, lifting, u_b = basis.rule.nodes, basis.rule.weights, None, problem.lifting

    def integrate(function: Series) -> Series:  # with few times in memory at once
        return lambda times: np.concatenate([function(part) @ weights for part in split_times(times)])

    if u_b is not None:
        densities = [multiply(*pair) for pair in zip(u_b.flux, u_b.gradient, strict=True)]
        squares = multiply(u_b.value, u_b.value)
        lifting = AssembledLifting(
            mass=assemble_moments(u_b.value, nodes, basis.project),
            flux=flux,
            square=integrate(lambda times: squares(nodes, times)),
            energy=integrate(lambda times: reduce(np.add, [part(nodes, times) for part in densities])),
            nodal=partial(u_b.value, nodes),
        )
    stiffness, diffusion = assemble_operator(basis, problem, faces)
    law = problem.reaction if isinstance(problem.reaction, NonlinearReaction) else problem.potential
    return GalerkinSystem(
        stiffness, problem.has_steady_operator, load, initial, lifting, None if law is None else Reaction(law, basis),
        symmetric=problem.advection is None,  # only b . grad u makes a form that is not symmetric
        diffusion=diffusion, sparse_mass=mass,
    )  # fmt: skip


def evaluate_on_face(space: RetainedSpace, rule: Quadrature) -> DenseBasis:
    """Evaluate the retained basis at the nodes of a face."""
    values = evaluate_trial(space.domain, space.features, rule.nodes) @ space.transform
    return DenseBasis(rule, values, np.empty((0, *values.shape)))


def check_diffusion(problem: Problem, quadrature: Quadrature, times: Array) -> None:
    """Raise ProblemError unless a, or the least eigenvalue of A, is positive and finite at all nodes and `times`."""
    tensor = isinstance(problem.diffusion, Tensor)
    wanted = "positive definite" if tensor else "positive"
    # K depends only on these nodes and times
    for part in split_times(times[:1] if problem.diffusion.steady else times):
        values = problem.diffusion(quadrature.nodes, part)
        if tensor and np.isfinite(values).all():
            values = np.asarray(np.linalg.eigvalsh(values), dtype=np.float64)
        smallest, largest = float(np.min(values)), float(np.max(values))
        if not smallest > 0.0:  # also true for NaN
            got = f"a least eigenvalue of {smallest:.6g}" if tensor else f"a minimum of {smallest:.6g}"
            raise ProblemError(f"`diffusion` must be {wanted} on the assembly nodes, got {got}")
        if not largest < np.inf:
            raise ProblemError(f"`diffusion` must be finite on the assembly nodes, got a maximum of {largest:.6g}")
