"""Construction of the retained space from trial functions by a truncated weighted SVD."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg
from scipy.linalg.lapack import dgeqrt

from evogt_study.errors import EmptySpaceError
from evogt_study.pde.dictionaries.base import Features, FirstOrder
from evogt_study.pde.domains import Domain
from evogt_study.pde.domains.base import MappedFeatures
from evogt_study.pde.numerics import Array, Quadrature

_NODES_AT_ONCE = 512
"""Number of nodes in a block that stays in cache.  An array of 240 features takes 1 MB."""
SVD = "svd"


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


def trial_functions(domain: Domain, features: Features, quadrature: Quadrature) -> TrialFunctions:
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
        """Ratio (sigma_N / sigma_1)^2 of the extreme eigenvalues of the mass M_q, unresolved below 2.22e-16."""
        return float((self.singular_values[-1] / self.singular_values[0]) ** 2)


# B = Q R and R have equal singular values and right vectors.  For 8,000 x 320 the SVD of R takes 83 ms instead of 238.
# dgeqrt factorises in blocks, which takes 66 ms instead of 100 for 8,000 x 320.
# gesdd, gesvd and QR before the SVD agree to 1e-9 in the final error of each seed.  This function uses the fastest one,
# from SciPy.  With the SVD of NumPy 2.5.5 some seeds have three times the mass defect on every kernel (table tau_diag).
def weighted_svd(trial: TrialFunctions) -> WeightedSVD:
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


DECOMPOSITIONS = {SVD: weighted_svd, "eigenvalues": decompose_mass}
"""Functions that compute the directions of the retained space, by name."""


@dataclass(frozen=True, eq=False)
class RetainedSpace:
    """Retained space V_{N,r} with the basis phi~ = T_r^T phi (eq:retained_basis), orthonormal in the assembly rule."""

    domain: Domain
    features: Features
    quadrature: Quadrature
    transform: Array
    values: Array
    gradients: Array
    singular_values: Array

    @property
    def rank(self) -> int:
        """Number of retained directions r."""
        return int(self.transform.shape[1])

    @property
    def condition(self) -> float:
        """Condition number kappa_ret = lambda_1 / lambda_min,kept, which is at most 1 / tau."""
        return float((self.singular_values[0] / self.singular_values[-1]) ** 2)

    # symmetrised, because eigvalsh reads one triangle only and rounding makes the triangles differ
    @cached_property
    def mass_defect(self) -> float:
        """Mass defect epsilon_M = || Phi~^T W_q Phi~ - I_r ||_2 (app:threshold), which is zero without rounding."""
        mass = self.values.T @ (self.quadrature.weights[:, None] * self.values)
        defect = np.linalg.eigvalsh((mass + mass.T) / 2.0 - np.eye(self.rank))
        return float(np.abs(defect).max())

    def evaluate(self, nodes: Array, coefficients: Array) -> Array:
        """Return u_{N,r} = phi . (T_r alpha) (eq:retained_ansatz) at the nodes, (P, d) and (..., r) -> (..., P)."""
        return np.asarray((coefficients @ self.transform.T) @ evaluate_trial(self.domain, self.features, nodes).T)

    def project(self, nodal: Array) -> Array:
        """Return the quadrature-orthogonal projection Phi~^T W_q v of nodal values, (..., Q) -> (..., r)."""
        return np.asarray((nodal * self.quadrature.weights) @ self.values)


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
    return RetainedSpace(trial.domain, trial.features, trial.quadrature, transform, values, gradients, kept)


def evaluate_retained(domain: Domain, psi: FirstOrder, nodes: Array, transform: Array) -> tuple[Array, Array]:
    """Return phi~ = D (T_r^T psi), (Q, r), and its gradient (d, Q, r) (app:feature_derivatives)."""
    count, dimension = nodes.shape
    values, gradients = psi.value @ transform, np.empty((dimension, count, transform.shape[1]))
    D, dD = (part[..., None] for part in domain.boundary_factor(nodes, 1))
    factor = psi.factor(transform)
    for start in range(0, count, _NODES_AT_ONCE):
        block = slice(start, start + _NODES_AT_ONCE)
        np.multiply(psi.rows(block).mapped(factor), D[block], out=gradients[:, block])
        for axis in range(dimension):
            gradients[axis, block] += dD[axis, block] * values[block]
    # last, because the product rule above needs T_r^T psi without D
    values *= D
    return values, gradients
