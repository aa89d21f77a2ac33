"""Finite differences in the sine modes: the transform, the discrete eigenvalues, both time steps, energy, refusals."""

import dataclasses

import numpy as np
import pytest
import scipy.fft

from evogt_study.errors import ParameterError, ProblemError
from evogt_study.pde.baselines import finite_difference
from evogt_study.pde.baselines.finite_difference import (
    MAX_FOLDED,
    FiniteDifferenceReference,
    GridSolution,
    constant_diffusion,
    finite_differences,
    sine_transform,
)
from evogt_study.pde.dictionaries import Dictionary
from evogt_study.pde.galerkin.problem import NonSeparable, Potential, Problem, Separable
from evogt_study.pde.galerkin.system import TIMES_AT_ONCE
from evogt_study.pde.integrators import ImplicitMidpoint, StabilizedSemiImplicit
from evogt_study.pde.numerics.quadrature import QuadratureRule
from evogt_study.pde.numerics.time_grid import TimeGrid
from evogt_study.pde.pipeline import Discretisation, solve
from evogt_study.pde.problems import oscillatory_1d
from evogt_study.pde.problems.formula_problem import FormulaProblem

EPS = np.finfo(float).eps
MIDPOINT = ImplicitMidpoint()
EULER = StabilizedSemiImplicit(0.0)
DAMPED = StabilizedSemiImplicit(2.0)

dimensions = pytest.mark.parametrize("dimension", [1, 2, 3])
integrators = pytest.mark.parametrize("integrator", [MIDPOINT, EULER, DAMPED], ids=["midpoint", "euler", "damped"])


def every_step(final_time, steps):
    return TimeGrid(final_time, steps, tuple(range(steps + 1)))


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


# The transform


LINES = [(n,) for n in (1, 2, 3, 4, 7, 8, 31, 64, 159, MAX_FOLDED, MAX_FOLDED + 1)]
SQUARES = [(2, 2), (5, 5), (12, 12), (33, 33), (1, 1, 1), (4, 4, 4), (9, 9, 9)]


@pytest.mark.parametrize("shape", LINES + SQUARES, ids=str)
def test_the_transform_is_the_dst_of_type_one_in_each_direction(shape):
    values = np.random.default_rng(shape[0]).standard_normal(shape)
    found = sine_transform(values)
    assert found.shape == shape
    # the sines' arguments are up to pi n/2 and rounded, and the entries of a row are of size sqrt(2/n)
    noise = 4 * EPS * np.sqrt(shape[0]) * np.linalg.norm(values)
    assert found == pytest.approx(scipy.fft.dstn(values, type=1, norm="ortho"), abs=noise)


@pytest.mark.parametrize("shape", [(6,), (7,), (6, 6), (7, 7), (5, 5, 5), (6, 6, 6), (MAX_FOLDED + 1,)], ids=str)
def test_the_transform_is_its_own_inverse_and_keeps_the_norm(shape):
    values = np.random.default_rng(1).standard_normal(shape)
    once = sine_transform(values)
    noise = 4 * EPS * np.sqrt(shape[0]) * np.linalg.norm(values)
    assert np.linalg.norm(once) == pytest.approx(np.linalg.norm(values), abs=noise)
    assert sine_transform(once) == pytest.approx(values, abs=noise)


def test_the_transform_leaves_its_argument_as_it_is():
    values = np.random.default_rng(3).standard_normal((6, 6))
    before = values.copy()
    sine_transform(values)
    sine_transform(np.broadcast_to(1.0, (6, 6)))  # read-only, as an absent slope is
    assert np.array_equal(values, before)


# Against dense matrices


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
    problem = heat(dimension, source=SOURCES[source])(nu=0.2)
    found = finite_differences(problem, n, every_step(0.3, 5), integrator)
    wanted = naive(problem, n, 0.3, 5, integrator, 0.2)
    assert found.fields.shape == wanted.shape
    assert found.points == n
    assert found.times == pytest.approx(np.arange(6) * 0.06, abs=EPS)
    assert found.fields == pytest.approx(wanted, abs=64 * EPS * np.abs(wanted).max())


@dimensions
@pytest.mark.parametrize("integrator", [EULER, DAMPED], ids=["euler", "damped"])
def test_a_reaction_is_explicit(dimension, integrator):
    n = {1: 12, 2: 5, 3: 3}[dimension]
    problem = heat(dimension, source="x*cos(t)", potential="(u**2 - 1)**2/4 + u")(nu=0.05)
    found = finite_differences(problem, n, every_step(1.0, 7), integrator)
    wanted = naive(problem, n, 1.0, 7, integrator, 0.05)
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
    found = finite_differences(problem, 6, every_step(final_time, steps), integrator)
    assert found.fields == pytest.approx(naive(problem, 6, final_time, steps, integrator, 0.1), abs=64 * EPS)


def test_only_the_observed_fields_are_kept_and_all_energies():
    problem = heat(2, potential="u**4")(nu=0.1)
    everything = finite_differences(problem, 7, every_step(1.0, 20), DAMPED)
    some = finite_differences(problem, 7, TimeGrid.of(1.0, 0.05, (0.2, 0.65)), DAMPED)
    assert np.array_equal(some.times, everything.times[[0, 4, 13, 20]])
    assert np.array_equal(some.fields, everything.fields[[0, 4, 13, 20]])
    assert np.array_equal(some.energies, everything.energies)
    assert some.energies.shape == (21,)


# Sine modes, in closed form


def eigenvalue(ks, n):
    """Of -Delta_h."""
    h = 1.0 / (n + 1)
    return sum(4.0 / h**2 * np.sin(np.pi * k * h / 2.0) ** 2 for k in ks)


def mode(ks):
    return "*".join(f"sin({k}*pi*{x})" for k, x in zip(ks, "xyz", strict=False))


MODES = [((1,), 9), ((4,), 10), ((2, 3), 8), ((5, 1), 7), ((1, 2, 3), 5), ((2, 2, 1), 6)]


@pytest.mark.parametrize(("ks", "n"), MODES, ids=str)
@integrators
def test_a_mode_decays_by_the_factor_of_its_discrete_eigenvalue(ks, n, integrator):
    nu, dt, steps = 0.05, 0.02, 15
    rate, S = nu * eigenvalue(ks, n), getattr(integrator, "stabilization", 0.0)
    if integrator.name == "implicit_midpoint":
        factor = (1 - dt * rate / 2) / (1 + dt * rate / 2)
    else:
        factor = (1 + S * dt) / (1 + S * dt + dt * rate)
    found = finite_differences(heat(len(ks), initial=mode(ks))(nu=nu), n, every_step(dt * steps, steps), integrator)
    start = np.prod(np.sin(np.pi * grid_nodes(n, len(ks)) * np.array(ks)), axis=1).reshape([n] * len(ks))
    for step, field in enumerate(found.fields):
        assert field == pytest.approx(factor**step * start, abs=16 * EPS * (step + 2))
    # sum_j sin^2(pi k j h) h = 1/2 in each direction
    energies = 0.5 * rate * 0.5 ** len(ks) * factor ** (2 * np.arange(steps + 1))
    assert found.energies == pytest.approx(energies, rel=1e-12, abs=0.0)


@pytest.mark.parametrize(("ks", "points"), [((2,), (9, 19, 39, 79)), ((1, 2), (9, 19, 39)), ((1, 1, 2), (5, 11, 23))])
def test_order_two_in_the_spacing_towards_a_sine_mode(ks, points):
    nu = 0.05
    rate = nu * np.pi**2 * sum(k * k for k in ks)
    errors, predicted = [], []
    for n in points:
        found = finite_differences(heat(len(ks), initial=mode(ks))(nu=nu), n, TimeGrid(0.4, 2000, ()), MIDPOINT)
        exact = np.exp(-0.4 * rate) * found.fields[0]
        errors.append(np.linalg.norm(found.fields[-1] - exact) / np.linalg.norm(exact))
        # 4/h^2 sin^2(pi k h/2) = (pi k)^2 - (pi k)^4 h^2/12 + ...
        predicted.append(0.4 * nu * np.pi**4 * sum(k**4 for k in ks) / 12.0 / (n + 1) ** 2)
    errors = np.array(errors)
    assert np.log2(errors[:-1] / errors[1:]) == pytest.approx([2.0] * (len(points) - 1), abs=0.05)
    assert errors[-1] == pytest.approx(predicted[-1], rel=0.02)


def test_order_two_in_time_of_the_midpoint_rule_and_one_of_the_other():
    # of the spatially discrete mode, so that nothing but the time step is seen
    n, nu, ks = 11, 0.05, (2,)
    exact = np.exp(-nu * eigenvalue(ks, n))
    for integrator, order in ((MIDPOINT, 2.0), (EULER, 1.0), (DAMPED, 1.0)):
        errors = []
        for steps in (100, 200, 400):
            found = finite_differences(heat(1, initial=mode(ks))(nu=nu), n, TimeGrid(1.0, steps, ()), integrator)
            errors.append(abs(found.fields[-1, 2] / found.fields[0, 2] - exact))
        assert np.log2(np.divide(errors[:-1], errors[1:])) == pytest.approx([order] * 2, abs=0.03)


@dimensions
def test_a_linear_problem_approaches_its_exact_solution_with_order_two(dimension):
    exact = "exp(-t)*" + "*".join(f"{x}**2*(1-{x})*8" for x in "xyz"[:dimension])
    problem = FormulaProblem(dimension=dimension, exact=exact, diffusion="1/20")()
    points = {1: (15, 31, 63), 2: (11, 23, 47), 3: (7, 15, 31)}[dimension]
    errors = []
    for n in points:
        steps = 4 * (n + 1)
        found = finite_differences(problem, n, TimeGrid(0.5, steps, ()), MIDPOINT)
        wanted = problem.exact(grid_nodes(n, dimension), np.array([0.5]))[0].reshape([n] * dimension)
        errors.append(np.linalg.norm(found.fields[-1] - wanted) / np.linalg.norm(wanted))
    assert np.log2(np.divide(errors[:-1], errors[1:])) == pytest.approx([2.0] * 2, abs=0.1)
    assert errors[-1] < {1: 1e-4, 2: 2e-4, 3: 1e-3}[dimension]


def test_a_manufactured_gradient_flow_approaches_its_exact_solution_with_order_one_in_time():
    # sin(pi x) sin(pi y) on the grid is an eigenvector: what is left of the error in space is h^2
    problem = FormulaProblem(
        dimension=2, exact="cos(2*t)*sin(pi*x)*sin(pi*y)", diffusion="1/100", potential="(u**2 - 1)**2/4"
    )()
    wanted = problem.exact(grid_nodes(79, 2), np.array([0.5]))[0].reshape(79, 79)
    errors = []
    for steps in (20, 40, 80):
        found = finite_differences(problem, 79, TimeGrid(0.5, steps, ()), DAMPED)
        errors.append(np.linalg.norm(found.fields[-1] - wanted) / np.linalg.norm(wanted))
    assert np.log2(np.divide(errors[:-1], errors[1:])) == pytest.approx([1.0] * 2, abs=0.06)


# Energy


@dimensions
@pytest.mark.parametrize("potential", ["(u**2 - 1)**2/4", "1 + u", None], ids=str)
def test_the_energy_is_the_trapezoidal_sum_over_the_grid_with_its_boundary(dimension, potential):
    n, nu = {1: 11, 2: 6, 3: 4}[dimension], 0.07
    problem = heat(dimension, potential=potential)(nu=nu)
    found = finite_differences(problem, n, every_step(0.5, 4), DAMPED)
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


@pytest.mark.parametrize("dt", [0.01, 0.5, 20.0])
def test_the_energy_of_the_allen_cahn_equation_never_grows(dt):
    initial = "0.42*sin(6*pi*x)*sin(6*pi*y) + 0.24*sin(4*pi*x)*sin(7*pi*y) + 0.16*sin(9*pi*x)*sin(3*pi*y)"
    problem = heat(2, "0.025**2", initial, potential="(u**2 - 1)**2/4")()
    energies = finite_differences(problem, 40, TimeGrid(dt * 100, 100, ()), DAMPED).energies
    assert (np.diff(energies) <= 8 * EPS * energies[0]).all()
    assert energies[-1] < energies[0] * (1.0 - 1e-2)


# Interpolation


@dimensions
def test_multilinear_functions_between_grid_points_are_met_exactly(dimension):
    n, rng = 4, np.random.default_rng(dimension)
    fields = rng.standard_normal((2, *[n] * dimension))
    solution = GridSolution(np.array([0.0, 1.0]), fields, np.zeros(2))
    padded = np.pad(fields, [(0, 0)] + [(1, 1)] * dimension)
    nodes = rng.uniform(0.0, 1.0, (30, dimension))
    wanted = np.zeros((2, 30))
    for p, node in enumerate(nodes):
        low = np.floor(node * (n + 1)).astype(int)
        part = node * (n + 1) - low
        for corner in np.ndindex(*[2] * dimension):
            weight = np.prod([part[a] if corner[a] else 1.0 - part[a] for a in range(dimension)])
            wanted[:, p] += weight * padded[(slice(None), *(low + corner))]
    found = solution.evaluate(nodes)
    assert found.shape == (2, 30)
    assert found == pytest.approx(wanted, abs=32 * EPS)


@dimensions
def test_grid_points_are_interpolated_to_themselves_and_the_boundary_to_zero(dimension):
    n = 5
    found = finite_differences(heat(dimension)(nu=0.1), n, every_step(0.1, 2), MIDPOINT)
    assert found.evaluate(grid_nodes(n, dimension)) == pytest.approx(found.fields.reshape(3, -1), abs=8 * EPS)
    on_boundary = np.random.default_rng(0).uniform(0.0, 1.0, (6, dimension))
    on_boundary[:3, 0], on_boundary[3:, -1] = 0.0, 1.0
    assert not found.evaluate(on_boundary).any()


# As a reference


def reference_of(problem, n, grid, integrator=MIDPOINT):
    return FiniteDifferenceReference(problem, n, grid, integrator)


def test_a_reference_is_the_interpolated_solution_at_the_times_asked_for():
    problem, grid = heat(2)(nu=0.1), TimeGrid.of(0.3, 0.02, (0.1, 0.2))
    nodes = np.random.default_rng(1).uniform(0.0, 1.0, (7, 2))
    reference = reference_of(problem, 8, grid)
    solution = finite_differences(problem, 8, grid, MIDPOINT)
    every = solution.evaluate(nodes)
    assert np.array_equal(reference(nodes, grid.observed_times), every)
    assert np.array_equal(reference(nodes, grid.observed_times[1:]), every[1:])
    assert np.array_equal(reference(nodes, np.array([0.2])), every[2:3])
    noisy = np.array([0.1 + 1e-16, 0.3 - 1e-16, 0.2 * (1 - EPS)])  # the same times by another path of arithmetic
    assert np.array_equal(reference(nodes, noisy), every[[1, 3, 2]])


def test_a_reference_is_identified_by_everything_but_the_problem():
    problem, grid = heat(1)(nu=0.1), TimeGrid.of(0.3, 0.02)
    keys = {
        reference_of(problem, 8, grid).key,
        reference_of(problem, 9, grid).key,
        reference_of(problem, 8, grid.refined(0.01)).key,
        reference_of(problem, 8, grid, DAMPED).key,
        reference_of(problem, 8, grid, EULER).key,
    }
    assert len(keys) == 5
    assert reference_of(problem, 8, grid).key in keys


def test_errors_of_a_run_are_measured_against_the_reference():
    problem = heat(1)(nu=0.05)
    grid = TimeGrid.of(0.2, 0.01, (0.1,))
    rule = QuadratureRule("gauss_legendre", 40)
    run = Discretisation(Dictionary("uniform_elm", 30, 5.0), 0, 1e-12, rule, rule, grid)
    solution = solve(problem, run, reference=reference_of(problem, 200, grid.refined(0.005)))
    assert solution.errors.shape == (3,)
    nodes = solution.space.quadrature
    reference = finite_differences(problem, 200, grid.refined(0.005), MIDPOINT).evaluate(nodes.nodes)
    difference = solution.evaluate(nodes.nodes) - reference
    wanted = np.sqrt((difference**2 @ nodes.weights) / (reference**2 @ nodes.weights))
    assert solution.errors[1:] == pytest.approx(wanted[1:], rel=1e-9)
    assert (solution.errors < 1e-3).all()


# What is refused


def lifted(dimension=1):
    return FormulaProblem(dimension=dimension, initial="x", lifting="x")()


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (lifted, "finite differences must have zero boundary values, got a problem with a lifting"),
        (
            lambda: heat(1, "1 + t/2")(),
            "finite differences must have a constant `diffusion`, got one that depends on t",
        ),
        (
            lambda: heat(1, "1 + sin(x*t)/2")(),
            "finite differences must have a constant `diffusion`, got one that depends on t",
        ),
        (
            lambda: heat(1, "1 + x")(),
            "finite differences must have a constant positive `diffusion`, got values from 1.00036 to 1.99913",
        ),
        (
            lambda: heat(2, "2 - y")(),
            "finite differences must have a constant positive `diffusion`, got values from 1.00037 to 1.99899",
        ),
        (
            lambda: heat(3, "2 - z")(),
            "finite differences must have a constant positive `diffusion`, got values from 1.00091 to 1.99927",
        ),
        (
            lambda: heat(1, "0")(),
            "finite differences must have a constant positive `diffusion`, got values from 0 to 0",
        ),
        (
            lambda: heat(1, "nu")(nu=-0.5),
            "finite differences must have a constant positive `diffusion`, got values from -0.5 to -0.5",
        ),
    ],
)
def test_problems_that_sine_modes_do_not_diagonalise_are_refused(problem, message):
    stated = problem()
    for attempt in (
        lambda: finite_differences(stated, 5, every_step(0.1, 2), MIDPOINT),
        lambda: constant_diffusion(stated),
        lambda: reference_of(stated, 5, every_step(0.1, 2))(np.full((1, stated.dimension), 0.5), np.array([0.1])),
    ):
        with pytest.raises(ProblemError) as caught:
            attempt()
        assert str(caught.value) == message


@pytest.mark.parametrize(
    ("diffusion", "message"),
    [
        (Separable(lambda nodes: np.full((1, len(nodes)), np.nan)), "constant positive `diffusion`"),
        (Separable(lambda nodes: np.full((1, len(nodes)), np.inf)), "constant positive `diffusion`"),
        *((oscillatory_1d(epsilon=epsilon).diffusion, "constant positive") for epsilon in (1 / 8, 1 / 16, 1 / 3)),
        # constant, but not stated as one
        (NonSeparable(lambda nodes, t: np.ones(len(nodes))), "depends on t"),
    ],
)
def test_a_diffusion_that_is_no_finite_constant_is_refused(diffusion, message):
    with pytest.raises(ProblemError, match=message):
        constant_diffusion(Problem(1, diffusion, lambda nodes: nodes[:, 0]))


@pytest.mark.parametrize("nu", ["nu", "nu*exp(x - x)", "nu*(sin(x)/sin(x))"])
def test_a_constant_diffusion_is_found(nu):
    assert constant_diffusion(heat(2, nu)(nu=0.3)) == 0.3


@pytest.mark.parametrize(
    ("dimension", "points"), [(1, 0), (1, 4_000_001), (2, 2001), (3, 159), (1, -3), (2, -1), (3, 0)]
)
def test_a_grid_of_no_or_too_many_points_is_refused_before_anything_is_computed(dimension, points, monkeypatch):
    monkeypatch.setattr(finite_difference, "_interior", lambda *_: pytest.fail("a grid was made"))
    with pytest.raises(ParameterError) as caught:
        finite_differences(heat(dimension)(nu=1.0), points, every_step(0.1, 2), MIDPOINT)
    assert str(caught.value) == (
        f"`points` must be such that the grid has at least one and at most 4,000,000 points, got '{points}^{dimension}'"
    )


def test_a_grid_of_one_point_is_one_equation():
    found = finite_differences(heat(1, initial="4*x*(1-x)")(nu=0.5), 1, every_step(0.1, 1), EULER)
    assert found.fields[:, 0] == pytest.approx([1.0, 1.0 / (1.0 + 0.1 * 0.5 * 8.0)], abs=2 * EPS)


def test_the_midpoint_rule_is_refused_for_a_problem_with_a_potential():
    problem = dataclasses.replace(heat(1)(nu=1.0), potential=Potential(np.square, lambda u: 2.0 * u))
    with pytest.raises(ParameterError, match="`time_integrator` must be stabilized_semi_implicit or imex_bdf_2 for"):
        finite_differences(problem, 5, every_step(0.1, 2), MIDPOINT)
