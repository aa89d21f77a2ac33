"""Relative L2 errors on a validation rule (eq:validation_error), at all times in one matrix product, and other norms.

|| u_{N,r} - u ||_w / || u ||_w,    u_{N,r} = u_b + D psi . (T_r alpha)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evogt_study.numerics.arrays import Array
from evogt_study.numerics.domains import Domain
from evogt_study.numerics.quadrature import Quadrature
from evogt_study.numerics.retained_space import RetainedSpace


@dataclass(frozen=True, eq=False)
class Target:
    """The target that solutions are compared with at S times: sqrt(w) (u - u_b) (S, Q), and || u ||_w (S,).

    factor: sqrt(w) D (Q,), which makes psi . (T_r alpha) comparable.  roots: sqrt(w) (Q,); largest: max_q |u| (S,).
    """

    weighted: Array
    norms: Array
    factor: Array
    roots: Array
    largest: Array

    # the boundary factor joins the weights, so that errors are one product with the raw features
    @staticmethod
    def of(domain: Domain, exact: Array, lifted: Array | float, rule: Quadrature) -> Target:
        """From u (S, Q), and u_b (S, Q) or zero, at the rule's nodes."""
        roots = np.sqrt(rule.weights)
        (D,) = domain.boundary_factor(rule.nodes)
        largest = np.abs(exact).max(axis=1)
        return Target(roots * (exact - lifted), np.sqrt((exact**2) @ rule.weights), roots * D, roots, largest)

    # in place and one product for all times: the (S, Q) array is the largest of a run with many saved times
    def errors(self, raw: Array, psi: Array) -> Array:
        """Errors of T_r alpha (S, N) at the S times, by the features psi at the nodes (Q, N): (S,)."""
        difference = raw @ psi.T
        difference *= self.factor
        difference -= self.weighted
        return _relative(np.sqrt(np.einsum("sq,sq->s", difference, difference)), self.norms)

    def final_norms(self, raw: Array, psi: Array) -> dict[str, float]:
        """Other norms of the error of T_r alpha (N,) at the last time; NaN relative to zero."""
        difference = (psi @ raw) * self.factor - self.weighted[-1]
        # relative to a solution of zero: NaN, as in `_relative`, without a warning
        with np.errstate(all="ignore"):
            return {
                "error_absolute": float(np.linalg.norm(difference)),
                "error_max": float(np.abs(difference / self.roots).max() / self.largest[-1]),
            }


def seminorm_error(space: RetainedSpace, coefficients: Array, exact: Array, lifted: Array, rule: Quadrature) -> float:
    """|| grad (u_N - u) ||_w / || grad u ||_w, of alpha (r,), grad u and grad u_b at the rule's nodes (d, Q)."""
    psi, raw = space.features.first_order(rule.nodes), space.transform @ coefficients
    D, dD = space.domain.boundary_factor(rule.nodes, 1)
    slopes = psi.mapped(psi.factor(raw[:, None]))[..., 0]
    difference = dD * (psi.value @ raw) + D * slopes + lifted - exact
    with np.errstate(all="ignore"):
        return float(np.sqrt(np.sum(difference**2 @ rule.weights) / np.sum(exact**2 @ rule.weights)))


def relative_errors(numerical: Array, exact: Array, weights: Array) -> Array:
    """Errors of values at the nodes, (S, Q), (S, Q) and (Q,) -> (S,)."""
    return _relative(np.sqrt(((numerical - exact) ** 2) @ weights), np.sqrt((exact**2) @ weights))


def _relative(differences: Array, norms: Array) -> Array:
    """NaN where the exact solution vanishes at every node: a relative error is not defined there."""
    return np.asarray(np.divide(differences, norms, out=np.full_like(norms, np.nan), where=norms != 0.0))
