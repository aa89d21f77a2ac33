"""Cross-grid defects (app:cross_grid): the retained basis on another rule, against dense matrices written out."""

import numpy as np
import pytest
from wing import make_space

from evogt_study.pde.dictionaries import Dictionary
from evogt_study.pde.domains import UnitCube
from evogt_study.pde.galerkin.problem import NonSeparable, Problem, Separable
from evogt_study.pde.galerkin.system import assemble, make_trial
from evogt_study.pde.galerkin.validation import (
    evaluate_basis,
    measure_cross_grid,
)
from evogt_study.pde.numerics import QuadratureRule

FINAL_TIME = 0.7

POINTS = {1: 20, 2: 7, 3: 5}
OTHERS = {
    "finer": ("gauss_legendre", {1: 90, 2: 30, 3: 11}),
    "midpoint": ("composite_midpoint", {1: 400, 2: 25, 3: 9}),
}
DICTIONARIES = {
    1: Dictionary("gtransnet", 14, 9.0, N1=30),
    2: Dictionary("transnet", 20, 4.0),
    3: Dictionary("gaussian_rf", 20, 2.0),
}

dimensions = pytest.mark.parametrize("dimension", [1, 2, 3])
others = pytest.mark.parametrize("other", OTHERS)


def other_rule(name, dimension):
    rule, points = OTHERS[name]
    return UnitCube(dimension).quadrature(QuadratureRule(rule, points[dimension]))


# One diffusion in plain arithmetic, and its separable and its general form: 1 + sin(9t) cos(11 x)/2 + exp(-t) x/5


def diffusion_at(nodes, t):
    return 1.0 + 0.5 * np.sin(9.0 * t) * np.cos(11.0 * nodes[:, 0]) + 0.2 * np.exp(-t) * nodes[:, -1]


def steady_at(nodes):
    return 1.0 + 0.5 * np.cos(11.0 * nodes[:, 0])


SEPARABLE = Separable(
    lambda nodes: np.stack([np.ones(len(nodes)), 0.5 * np.cos(11.0 * nodes[:, 0]), 0.2 * nodes[:, -1]]),
    lambda times: np.stack([np.ones(len(times)), np.sin(9.0 * times), np.exp(-times)]),
)
FORMS = {
    "separable": SEPARABLE,
    "general": NonSeparable(diffusion_at),
    "steady": Separable(lambda nodes: steady_at(nodes)[None]),
}


def defects_of(space, rule, diffusion, final_time=FINAL_TIME):
    problem = Problem(space.rule.nodes.shape[1], diffusion, lambda nodes: nodes.prod(axis=1))
    return measure_cross_grid(space, evaluate_basis(space, rule), problem, assemble(space, problem), final_time)


def naive(space, rule, diffusion, times):
    """Spectral norms of dense matrices, of the raw functions' values and gradients (which have tests of their own)."""
    assembly, other = (make_trial(space.domain, space.features, on) for on in (space.rule, rule))

    def stiffness(trial, t):
        W = np.diag(trial.quadrature.weights * diffusion(trial.quadrature.nodes, t))
        D, dD = (part[..., None] for part in space.domain.boundary_factor(trial.quadrature.nodes, 1))
        gradients = dD * trial.psi.value + D * trial.psi.gradient
        return sum(G.T @ W @ G for G in gradients @ space.transform)

    V = other.values @ space.transform
    mass = np.linalg.norm(V.T @ np.diag(rule.weights) @ V - np.eye(space.rank), 2)
    relative = [
        np.linalg.norm(stiffness(other, t) - stiffness(assembly, t), 2) / np.linalg.norm(stiffness(assembly, t), 2)
        for t in times
    ]
    return mass, relative


@dimensions
@others
@pytest.mark.parametrize("form", FORMS)
def test_on_another_rule_the_defects_are_those_of_dense_matrices(dimension, other, form):
    space = make_space(DICTIONARIES[dimension], dimension, POINTS[dimension], 1e-8, 5)
    rule = other_rule(other, dimension)
    times = [0.0] if form == "steady" else np.arange(5) / 4 * FINAL_TIME
    diffusion = (lambda nodes, t: steady_at(nodes)) if form == "steady" else diffusion_at
    mass, stiffness = naive(space, rule, diffusion, times)
    found = defects_of(space, rule, FORMS[form])
    assert mass > 1e-6  # the rules do differ on products of these functions
    # the rounding of phi is amplified by 1/sigma_r, below 1e4
    assert found["mass_defect_cross_grid"] == pytest.approx(mass, rel=1e-11, abs=0.0)
    assert found["stiffness_defect_cross_grid"] == pytest.approx(max(stiffness), rel=1e-11, abs=0.0)
