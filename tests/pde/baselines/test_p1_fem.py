"""P1 finite elements: against matrices and solutions written out by hand, their order, and the paper's table."""

import csv
import dataclasses
import itertools
from math import factorial
from pathlib import Path

import numpy as np
import pytest

import evogt_study.pde.baselines.finite_elements as p1_fem_module
from evogt_study import pde
from evogt_study.errors import ParameterError, ProblemError
from evogt_study.pde.baselines.element_space import element_space
from evogt_study.pde.baselines.finite_elements import DEGREES, MAX_DEGREE, check_size, p1_fem
from evogt_study.pde.domains import UnitCube
from evogt_study.pde.domains.triangulated import simplex_rule
from evogt_study.pde.galerkin.problem import NonSeparable
from evogt_study.pde.galerkin.validation import relative_errors
from evogt_study.pde.numerics.quadrature import QuadratureRule
from evogt_study.pde.numerics.time_grid import TimeGrid
from evogt_study.pde.problems import oscillatory_1d, target_1d

PUBLISHED = Path(__file__).parents[3] / "data" / "published" / "p1_fem.csv"
ROWS = list(csv.DictReader(PUBLISHED.read_text().splitlines()))
PROBLEMS = {"oscillatory_1d": oscillatory_1d, "target_1d": target_1d}
DIMENSIONS = [1, 2, 3]


def ends(final_time, steps):
    """The first and the last of `steps` steps."""
    return TimeGrid(final_time, steps, ())


def errors(problem, solution, rule):
    exact = problem.exact(rule.nodes, solution.times)
    return relative_errors(solution.evaluate(rule.nodes), exact, rule.weights)


def sines(dimension, wave=1):
    return "*".join(f"sin({wave}*pi*{x})" for x in "xyz"[:dimension])


def moving(dimension):
    """A smooth problem whose diffusion depends on space and time, separably."""
    diffusion = "1 + (1 + sin(5*t))*cos(2*pi*x)/4 + t*x"
    return pde.FormulaProblem(dimension=dimension, exact=f"exp(-t)*{sines(dimension)}", diffusion=diffusion)()


# The paper's table


def rounds_to(text, value):
    return f"{value:.2e}" == f"{float(text):.2e}"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: "-".join(row.values()))
def test_published_errors(row):
    problem = PROBLEMS[row["problem"]](epsilon=float(row["epsilon"]))
    solution = p1_fem(problem, int(row["dofs"]), TimeGrid.of(0.25, 0.0025, 2))
    assert solution.dofs == int(row["dofs"])
    rule = UnitCube(1).quadrature(QuadratureRule("composite_midpoint", 4096))
    assert rounds_to(row["value"], errors(problem, solution, rule)[-1])


# Matrices


def stencil(dimension, unknowns, entries):
    """The matrix of a stencil {offset: value} on the interior vertices in the order of np.ndindex."""
    shape = (unknowns,) * dimension
    matrix = np.zeros((unknowns**dimension,) * 2)
    for place in np.ndindex(shape):
        for offset, value in entries.items():
            other = tuple(np.add(place, offset))
            if all(0 <= index < unknowns for index in other):
                matrix[np.ravel_multi_index(place, shape), np.ravel_multi_index(other, shape)] = value
    return matrix


def p1_space(dimension, unknowns):
    return element_space(UnitCube(dimension), 1, unknowns + 1, DEGREES[dimension])


def vertices(space):
    """The vertex of each unknown, (n^d, d)."""
    return space.basis.doflocs[:, space.reduction.tocsc().indices].T


def mass(space):
    values, weights = space.interior.values.toarray(), space.interior.rule.weights
    return values.T @ (weights[:, None] * values)


def stiffness(space, nodal):
    weights = space.interior.rule.weights * nodal
    return sum(G.T @ (weights[:, None] * G) for G in (each.toarray() for each in space.interior.gradients))


def load(space, nodal):
    return space.interior.values.T @ (space.interior.rule.weights * nodal)


def in_index_order(space, matrix):
    """`matrix` with the unknowns in the order of np.ndindex."""
    order = np.lexsort(vertices(space).T[::-1].round(9))
    return matrix[np.ix_(order, order)]


def kuhn_neighbours(dimension):
    """Offsets to the vertices joined by an edge where cubes are cut along their main diagonal."""
    up = [offset for offset in itertools.product((0, 1), repeat=dimension) if any(offset)]
    return up + [tuple(-x for x in offset) for offset in up]


def laplacian_stencil(dimension, h):
    """h^(d-2) times the (2d + 1)-point stencil: the edges of a right-angled simplex's diagonals do not count."""
    entries = {(0,) * dimension: 2 * dimension * h ** (dimension - 2)}
    for axis, sign in itertools.product(range(dimension), (-1, 1)):
        entries[tuple(sign * (axis == other) for other in range(dimension))] = -(h ** (dimension - 2))
    return entries


def test_the_1d_matrices_are_the_tridiagonal_ones():
    space, n, h = p1_space(1, 9), 9, 0.1
    expected = h / 6 * (4 * np.eye(n) + np.eye(n, k=1) + np.eye(n, k=-1))
    assert in_index_order(space, mass(space)) == pytest.approx(expected, rel=1e-12, abs=1e-15)
    expected = 3.0 / h * (2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1))
    assert in_index_order(space, stiffness(space, 3.0)) == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_the_1d_stiffness_of_a_polynomial_coefficient_has_its_element_means():
    space, n, h = p1_space(1, 9), 9, 0.1
    edges = np.linspace(0.0, 1.0, n + 2)
    means = np.diff(edges + edges**6 / 6) / h  # of a = 1 + x^5
    expected = (np.diag(means[:-1] + means[1:]) - np.diag(means[1:-1], 1) - np.diag(means[1:-1], -1)) / h
    found = stiffness(space, 1 + space.interior.rule.nodes[:, 0] ** 5)
    assert in_index_order(space, found) == pytest.approx(expected, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_the_laplacian_is_the_classical_stencil(dimension):
    space = p1_space(dimension, 3)
    expected = stencil(dimension, 3, laplacian_stencil(dimension, 0.25))
    assert in_index_order(space, stiffness(space, 1.0)) == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_the_2d_mass_is_consistent():
    space, h = p1_space(2, 3), 0.25
    entries = {(0, 0): h**2 / 2} | dict.fromkeys(kuhn_neighbours(2), h**2 / 12)
    assert in_index_order(space, mass(space)) == pytest.approx(stencil(2, 3, entries), rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_loads_of_linear_functions(dimension):
    # the hats are symmetric about their vertices, so that (c + g . x, phi_i) = h^d (c + g . x_i)
    space = p1_space(dimension, 3)
    slope = np.array([2.0, -3.0, 0.5])[:dimension]
    found = load(space, 1.0 + space.interior.rule.nodes @ slope)
    assert found == pytest.approx(0.25**dimension * (1.0 + vertices(space) @ slope), rel=1e-12)


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_the_unknowns_are_the_interior_vertices(dimension):
    space = p1_space(dimension, 4)
    expected = set(itertools.product((0.2, 0.4, 0.6, 0.8), repeat=dimension))
    assert {tuple(vertex) for vertex in vertices(space).round(12).tolist()} == expected
    assert space.count == 4**dimension
    assert space.interior.rule.weights.sum() == pytest.approx(1.0, rel=1e-13)


# Element integration


@pytest.mark.parametrize(("dimension", "points"), [(1, 1), (1, 5), (2, 1), (2, 2), (2, 5), (3, 1), (3, 3), (3, 4)])
def test_the_element_rule_is_exact_to_its_degree_and_positive(dimension, points):
    nodes, weights = simplex_rule(dimension, points)
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


def test_the_default_in_1d_is_the_16_point_gauss_rule():
    nodes, weights = simplex_rule(1, DEGREES[1] // 2 + 1)
    x, w = np.polynomial.legendre.leggauss(16)
    assert nodes[0] == pytest.approx((x + 1) / 2, rel=1e-13)
    assert weights == pytest.approx(w / 2, rel=1e-13)


def test_the_degree_is_used():
    problem, grid = oscillatory_1d(epsilon=0.05), ends(0.01, 2)
    rough, fine = (p1_fem(problem, 20, grid, degree).states[-1] for degree in (3, 31))
    assert np.abs(rough - fine).max() > 1e-3 * np.abs(fine).max()
    assert p1_fem(problem, 20, grid).states[-1].tolist() == fine.tolist()


# Initial value, evaluation


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_the_initial_value_is_projected(dimension):
    problem = pde.FormulaProblem(dimension=dimension, initial=sines(dimension, 2))()
    solution = p1_fem(problem, 5, ends(0.01, 1))
    space, rule = solution.space, solution.space.interior.rule
    interpolated = problem.initial(vertices(space))
    assert np.abs(solution.states[0] - interpolated).max() > 0.01  # the interpolant is another function
    defect = problem.initial(rule.nodes) - solution.evaluate(rule.nodes)[0]
    scale = np.abs(load(space, np.abs(problem.initial(rule.nodes)))).max()
    assert np.abs(load(space, defect)).max() < 1e-13 * scale


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_values_in_between_are_those_of_scikit_fem(dimension):
    space, rng = p1_space(dimension, 4), np.random.default_rng(7)
    unknowns = rng.standard_normal(4**dimension)
    every = space.reduction @ unknowns
    nodes = rng.uniform(size=(200, dimension))
    (found,) = space.evaluate(nodes, unknowns[None])
    assert found == pytest.approx(space.basis.interpolator(every)(nodes.T), abs=1e-13)
    assert space.evaluate(vertices(space), unknowns[None])[0] == pytest.approx(unknowns, rel=1e-12)
    corners = np.array(list(itertools.product((0.0, 1.0), repeat=dimension)))
    assert space.evaluate(corners, unknowns[None])[0] == pytest.approx(np.zeros(2**dimension), abs=1e-15)


def test_values_in_1d_are_linear_between_vertices():
    solution = p1_fem(oscillatory_1d(epsilon=0.2), 7, TimeGrid(0.1, 4, (2,)))
    nodes = np.linspace(0.0, 1.0, 57)
    padded = np.pad(solution.states, ((0, 0), (1, 1)))
    expected = [np.interp(nodes, np.linspace(0.0, 1.0, 9), state) for state in padded]
    assert solution.times.tolist() == [0.0, 0.05, 0.1]
    assert solution.evaluate(nodes[:, None]) == pytest.approx(np.array(expected), rel=1e-12, abs=1e-14)


def test_saved_states_are_those_of_a_run_that_keeps_all():
    every = p1_fem(moving(1), 7, TimeGrid(0.1, 6, tuple(range(7))))
    some = p1_fem(moving(1), 7, TimeGrid(0.1, 6, (2, 5)))
    assert some.states.tolist() == every.states[[0, 2, 5, 6]].tolist()
    assert some.times.tolist() == every.times[[0, 2, 5, 6]].tolist()


# Evolution


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


@pytest.mark.parametrize("dimension", [1, 2])
def test_the_march_is_the_midpoint_rule_of_the_assembled_system(dimension):
    problem, grid = moving(dimension), ends(0.4, 5)
    solution = p1_fem(problem, 5, grid)
    space, nodes = solution.space, solution.space.interior.rule.nodes
    M, u = mass(space), solution.states[0]
    for t in 0.08 * (np.arange(5) + 0.5):
        K = stiffness(space, problem.diffusion(nodes, np.array([t]))[0])
        F = load(space, problem.source(nodes, np.array([t]))[0])
        u = np.linalg.solve(M + 0.04 * K, (M - 0.04 * K) @ u + 0.08 * F)
    assert solution.states[-1] == pytest.approx(u, rel=1e-10)


@pytest.mark.parametrize("dimension", [1, 2])
def test_separable_and_nonseparable_data_give_the_same_numbers(dimension):
    def unsplit(function):
        return NonSeparable(lambda nodes, t: function(nodes, np.array([t]))[0])

    problem, grid = moving(dimension), ends(0.3, 6)
    assert not problem.diffusion.steady
    whole = dataclasses.replace(problem, diffusion=unsplit(problem.diffusion), source=unsplit(problem.source))
    states = [p1_fem(each, 6, grid).states for each in (problem, whole)]
    assert states[1] == pytest.approx(states[0], rel=1e-11, abs=1e-15)


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


# What is refused


@pytest.mark.parametrize(
    ("dimension", "unknowns", "degree", "name"),
    [
        (1, 0, None, "unknowns"),
        (1, 2.0, None, "unknowns"),
        (1, True, None, "unknowns"),
        (3, 100, None, "unknowns"),
        (1, 4, 1, "degree"),
        (1, 4, 3.0, "degree"),
        (2, 4, MAX_DEGREE + 1, "degree"),
    ],
)
def test_refused_numbers(dimension, unknowns, degree, name):
    with pytest.raises(ParameterError, match=f"`{name}` must be"):
        check_size(dimension, unknowns, degree)
    with pytest.raises(ParameterError, match=f"`{name}` must be"):
        p1_fem(moving(dimension), unknowns, ends(0.2, 2), degree)


@pytest.mark.parametrize("diffusion", ["x - 1/2", "1 - 1.06*t", "1 - 2.1*t*x/(1 + t*x)"])
def test_refused_diffusion(diffusion, monkeypatch):
    # the last midpoint alone, t = 0.95, is where the latter two are negative, whether asked for together or one by one
    problem = pde.FormulaProblem(dimension=1, initial="sin(pi*x)", diffusion=diffusion)()
    for nodes_at_once in (p1_fem_module.MAX_QUADRATURE_NODES, 100):
        monkeypatch.setattr(p1_fem_module, "MAX_QUADRATURE_NODES", nodes_at_once)
        with pytest.raises(ProblemError, match="`diffusion` must be positive"):
            p1_fem(problem, 5, ends(1.0, 10))


def test_a_diffusion_that_is_not_a_number_is_refused():
    problem = dataclasses.replace(moving(1), diffusion=NonSeparable(lambda nodes, t: np.full(len(nodes), np.nan)))
    with pytest.raises(ProblemError, match="`diffusion` must be positive"):
        p1_fem(problem, 5, ends(1.0, 10))
