"""Relative L2 errors on a validation rule (eq:validation_error), at all times in one matrix product.

|| u_{N,r} - u ||_w / || u ||_w,    u_{N,r} = u_b + D psi . (T_r alpha)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evogt_study.numerics.arrays import Array
from evogt_study.numerics.domains import Domain
from evogt_study.numerics.quadrature import Quadrature


@dataclass(frozen=True, eq=False)
class Target:
    """What solutions are measured against at S times: sqrt(w) (u - u_b) (S, Q), and || u ||_w (S,).

    factor: sqrt(w) D (Q,), which makes psi . (T_r alpha) comparable.
    """

    weighted: Array
    norms: Array
    factor: Array

    @staticmethod
    def of(domain: Domain, exact: Array, lifted: Array | float, rule: Quadrature) -> Target:
        """From u (S, Q), and u_b (S, Q) or zero, at the rule's nodes."""
        roots = np.sqrt(rule.weights)
        (D,) = domain.boundary_factor(rule.nodes)
        return Target(roots * (exact - lifted), np.sqrt((exact**2) @ rule.weights), roots * D)

    def errors(self, raw: Array, psi: Array) -> Array:
        """Errors of T_r alpha (S, N) at the S times, by the features psi at the nodes (Q, N): (S,)."""
        difference = raw @ psi.T
        difference *= self.factor
        difference -= self.weighted
        return _relative(np.sqrt(np.einsum("sq,sq->s", difference, difference)), self.norms)


def relative_errors(numerical: Array, exact: Array, weights: Array) -> Array:
    """Errors of values at the nodes, (S, Q), (S, Q) and (Q,) -> (S,)."""
    return _relative(np.sqrt(((numerical - exact) ** 2) @ weights), np.sqrt((exact**2) @ weights))


def _relative(differences: Array, norms: Array) -> Array:
    """NaN where the exact solution vanishes at every node: a relative error is not defined there."""
    return np.asarray(np.divide(differences, norms, out=np.full_like(norms, np.nan), where=norms != 0.0))
