"""The retained space: boundary-conforming trial functions, their weighted SVD, and its truncation to identity mass."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg
from scipy.linalg.lapack import dgeqrt

from evogt_study.errors import EmptySpaceError
from evogt_study.pde.dictionaries.base import Features, FirstOrder
from evogt_study.pde.domains import Domain
from evogt_study.pde.domains.base import WithConstant
from evogt_study.pde.numerics import Array, Quadrature

_NODES_AT_ONCE = 512
"""Nodes of a block that stays in cache: 1 MB for each array of some 240 features."""
SVD = "svd"


@dataclass(frozen=True, eq=False)
class TrialFunctions:
    """phi_j = D psi_j (eq:raw_trial_space) at the assembly nodes, from the features psi and the boundary factor D."""

    domain: Domain
    features: Features
    quadrature: Quadrature
    psi: FirstOrder

    @property
    def values(self) -> Array:
        """Phi (Q, N), computed at each access."""
        (D,) = self.domain.boundary_factor(self.quadrature.nodes)
        return np.asarray(D[:, None] * self.psi.value)


def trial_functions(domain: Domain, features: Features, quadrature: Quadrature) -> TrialFunctions:
    """Evaluate psi and its gradient on the assembly nodes (app:feature_derivatives)."""
    return TrialFunctions(domain, features, quadrature, features.first_order(quadrature.nodes))


def evaluate_trial(domain: Domain, features: Features, nodes: Array) -> Array:
    """Return phi = D psi at `nodes`, (Q, d) -> (Q, N)."""
    (D,) = domain.boundary_factor(nodes)
    return np.asarray(D[:, None] * features.values(nodes))


@dataclass(frozen=True, eq=False)
class WeightedSVD:
    """B = W_q^{1/2} Phi = U Sigma V^T (eq:SVD): sigma (N,) in nonincreasing order and V (N, N), without U."""

    singular_values: Array
    right: Array

    @property
    def raw_resolution(self) -> float:
        """sigma_min(M_q) / sigma_max(M_q) = (sigma_N / sigma_1)^2.  At most 2.22e-16, the raw mass is unresolved."""
        return float((self.singular_values[-1] / self.singular_values[0]) ** 2)


# B = Q R has the singular values and right vectors of R: of 8,000 x 320 that takes 83 ms instead of 238 (U is not
# needed).  dgeqrt factorises in blocks: 8,000 x 320 in 66 ms instead of 100.
# gesdd, gesvd and QR before the SVD agree to 1e-9 in the final errors, seed by seed: the fastest is used, from SciPy;
# with the SVD of NumPy 2.5.5 some seeds have three times the mass defect, on every kernel (table tau_diag)
def weighted_svd(trial: TrialFunctions) -> WeightedSVD:
    """Return sigma and V of W_q^{1/2} Phi by a QR factorisation, because M_q would lose small eigenvalues."""
    rule = trial.quadrature
    (D,) = trial.domain.boundary_factor(rule.nodes)
    weighted = (np.sqrt(rule.weights) * D)[:, None] * trial.psi.value
    means = None
    if isinstance(trial.features, WithConstant):  # the last feature, to which the others are made orthogonal
        weighted, constant = weighted[:, :-1], weighted[:, -1]
        means = constant @ weighted / (constant @ constant)
        weighted -= np.outer(constant, means)
    factored, *_ = dgeqrt(min(64, *weighted.shape), np.asfortranarray(weighted), overwrite_a=True)
    count = weighted.shape[1]
    triangle = np.triu(factored[:count])
    _, sigma, right = scipy.linalg.svd(triangle, full_matrices=False, overwrite_a=True, check_finite=False)
    singular_values = np.zeros(count)
    # with Q < N nodes R has Q rows: the rest of the singular values are zero
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
    """Return sigma and V by the eigenvalues of M_q = V Lambda V^T (eq:eig_phi), the variant of the paper's remark.

    It squares the condition: rounding takes eigenvalues below 2e-16 of the largest one, and zero replaces them.
    """
    weighted = np.sqrt(trial.quadrature.weights)[:, None] * trial.values
    eigenvalues, vectors = np.linalg.eigh(weighted.T @ weighted)
    if not eigenvalues[-1] > 0.0:
        raise EmptySpaceError("every trial function vanishes at the assembly nodes (lambda_1 = 0)")
    return WeightedSVD(np.sqrt(np.maximum(eigenvalues[::-1], 0.0)), np.ascontiguousarray(vectors[:, ::-1]))


DECOMPOSITIONS = {SVD: weighted_svd, "eigenvalues": decompose_mass}
"""Decompositions that give the directions of the retained space."""


@dataclass(frozen=True, eq=False)
class RetainedSpace:
    """The span V_{N,r} of phi~ = T_r^T phi (eq:retained_basis), orthonormal in the assembly quadrature."""

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
        """kappa_ret = lambda_1 / lambda_min,kept, at most 1 / tau by construction."""
        return float((self.singular_values[0] / self.singular_values[-1]) ** 2)

    # symmetrised, since eigvalsh reads one triangle only and rounding makes the two differ
    @cached_property
    def mass_defect(self) -> float:
        """epsilon_M = || Phi~^T W_q Phi~ - I_r ||_2 (app:threshold): rounding only, zero in exact arithmetic."""
        mass = self.values.T @ (self.quadrature.weights[:, None] * self.values)
        defect = np.linalg.eigvalsh((mass + mass.T) / 2.0 - np.eye(self.rank))
        return float(np.abs(defect).max())

    def evaluate(self, nodes: Array, coefficients: Array) -> Array:
        """Return u_{N,r} = phi . (T_r alpha) (eq:retained_ansatz) in the domain, (P, d) and (..., r) -> (..., P)."""
        return np.asarray((coefficients @ self.transform.T) @ evaluate_trial(self.domain, self.features, nodes).T)

    def project(self, nodal: Array) -> Array:
        """Return Phi~^T W_q v, the quadrature-orthogonal projection, nodal values (..., Q) -> (..., r)."""
        return np.asarray((nodal * self.quadrature.weights) @ self.values)


# by singular values of B, not by eigenvalues of M_q: squaring would lose half of the digits
def retain(trial: TrialFunctions, svd: WeightedSVD, tau: float) -> RetainedSpace:
    """Keep sigma_i > sqrt(tau) sigma_1 with T_r = V_r Sigma_r^{-1} (eq:normalized_phi, app:threshold)."""
    rank = int(np.count_nonzero(svd.singular_values > np.sqrt(tau) * svd.singular_values[0]))
    kept = svd.singular_values[:rank]
    transform = svd.right[:, :rank] / kept
    values, gradients = evaluate_retained(trial.domain, trial.psi, trial.quadrature.nodes, transform)
    if isinstance(trial.features, WithConstant):  # rounding leaves means, by which the integral of u would change
        means = trial.quadrature.weights @ values / trial.quadrature.weights.sum()
        means *= transform[:-1].any(axis=0)
        values, transform[-1] = values - means, transform[-1] - means
    return RetainedSpace(trial.domain, trial.features, trial.quadrature, transform, values, gradients, kept)


def evaluate_retained(domain: Domain, psi: FirstOrder, nodes: Array, transform: Array) -> tuple[Array, Array]:
    """Return phi~ = D (T_r^T psi), (Q, r), and its gradient (d, Q, r), by app:feature_derivatives."""
    count, dimension = nodes.shape
    values, gradients = psi.value @ transform, np.empty((dimension, count, transform.shape[1]))
    D, dD = (part[..., None] for part in domain.boundary_factor(nodes, 1))
    factor = psi.factor(transform)
    for start in range(0, count, _NODES_AT_ONCE):
        block = slice(start, start + _NODES_AT_ONCE)
        np.multiply(psi.rows(block).mapped(factor), D[block], out=gradients[:, block])
        for axis in range(dimension):
            gradients[axis, block] += dD[axis, block] * values[block]
    # last, since the product rule above takes T_r^T psi without D
    values *= D
    return values, gradients
