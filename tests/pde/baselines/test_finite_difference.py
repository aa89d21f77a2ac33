"""Finite differences in the sine modes: the transform, both time steps against dense matrices, and the energy."""

import numpy as np
import pytest
import scipy.fft
from wing import every_step

from evogt_study.pde.baselines.finite_difference import (
    MAX_FOLDED_POINTS,
    apply_sine_transform,
    solve_differences,
)
from evogt_study.pde.galerkin.system import TIMES_AT_ONCE
from evogt_study.pde.integrators import ImplicitMidpoint, StabilizedSemiImplicit
from evogt_study.pde.numerics import TimeGrid
from evogt_study.pde.problems.formula_problem import FormulaProblem

EPS = np.finfo(float).eps
MIDPOINT = ImplicitMidpoint()
EULER = StabilizedSemiImplicit(0.0)
DAMPED = StabilizedSemiImplicit(2.0)

dimensions = pytest.mark.parametrize("dimension", [1, 2, 3])
integrators = pytest.mark.parametrize("integrator", [MIDPOINT, EULER, DAMPED], ids=["midpoint", "euler", "damped"])


def interior(n):
    return np.arange(1, n + 1) / (n + 1)


def grid_nodes(n, dimension):
    return np.stack([axis.ravel() for axis in np.meshgrid(*[interior(n)] * dimension, indexing="ij")], axis=1)


def second_difference(n):
    """-Delta_h in one direction, dense."""
    return (n + 1) ** 2 * (2.0 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1))


def laplacian(n, dimension):
    """-Delta_h, dense: (n^d, n^d), by Kronecker products."""
    total = np.zeros((n**dimension,) * 2)
    for axis in range(dimension):
        factors = [np.eye(n)] * dimension
        factors[axis] = second_difference(n)
        product = np.eye(1)
        for factor in factors:
            product = np.kron(product, factor)
        total += product
    return total


LINES = [(n,) for n in (1, 2, 3, 4, 7, 8, 31, 64, 159, MAX_FOLDED_POINTS, MAX_FOLDED_POINTS + 1)]
SQUARES = [(2, 2), (5, 5), (12, 12), (33, 33), (1, 1, 1), (4, 4, 4), (9, 9, 9)]


@pytest.mark.parametrize("shape", LINES + SQUARES, ids=str)
def test_the_transform_is_the_dst_of_type_one_in_each_direction(shape):
    values = np.random.default_rng(shape[0]).standard_normal(shape)
    found = apply_sine_transform(values)
    assert found.shape == shape
    # the sines' arguments are up to pi n/2 and rounded, and the entries of a row are of size sqrt(2/n)
    noise = 4 * EPS * np.sqrt(shape[0]) * np.linalg.norm(values)
    assert found == pytest.approx(scipy.fft.dstn(values, type=1, norm="ortho"), abs=noise)


def heat(dimension, nu="nu", initial=None, **more):
    bubble = "*".join(f"{x}*(1-{x})*(2+{x})" for x in "xyz"[:dimension])
    return FormulaProblem(dimension=dimension, initial=initial or bubble, diffusion=nu, **more)


def naive(problem, n, final_time, steps, integrator, nu):
    """All fields by dense linear algebra on the unknowns of the grid."""
    nodes = grid_nodes(n, problem.dimension)
    L, identity = nu * laplacian(n, problem.dimension), np.eye(n**problem.dimension)
    dt, S = final_time / steps, getattr(integrator, "stabilization", 0.0)
    slope = (lambda u: 0.0 * u) if problem.potential is None else problem.potential.slope
    u, fields = problem.initial(nodes), [problem.initial(nodes)]
    for step in range(steps):
        if integrator.name == "implicit_midpoint":
            f = problem.source(nodes, np.array([(step + 0.5) * dt]))[0]
            u = np.linalg.solve(identity + dt / 2 * L, (identity - dt / 2 * L) @ u + dt * f)
        else:
            f = problem.source(nodes, np.array([(step + 1) * dt]))[0]
            u = np.linalg.solve((1 + S * dt) * identity + dt * L, (1 + S * dt) * u + dt * (f - slope(u)))
        fields.append(u)
    return np.array(fields).reshape(steps + 1, *[n] * problem.dimension)


SOURCES = {"unforced": None, "steady": "1 + x", "moving": "cos(5*t)*x + t", "unsplit": "sin(3*x*t + 1)"}


@dimensions
@integrators
@pytest.mark.parametrize("source", SOURCES)
def test_the_fields_are_those_of_dense_matrices(dimension, integrator, source):
    n = {1: 13, 2: 6, 3: 4}[dimension]
    potential = None if integrator is MIDPOINT or source == "steady" else "(u**2 - 1)**2/4 + u"
    problem = heat(dimension, source=SOURCES[source], potential=potential)(nu=0.2)
    found = solve_differences(problem, n, every_step(0.3, 5), integrator)
    wanted = naive(problem, n, 0.3, 5, integrator, 0.2)
    assert found.fields.shape[1] == n
    assert found.times == pytest.approx(np.arange(6) * 0.06, abs=EPS)
    assert found.fields == pytest.approx(wanted, abs=64 * EPS * np.abs(wanted).max())


@pytest.mark.parametrize(
    ("source", "final_time", "steps", "integrator"),
    [
        *(("cos(9*t)*x", 1.0, steps, MIDPOINT) for steps in (TIMES_AT_ONCE - 1, TIMES_AT_ONCE, TIMES_AT_ONCE + 1)),
        # zero at its first time, where it must not be taken for none
        ("(t - 1/16)*x", 0.5, 4, MIDPOINT),
        ("(t - 1/8)*x", 0.5, 4, EULER),
    ],
)
def test_a_source_is_taken_at_the_time_of_each_step(source, final_time, steps, integrator):
    problem = heat(1, source=source)(nu=0.1)
    found = solve_differences(problem, 6, every_step(final_time, steps), integrator)
    assert found.fields == pytest.approx(naive(problem, 6, final_time, steps, integrator, 0.1), abs=64 * EPS)


@dimensions
def test_a_linear_problem_approaches_its_exact_solution_with_order_two(dimension):
    exact = "exp(-t)*" + "*".join(f"{x}**2*(1-{x})*8" for x in "xyz"[:dimension])
    problem = FormulaProblem(dimension=dimension, exact=exact, diffusion="1/20")()
    points = {1: (15, 31, 63), 2: (11, 23, 47), 3: (7, 15, 31)}[dimension]
    errors = []
    for n in points:
        steps = 4 * (n + 1)
        found = solve_differences(problem, n, TimeGrid(0.5, steps, ()), MIDPOINT)
        wanted = problem.exact(grid_nodes(n, dimension), np.array([0.5]))[0].reshape([n] * dimension)
        errors.append(np.linalg.norm(found.fields[-1] - wanted) / np.linalg.norm(wanted))
    assert np.log2(np.divide(errors[:-1], errors[1:])) == pytest.approx([2.0] * 2, abs=0.1)
    assert errors[-1] < {1: 1e-4, 2: 2e-4, 3: 1e-3}[dimension]


@dimensions
@pytest.mark.parametrize("potential", ["(u**2 - 1)**2/4", "1 + u", None], ids=str)
def test_the_energy_is_the_trapezoidal_sum_over_the_grid_with_its_boundary(dimension, potential):
    n, nu = {1: 11, 2: 6, 3: 4}[dimension], 0.07
    problem = heat(dimension, potential=potential)(nu=nu)
    found = solve_differences(problem, n, every_step(0.5, 4), DAMPED)
    h = 1.0 / (n + 1)
    along = np.full(n + 2, h)
    along[[0, -1]] = h / 2
    weights = along
    for _ in range(dimension - 1):
        weights = np.multiply.outer(weights, along)
    wanted = []
    for field in found.fields:
        u = np.pad(field, 1)
        squares = sum(np.sum(np.diff(u, axis=axis) ** 2) for axis in range(dimension)) * h ** (dimension - 2)
        bulk = 0.0 if potential is None else np.sum(weights * problem.potential.value(u))
        wanted.append(0.5 * nu * squares + bulk)
    assert found.energies == pytest.approx(wanted, rel=1e-13, abs=0.0)
