"""Relative L2 errors on a validation rule (eq:validation_error), with the weights in the features and in the target.

    || u_{N,r} - u ||_w / || u ||_w,    u_{N,r} = u_b + D psi . (T_r alpha)

What depends on the dictionary alone, and on the problem alone, is made once; an error is then one matrix product and
one sum of squares.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evogt_study.method.arrays import Array
from evogt_study.method.boundary import boundary_factor
from evogt_study.method.dictionary import Features
from evogt_study.method.quadrature import Quadrature


@dataclass(frozen=True, eq=False)
class Target:
    """What solutions are measured against at S times: sqrt(w) (u - u_b) (S, Q), and || u ||_w (S,)."""

    weighted: Array
    norms: Array

    @staticmethod
    def of(exact: Array, lifted: Array | float, rule: Quadrature) -> Target:
        """From u (S, Q), and u_b (S, Q) or zero, at the rule's nodes."""
        weighted = np.sqrt(rule.weights) * (exact - lifted)
        return Target(weighted, np.sqrt((exact**2) @ rule.weights))


def weighted_features(features: Features, rule: Quadrature) -> Array:
    """sqrt(w) D psi at the nodes, (Q, N)."""
    values = features.values(rule.nodes)
    values *= (np.sqrt(rule.weights) * boundary_factor(rule.nodes))[:, None]
    return values


def relative_errors(raw: Array, features: Array, target: Target) -> Array:
    """Errors of T_r alpha (S, N) at the target's S times, by the `weighted_features` (Q, N): (S,).

    NaN where the exact solution vanishes at every node: a relative error is not defined there.
    """
    difference = raw @ features.T
    difference -= target.weighted
    differences = np.sqrt(np.einsum("sq,sq->s", difference, difference))
    nan = np.full_like(differences, np.nan)
    return np.asarray(np.divide(differences, target.norms, out=nan, where=target.norms != 0.0))
