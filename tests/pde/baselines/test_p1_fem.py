"""P1 finite elements: their rule, a solution written out by hand, and their order."""

import itertools
from math import factorial

import numpy as np
import pytest

from evogt_study import pde
from evogt_study.pde.baselines.finite_elements import p1_fem
from evogt_study.pde.domains import UnitCube
from evogt_study.pde.domains.plane import make_simplex_rule
from evogt_study.pde.galerkin.validation import compute_errors
from evogt_study.pde.numerics import QuadratureRule, TimeGrid


def ends(final_time, steps):
    """The first and the last of `steps` steps."""
    return TimeGrid(final_time, steps, ())


def errors(problem, solution, rule):
    exact = problem.exact(rule.nodes, solution.times)
    return compute_errors(solution.evaluate(rule.nodes), exact, rule.weights)


def sines(dimension, wave=1):
    return "*".join(f"sin({wave}*pi*{x})" for x in "xyz"[:dimension])


def moving(dimension):
    """A smooth problem whose diffusion depends on space and time, separably."""
    diffusion = "1 + (1 + sin(5*t))*cos(2*pi*x)/4 + t*x"
    return pde.FormulaProblem(dimension=dimension, exact=f"exp(-t)*{sines(dimension)}", diffusion=diffusion)()


def vertices(space):
    """The vertex of each unknown, (n^d, d)."""
    return space.basis.doflocs[:, space.reduction.tocsc().indices].T


@pytest.mark.parametrize(("dimension", "points"), [(1, 1), (1, 5), (2, 1), (2, 2), (2, 5), (3, 1), (3, 3), (3, 4)])
def test_the_element_rule_is_exact_to_its_degree_and_positive(dimension, points):
    nodes, weights = make_simplex_rule(dimension, points)
    assert weights.min() > 0.0
    assert nodes.min() > 0.0
    assert nodes.sum(axis=0).max() < 1.0
    worst = dict.fromkeys(range(2 * points + 1), 0.0)
    for powers in itertools.product(range(2 * points + 1), repeat=dimension):
        if sum(powers) in worst:
            exact = np.prod([factorial(power) for power in powers]) / factorial(sum(powers) + dimension)
            value = np.prod(nodes ** np.array(powers)[:, None], axis=0) @ weights
            worst[sum(powers)] = max(worst[sum(powers)], abs(value / exact - 1.0))
    beyond = worst.pop(2 * points)
    assert max(worst.values()) < 1e-12
    assert beyond > 1e-10


@pytest.mark.parametrize("wave", [1, 3, 7])
def test_a_heat_mode_has_its_closed_form(wave):
    # sin(k pi x_i) is an eigenvector of mass and stiffness: lambda_h = nu 6 (1 - cos) / (h^2 (2 + cos)) at k pi h, the
    # projection of the mode has the amplitude lambda_h / (nu (k pi)^2), and a step multiplies by (1 - s)/(1 + s)
    n, nu, dt, steps = 12, 0.3, 0.01, 20
    h, frequency = 1 / (n + 1), wave * np.pi
    eigenvalue = nu * 6 * (1 - np.cos(frequency * h)) / (h**2 * (2 + np.cos(frequency * h)))
    growth = (1 - dt * eigenvalue / 2) / (1 + dt * eigenvalue / 2)
    problem = pde.FormulaProblem(dimension=1, initial=f"sin({wave}*pi*x)", diffusion="nu")(nu=nu)
    solution = p1_fem(problem, n, TimeGrid(steps * dt, steps, (7,)))
    mode = eigenvalue / (nu * frequency**2) * np.sin(frequency * vertices(solution.space)[:, 0])
    expected = np.outer(growth ** np.array([0, 7, steps]), mode)
    assert solution.states == pytest.approx(expected, rel=1e-9, abs=1e-14)


@pytest.mark.long
@pytest.mark.parametrize(("dimension", "cells"), [(1, [8, 16, 32, 64]), (2, [6, 12, 24]), (3, [4, 8, 16])])
def test_order_two(dimension, cells):
    # steps and mesh are refined together, so that an error of lower order in either would show; the rule is finer than
    # the meshes, because the error oscillates with them
    problem = moving(dimension)
    rule = UnitCube(dimension).quadrature(QuadratureRule("gauss_legendre", {1: 200, 2: 60, 3: 40}[dimension]))
    final = np.array([errors(problem, p1_fem(problem, n - 1, ends(0.2, n)), rule)[-1] for n in cells])
    orders = np.log2(final[:-1] / final[1:])
    assert orders[-1] == pytest.approx(2.0, abs=0.1)
    assert final[-1] < 0.03
