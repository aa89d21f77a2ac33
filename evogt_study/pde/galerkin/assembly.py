"""Matrix K(t) and load b(t) of the linear terms in any basis, assembled once for each profile of separable data.

    K_ij = (A grad phi_j, grad phi_i) + (b . grad phi_j - c phi_j, phi_i) + (transfer phi_j, phi_i)_faces
    b_i = (f, phi_i) + (flux, phi_i)_faces

Data whose time and space do not split are assembled from the nodes at each time at which they are used; the numbers are
the same.  With an advection b the matrix is not symmetric.  A basis has dense or sparse matrices.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import numpy as np
from scipy.linalg.blas import dsyrk

from evogt_study.pde.galerkin.problem import (
    Diffusion,
    Lifting,
    Problem,
    Separable,
    SpaceTimeFunction,
    Tensor,
    multiply,
)
from evogt_study.pde.numerics.arrays import Array
from evogt_study.pde.numerics.quadrature import Quadrature

_NODES_AT_ONCE = 1024
"""Nodes of a block of `weighted_gram`: 2 MB for 240 retained functions."""
TIMES_AT_ONCE = 64
"""Times of a block.  Values at 8,000 nodes take 4 MB."""

MatrixInTime = Callable[[float], Any]
Series = Callable[[Array], Array]
"""Function of times that returns a quantity at these times: (T,) -> (T, ...)."""
StiffnessTerm = Callable[[Array, Callable[[], Any]], Any]
"""Function of a profile at the nodes (Q,) and its computation that returns the stiffness, computed or from a cache."""


def compute_term(profile: Array, compute: Callable[[], Any]) -> Any:
    """Return the `StiffnessTerm` of a single system."""
    return compute()


def weighted_gram(gradients: Array, nodal: Array) -> Array:
    """Return sum_l G_l^T diag(nodal) G_l, symmetric: (d, Q, r) and (Q,) -> (r, r)."""
    # the upper triangle by BLAS (dsyrk), in Fortran order, else dsyrk would copy the matrix for every block of nodes
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
    """Basis functions at the nodes of a rule: values (Q, r), and gradients (Q, r) for each direction.

    Its forms are matrices (r, r) of a coefficient by its values at the nodes (Q,).
    """

    rule: Quadrature
    values: Any
    gradients: Any

    @abstractmethod
    def product(self, left: Any, right: Any, nodal: Array) -> Any:
        """Return left^T diag(w nodal) right, for matrices (Q, r)."""

    def gram(self, nodal: Array) -> Any:
        """Return (c phi_j, phi_i)."""
        return self.product(self.values, self.values, nodal)

    def stiffness(self, nodal: Array) -> Any:
        """Return (a grad phi_j, grad phi_i)."""
        return reduce(lambda one, two: one + two, [self.product(G, G, nodal) for G in self.gradients])

    def tensor_term(self, i: int, j: int, nodal: Array) -> Any:
        """Return the part of A_ij and A_ji in the stiffness."""
        product = self.product(self.gradients[i], self.gradients[j], nodal)
        # a matrix and its transpose add up to one that is symmetric to the last digit
        return product if i == j else product + product.T

    def advection(self, axis: int, nodal: Array) -> Any:
        """Return (b d phi_j / dx_axis, phi_i)."""
        return self.product(self.values, self.gradients[axis], nodal)

    def project(self, nodal: Array) -> Array:
        """Return (v, phi_i), nodal values (..., Q) -> (..., r)."""
        return np.asarray((nodal * self.rule.weights) @ self.values)

    def project_flux(self, axis: int, nodal: Array) -> Array:
        """Return (q, d phi_i / dx_axis), nodal values (..., Q) -> (..., r)."""
        return np.asarray((nodal * self.rule.weights) @ self.gradients[axis])


class DenseBasis(Basis):
    """Functions that are not zero at any node: values (Q, r) and gradients (d, Q, r)."""

    values: Array
    gradients: Array

    def product(self, left: Array, right: Array, nodal: Array) -> Array:
        return np.asarray(left.T @ ((self.rule.weights * nodal)[:, None] * right))

    def gram(self, nodal: Array) -> Array:
        return weighted_gram(self.values[None], self.rule.weights * nodal)

    def stiffness(self, nodal: Array) -> Array:
        return weighted_gram(self.gradients, self.rule.weights * nodal)

    def tensor_term(self, i: int, j: int, nodal: Array) -> Any:
        if i == j:
            return weighted_gram(self.gradients[i : i + 1], self.rule.weights * nodal)
        return super().tensor_term(i, j, nodal)


@dataclass(frozen=True, eq=False)
class SeparableMatrix:
    """sum_k m_k(t) K_k, with K_k assembled once for each profile."""

    function: Separable
    terms: Any

    def __call__(self, t: float) -> Any:
        """Return the matrix at t, (r, r)."""
        # the one term itself: its factor is one at all times
        if self.function.steady:
            return self.terms[0]
        modulations = self.function.evaluate_modulations(np.array([t]))[:, 0]
        if isinstance(self.terms, np.ndarray):
            return np.asarray(np.tensordot(modulations, self.terms, axes=1))
        return reduce(lambda one, two: one + two, [float(m) * K for m, K in zip(modulations, self.terms, strict=True)])


def operator_matrix(
    basis: Basis, problem: Problem, faces: Mapping[str, Basis], profiles: Array | None = None,
    term: StiffnessTerm = compute_term,
) -> tuple[MatrixInTime, MatrixInTime | None]:  # fmt: skip
    """Return K, and the part of its diffusion where there are others; `profiles` of a scalar diffusion at the nodes."""
    diffusion = _diffusion_matrix(basis, problem.diffusion, profiles, term)
    parts = [_assemble(b, basis, partial(basis.advection, axis)) for axis, b in enumerate(problem.advection or ())]
    if problem.linear_reaction is not None:
        parts.append(_assemble(problem.linear_reaction, basis, lambda nodal: -basis.gram(nodal)))
    transfers = [(data.transfer, faces[data.face]) for data in problem.faces if data.transfer is not None]
    parts += [_assemble(transfer, face, face.gram) for transfer, face in transfers]
    if not parts:
        return diffusion, None
    others = _sum_matrices(parts)
    if problem.has_steady_operator:
        constant = diffusion(0.0) + others(0.0)
        return lambda t: constant, diffusion
    return lambda t: diffusion(t) + others(t), diffusion


def _diffusion_matrix(basis: Basis, diffusion: Diffusion, profiles: Array | None, term: StiffnessTerm) -> MatrixInTime:
    """Return (A grad phi_j, grad phi_i)."""
    if isinstance(diffusion, Tensor):
        upper = diffusion.upper.items()
        return _sum_matrices([_assemble(part, basis, partial(basis.tensor_term, *place)) for place, part in upper])
    return _assemble(diffusion, basis, basis.stiffness, profiles, term)


def _assemble(
    function: SpaceTimeFunction, basis: Basis, form: Callable[[Array], Any], profiles: Array | None = None,
    term: StiffnessTerm = compute_term,
) -> MatrixInTime:  # fmt: skip
    """Return the matrix of a coefficient by a form that is linear in it: once for each profile, else at each time."""
    if not isinstance(function, Separable):
        return lambda t: form(function.at(basis.rule.nodes, t))
    profiles = function.profiles(basis.rule.nodes) if profiles is None else profiles
    terms = [term(profile, partial(form, profile)) for profile in profiles]
    return SeparableMatrix(function, np.stack(terms) if isinstance(terms[0], np.ndarray) else terms)


def _sum_matrices(parts: list[MatrixInTime]) -> MatrixInTime:
    return parts[0] if len(parts) == 1 else lambda t: reduce(lambda one, two: one + two, [part(t) for part in parts])


def assemble_load(
    basis: Basis, problem: Problem, faces: Mapping[str, Basis], profiles: Array | None = None
) -> tuple[Series, Series]:
    """Return the load b less what a lifting takes, and the part of the flux of a lifting (eq:lifted_load).

    profiles: of a separable source at the nodes, if they are at hand.
    """
    nodes, lifting = basis.rule.nodes, problem.lifting
    loads = [moments_of(problem.source, nodes, basis.project, profiles)]
    for data in problem.faces:
        face = faces[data.face]
        loads.append(moments_of(data.flux, face.rule.nodes, face.project))
        if lifting is not None and data.transfer is not None:
            loads.append(partial(_outflow, face, data.transfer, lifting))
    load = sum_series(loads)
    if lifting is None:
        return load, load
    rate = moments_of(lifting.rate, nodes, basis.project)
    fluxes = [moments_of(q, nodes, partial(basis.project_flux, axis)) for axis, q in enumerate(lifting.flux)]
    flux = sum_series(fluxes)
    # u_b moves to the right-hand side of the weak form (remark nonhomo)
    if lifting.lower_order is None:
        return lambda times: load(times) - rate(times) - flux(times), flux
    others = moments_of(lifting.lower_order, nodes, basis.project)
    return lambda times: load(times) - rate(times) - flux(times) - others(times), flux


def _outflow(face: Basis, transfer: SpaceTimeFunction, lifting: Lifting, times: Array) -> Array:
    """Return -(transfer u_b, phi_i) on a face."""
    return -face.project(multiply(transfer, lifting.value)(face.rule.nodes, times))


def moments_of(
    function: SpaceTimeFunction, nodes: Array, project: Callable[[Array], Array], profiles: Array | None = None
) -> Series:
    """Return a function of times that applies the linear `project` to the nodal values, once for each profile."""
    if not isinstance(function, Separable):
        return lambda times: np.concatenate([project(function(nodes, part)) for part in split_times(times)])
    terms = project(function.profiles(nodes) if profiles is None else profiles)
    return lambda times: np.asarray(function.evaluate_modulations(times).T @ terms)


def sum_series(terms: list[Series]) -> Series:
    """Return the sum of quantities at several times."""
    return terms[0] if len(terms) == 1 else lambda times: reduce(np.add, [term(times) for term in terms])


def split_times(times: Array) -> list[Array]:
    """Yield `times` in blocks, so that values at all nodes and many steps need not fit in memory at once."""
    return np.array_split(times, max(1, -(-len(times) // TIMES_AT_ONCE)))
