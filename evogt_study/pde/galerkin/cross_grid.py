"""The retained basis on another quadrature rule than the assembly rule (app:cross_grid)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evogt_study.pde.galerkin.assembly import DenseBasis, StiffnessTerm, compute_term, operator_matrix, weighted_gram
from evogt_study.pde.galerkin.problem import Problem
from evogt_study.pde.galerkin.retained_space import RetainedSpace, evaluate_retained, trial_values
from evogt_study.pde.galerkin.system import GalerkinSystem, basis_on_face
from evogt_study.pde.numerics.arrays import Array
from evogt_study.pde.numerics.quadrature import Quadrature

_NODES_AT_ONCE = 512
"""Nodes of a block of features, gradients and products: 1 MB for each array of some 240 features."""
FEATURE_NODES_AT_ONCE = 4096
"""Nodes of a block whose features alone are held: 10 MB for 320, which take a quarter less time on a 3-D grid than in
blocks of 512."""
QUARTERS = 4
"""Parts of the final time at which the stiffness is compared."""


@dataclass(frozen=True)
class CrossGridDefects:
    """mass: || Phi~_a^T W_a Phi~_a - I_r ||_2.  stiffness: the largest || K_a(t) - K_q(t) ||_2 / || K_q(t) ||_2."""

    mass: float
    stiffness: float


@dataclass(frozen=True, eq=False)
class AssessedBasis:
    """The retained basis on the assessment rule: gradients G~_l (d, Q_a, r), and the defect of its mass."""

    quadrature: Quadrature
    gradients: Array
    mass_defect: float


def evaluate_basis(space: RetainedSpace, assessment: Quadrature) -> AssessedBasis:
    """Return phi~ = T_r^T phi and its gradient on the `assessment` rule, block by block."""
    count, dimension = assessment.nodes.shape
    mass = np.zeros((space.rank, space.rank))
    gradients = np.empty((dimension, count, space.rank))
    for start in range(0, count, _NODES_AT_ONCE):
        block = slice(start, start + _NODES_AT_ONCE)
        nodes = assessment.nodes[block]
        psi = space.features.first_order(nodes)
        values, gradients[:, block] = evaluate_retained(space.domain, psi, nodes, space.transform)
        mass += weighted_gram(values[None], assessment.weights[block])
    return AssessedBasis(assessment, gradients, _spectral_norm(mass - np.eye(space.rank)))


def mass_defect_on(space: RetainedSpace, rule: Quadrature) -> float:
    """Return || Phi~_b^T W_b Phi~_b - I_r ||_2 on the rule b.  It is large if the assembly rule is too coarse."""
    mass = np.zeros((space.rank, space.rank))
    (D,) = space.domain.boundary_factor(rule.nodes)
    weights = rule.weights * D * D  # with D in the weights, N-wide arrays need not be made conforming
    for start in range(0, len(weights), FEATURE_NODES_AT_ONCE):
        block = slice(start, start + FEATURE_NODES_AT_ONCE)
        mass += weighted_gram((space.features.values(rule.nodes[block]) @ space.transform)[None], weights[block])
    return _spectral_norm(mass - np.eye(space.rank))


def cross_grid_defects(
    space: RetainedSpace, basis: AssessedBasis, problem: Problem, system: GalerkinSystem, final_time: float,
    term: StiffnessTerm = compute_term,
) -> CrossGridDefects:  # fmt: skip
    """Compare mass and stiffness of the retained basis on the assessment rule a and on the assembly rule q."""
    rule = basis.quadrature
    # `basis` has gradients only, which the stiffness of a plain problem is made of
    nodes = rule.nodes[:0] if problem.plain else rule.nodes
    values = trial_values(space.domain, space.features, nodes) @ space.transform
    faces = {face.face: basis_on_face(space, rule, face.face) for face in problem.faces}
    assessed, _ = operator_matrix(DenseBasis(rule, values, basis.gradients), problem, faces, None, term)
    times = np.linspace(0.0, final_time, QUARTERS + 1)[: 1 if system.autonomous else None].tolist()
    return CrossGridDefects(basis.mass_defect, max(_measure_relative(assessed(t), system.stiffness(t)) for t in times))


# in the spectral norm, as the paper's defects (app:cross_grid)
def _measure_relative(matrix: Array, reference: Array) -> float:
    symmetric = np.array_equal(reference, reference.T)
    norm = _spectral_norm if symmetric else lambda any_matrix: float(np.linalg.norm(any_matrix, 2))
    return norm(matrix - reference) / norm(reference)


def _spectral_norm(symmetric: Array) -> float:
    return float(np.abs(np.linalg.eigvalsh(symmetric)).max())
