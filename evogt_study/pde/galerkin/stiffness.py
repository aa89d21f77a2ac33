"""The matrix K(t) of the linear terms on the retained space, assembled once for each profile of separable data.

    K_ij = (A grad phi~_j, grad phi~_i) + (b . grad phi~_j - c phi~_j, phi~_i) + (transfer phi~_j, phi~_i)_faces

Data whose time and space do not split are assembled from the nodes at each time at which they are used; the numbers are
the same.  With an advection b the matrix is not symmetric.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce

import numpy as np
from scipy.linalg.blas import dsyrk

from evogt_study.pde.galerkin.problem import NonlinearReaction, Problem, Separable, SpaceTimeFunction, Tensor
from evogt_study.pde.numerics.arrays import Array
from evogt_study.pde.numerics.quadrature import Quadrature

_NODES_AT_ONCE = 1024
"""Nodes of a block of `weighted_gram`: 2 MB for 240 retained functions."""

MatrixInTime = Callable[[float], Array]
Assembly = Callable[[Array], Array]
"""Linear function from values of a coefficient at nodes, (Q,), to its matrix, (r, r)."""

StiffnessTerm = Callable[[Array, Callable[[], Array]], Array]
"""Function of a profile at the nodes (Q,) and its computation that returns the stiffness, computed or from a cache."""


def compute_term(profile: Array, compute: Callable[[], Array]) -> Array:
    """Return the `StiffnessTerm` of a single system."""
    return compute()


@dataclass(frozen=True, eq=False)
class NodalBasis:
    """Basis functions at the nodes of a rule: values (Q, r) and gradients (d, Q, r)."""

    rule: Quadrature
    values: Array
    gradients: Array


def weighted_gram(gradients: Array, nodal: Array) -> Array:
    """Return sum_l G_l^T diag(nodal) G_l, symmetric: (d, Q, r) and (Q,) -> (r, r)."""
    # in Fortran order, else dsyrk would copy the matrix for every block
    return symmetric(with_weighted_gram(np.zeros((gradients.shape[2],) * 2, order="F"), gradients, nodal))


def with_weighted_gram(upper: Array, gradients: Array, nodal: Array) -> Array:
    """Add the upper triangle of `weighted_gram` to `upper` (r, r), in place, by BLAS (dsyrk) in blocks of nodes."""
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
    return upper


def symmetric(upper: Array) -> Array:
    """Return the symmetric matrix of an upper triangle."""
    return np.asarray(upper + np.triu(upper, 1).T)


def weighted_product(left: Array, right: Array, nodal: Array) -> Array:
    """Return left^T diag(nodal) right, (Q, r) twice and (Q,) -> (r, r)."""
    return np.asarray(left.T @ (nodal[:, None] * right))


@dataclass(frozen=True, eq=False)
class SeparableMatrix:
    """A matrix sum_k m_k(t) K_k, with K_k (K, r, r) assembled once for each profile."""

    function: Separable
    terms: Array

    def __call__(self, t: float) -> Array:
        """Return the matrix at t, (r, r)."""
        # the one term itself: its factor is one at all times
        if self.function.steady:
            return np.asarray(self.terms[0])
        return np.asarray(np.tensordot(self.function.evaluate_modulations(np.array([t]))[:, 0], self.terms, axes=1))


def scalar_diffusion(
    basis: NodalBasis, diffusion: SpaceTimeFunction, profiles: Array | None = None, term: StiffnessTerm = compute_term
) -> MatrixInTime:
    """Return sum_l G_l^T diag(w a(t)) G_l, from the `profiles` of the diffusion at the nodes if they are given."""
    rule = basis.rule
    if not isinstance(diffusion, Separable):
        return lambda t: weighted_gram(basis.gradients, rule.weights * diffusion.at(rule.nodes, t))
    profiles = diffusion.profiles(rule.nodes) if profiles is None else profiles
    return SeparableMatrix(diffusion, stiffness_terms(basis.gradients, rule.weights, profiles, term))


def stiffness_terms(gradients: Array, weights: Array, profiles: Array, term: StiffnessTerm) -> Array:
    """Return K_k = sum_l G_l^T diag(w p_k) G_l for the profiles p_k: (d, Q, r), (Q,) and (K, Q) -> (K, r, r)."""
    return np.stack([term(profile, partial(weighted_gram, gradients, weights * profile)) for profile in profiles])


def diffusion_matrix(basis: NodalBasis, problem: Problem) -> MatrixInTime:
    """Return (A grad phi~_j, grad phi~_i) for a scalar or a tensor A."""
    if not isinstance(problem.diffusion, Tensor):
        return scalar_diffusion(basis, problem.diffusion)
    weights, G = basis.rule.weights, basis.gradients

    def assembly(i: int, j: int) -> Assembly:
        if i == j:
            return lambda nodal: weighted_gram(G[i : i + 1], weights * nodal)
        # a_ij and a_ji at once: a matrix and its transpose add up to one that is symmetric to the last digit
        return lambda nodal: _with_transpose(weighted_product(G[i], G[j], weights * nodal))

    return _sum_parts([_moving(part, basis.rule, assembly(i, j)) for (i, j), part in problem.diffusion.upper.items()])


def lower_order_matrix(basis: NodalBasis, problem: Problem, faces: dict[str, NodalBasis]) -> MatrixInTime | None:
    """Return the terms of advection, linear reaction and transfer, or None without them."""
    weights, values, parts = basis.rule.weights, basis.values, list[MatrixInTime]()
    for axis, b in enumerate(problem.advection or ()):
        parts.append(_moving(b, basis.rule, _advection(values, basis.gradients[axis], weights)))
    if problem.reaction is not None and not isinstance(problem.reaction, NonlinearReaction):
        parts.append(_moving(problem.reaction, basis.rule, lambda nodal: -weighted_gram(values[None], weights * nodal)))
    for data in problem.faces:
        if data.transfer is not None:
            parts.append(_moving(data.transfer, faces[data.face].rule, _on_face(faces[data.face])))
    return _sum_parts(parts) if parts else None


def _advection(values: Array, gradient: Array, weights: Array) -> Assembly:
    return lambda nodal: weighted_product(values, gradient, weights * nodal)


def _on_face(face: NodalBasis) -> Assembly:
    return lambda nodal: weighted_gram(face.values[None], face.rule.weights * nodal)


def _moving(function: SpaceTimeFunction, rule: Quadrature, assembly: Assembly) -> MatrixInTime:
    if isinstance(function, Separable):
        return SeparableMatrix(function, np.stack([assembly(profile) for profile in function.profiles(rule.nodes)]))
    return lambda t: assembly(function.at(rule.nodes, t))


def _sum_parts(parts: list[MatrixInTime]) -> MatrixInTime:
    return parts[0] if len(parts) == 1 else lambda t: reduce(np.add, [part(t) for part in parts])


def _with_transpose(matrix: Array) -> Array:
    return matrix + matrix.T


def has_steady_operator(problem: Problem) -> bool:
    """Return True if the linear terms do not depend on time."""
    parts = [problem.diffusion, *(problem.advection or ())]
    if problem.reaction is not None and not isinstance(problem.reaction, NonlinearReaction):
        parts.append(problem.reaction)
    parts += [face.transfer for face in problem.faces if face.transfer is not None]
    return all(part.steady for part in parts)
