"""Nonhomogeneous Dirichlet data through a lifting u = u_b + phi~ . alpha (remark nonhomo), on manufactured solutions.

What is compared with shares neither the parser nor the symbolic derivatives with the package: liftings are plain
functions here, and their derivatives are taken by complex steps.
"""

import dataclasses

import numpy as np
import pytest

from evogt_study import pde
from evogt_study.errors import ProblemError
from evogt_study.pde.domains import UnitCube
from evogt_study.pde.galerkin.problem import Lifting, NonSeparable, Separable
from evogt_study.pde.galerkin.retained_space import retain, trial_functions, weighted_svd
from evogt_study.pde.galerkin.system import TIMES_AT_ONCE, AssembledLifting, GalerkinSystem, assemble
from evogt_study.pde.galerkin.validation import energy_history, norm_history
from evogt_study.pde.methods.parameters import integrator_of
from evogt_study.pde.numerics.quadrature import QuadratureRule
from evogt_study.pde.numerics.time_grid import TimeGrid, Trajectory
from evogt_study.pde.pipeline import Discretisation, solve

EPS = np.finfo(float).eps
sin, cos, exp, pi = np.sin, np.cos, np.exp, np.pi

# Dimension; v, which vanishes on the boundary; u_b; a.  Formulas, and u_b and a as plain functions of (x, ..., t).
CASES = {
    "steady-1d": (
        1, "exp(-t)*sin(pi*x)",
        "1 + x**2/2", lambda x, t: 1 + x**2 / 2,
        "(2 + x)/10", lambda x, t: (2 + x) / 10,
    ),
    "moving-lifting-1d": (
        1, "exp(-t)*sin(pi*x)",
        "cos(2*t)*(1 - x) + x*exp(-t)", lambda x, t: cos(2 * t) * (1 - x) + x * exp(-t),
        "(2 + x)/10", lambda x, t: (2 + x) / 10,
    ),
    "moving-diffusion-1d": (
        1, "exp(-t)*sin(2*pi*x)",
        "1 - x**3", lambda x, t: 1 - x**3,
        "(1 + x*sin(5*t)/2)/10", lambda x, t: (1 + x * sin(5 * t) / 2) / 10,
    ),
    "moving-1d": (
        1, "exp(-t)*sin(pi*x)",
        "(1 + t)*(1 - x) + x**2*cos(3*t)", lambda x, t: (1 + t) * (1 - x) + x**2 * cos(3 * t),
        "(2 + x*sin(5*t) + x**2*exp(-t))/20", lambda x, t: (2 + x * sin(5 * t) + x**2 * exp(-t)) / 20,
    ),
    "unsplit-lifting-1d": (
        1, "cos(t)*sin(pi*x)",
        "sin(x*t + 1)", lambda x, t: sin(x * t + 1),
        "(2 + x)/10", lambda x, t: (2 + x) / 10,
    ),
    "unsplit-1d": (
        1, "cos(t)*x*(1-x)*exp(x*t)",
        "exp(x*t)/(1 + x + t)", lambda x, t: exp(x * t) / (1 + x + t),
        "(2 + sin(x - 3*t))/20", lambda x, t: (2 + sin(x - 3 * t)) / 20,
    ),
    "steady-2d": (
        2, "exp(-t)*sin(pi*x)*sin(pi*y)",
        "1 + x - x*y**2", lambda x, y, t: 1 + x - x * y**2,
        "(2 + x*y)/10", lambda x, y, t: (2 + x * y) / 10,
    ),
    "moving-2d": (
        2, "exp(-t)*sin(pi*x)*y*(1-y)",
        "(1 + t)*x + y**2*exp(-t) - 1", lambda x, y, t: (1 + t) * x + y**2 * exp(-t) - 1,
        "(2 + sin(4*t)*x + y)/20", lambda x, y, t: (2 + sin(4 * t) * x + y) / 20,
    ),
    "unsplit-2d": (
        2, "exp(-t)*sin(pi*x)*y*(1-y)",
        "cos(x + 2*y*t)", lambda x, y, t: cos(x + 2 * y * t),
        "(2 + sin(x*t + y))/20", lambda x, y, t: (2 + sin(x * t + y)) / 20,
    ),
    "moving-3d": (
        3, "exp(-t)*sin(pi*x)*sin(pi*y)*z*(1-z)",
        "x*y + cos(2*t)*z", lambda x, y, z, t: x * y + cos(2 * t) * z,
        "(2 + x*z*sin(3*t))/20", lambda x, y, z, t: (2 + x * z * sin(3 * t)) / 20,
    ),
}  # fmt: skip
cases = pytest.mark.parametrize("case", CASES)
integrators = pytest.mark.parametrize("integrator", ["implicit_midpoint", "stabilized_semi_implicit"])

DICTIONARIES = {
    1: pde.Dictionary("uniform_elm", N=40, gamma=5),
    2: pde.Dictionary("transnet", N=90, gamma=2),
    3: pde.Dictionary("transnet", N=100, gamma=1),
}
POINTS = {1: 40, 2: 14, 3: 8}
# How well these rules integrate by parts: measured 5e-13, 5e-11, 5e-9
RESOLVED = {1: 1e-11, 2: 1e-9, 3: 1e-7}


def lifted_statement(case):
    dimension, v, u_b, _, a, _ = CASES[case]
    return pde.FormulaProblem(dimension=dimension, exact=f"{v} + {u_b}", lifting=u_b, diffusion=a)


def homogeneous_statement(case):
    dimension, v, _, _, a, _ = CASES[case]
    return pde.FormulaProblem(dimension=dimension, exact=v, diffusion=a)


def run_of(problem, steps, *, final_time=0.5, integrator="implicit_midpoint", stabilization=0.0, tau=1e-14, saved=None):
    rule = QuadratureRule("gauss_legendre", POINTS[problem.dimension])
    grid = TimeGrid(final_time, steps, tuple(range(steps + 1)) if saved is None else saved)
    dictionary = DICTIONARIES[problem.dimension]
    integrator = integrator_of({"time_integrator": integrator, "stabilization": stabilization})
    return solve(problem, Discretisation(dictionary, 1, tau, rule, rule, grid, integrator))


def small_space(dimension, N=8, tau=1e-6):
    points = {1: 14, 2: 6, 3: 4}[dimension]
    cube = UnitCube(dimension)
    quadrature = cube.quadrature(QuadratureRule("gauss_legendre", points))
    trial = trial_functions(cube, pde.Dictionary("gtransnet", N=N, N1=2 * N, gamma=4).sample(0, dimension), quadrature)
    return retain(trial, weighted_svd(trial), tau)


def at(function, nodes, t):
    """A plain function at all nodes, (Q,)."""
    return np.broadcast_to(function(*nodes.T, t), (len(nodes),))


def slopes(function, nodes, t):
    """Its derivatives by complex steps, exact to rounding: (d/dx_l for each l, d/dt)."""
    h, columns = 1e-30, [*nodes.T.astype(complex), np.full(len(nodes), t, dtype=complex)]
    derivatives = []
    for axis in range(len(columns)):
        moved = [column + 1j * h * (number == axis) for number, column in enumerate(columns)]
        derivatives.append(np.broadcast_to(function(*moved), (len(nodes),)).imag / h)
    return np.array(derivatives[:-1]), derivatives[-1]


# The data of a lifted problem


@cases
def test_the_functions_of_a_lifting_are_its_derivatives(case):
    dimension, _, _, u_b, _, a = CASES[case]
    lifting = lifted_statement(case)().lifting
    assert len(lifting.gradient) == len(lifting.flux) == dimension
    rng = np.random.default_rng(dimension)
    nodes, times = rng.uniform(0.0, 1.0, (9, dimension)), np.array([0.0, 0.3, 0.9])
    for n, t in enumerate(times):
        gradient, rate = slopes(u_b, nodes, t)
        assert lifting.value(nodes, times)[n] == pytest.approx(at(u_b, nodes, t), abs=8 * EPS)
        assert lifting.rate(nodes, times)[n] == pytest.approx(rate, abs=32 * EPS)
        for axis in range(dimension):
            assert lifting.gradient[axis](nodes, times)[n] == pytest.approx(gradient[axis], abs=32 * EPS)
            flux = at(a, nodes, t) * gradient[axis]
            assert lifting.flux[axis](nodes, times)[n] == pytest.approx(flux, abs=32 * EPS)


@pytest.mark.parametrize(
    ("case", "split"),
    [("steady-1d", True), ("moving-1d", True), ("moving-2d", True), ("unsplit-1d", False), ("unsplit-2d", False)],
)
def test_liftings_split_where_their_formulas_do(case, split):
    lifting = lifted_statement(case)().lifting
    assert all(isinstance(function, Separable) == split for function in (lifting.value, *lifting.flux))


@cases
def test_the_lifted_load_is_the_quadrature_formula(case):
    # eq:lifted_load: (f, phi_i) - (u_b,t, phi_i) - (a grad u_b, grad phi_i), with the source as the problem has it
    dimension, _, _, u_b, _, a = CASES[case]
    problem, space = lifted_statement(case)(), small_space(dimension)
    x, w = space.quadrature.nodes, space.quadrature.weights
    times = np.array([0.0, 0.13, 0.5, 2.0])
    loads = assemble(space, problem).load(times)
    assert loads.shape == (4, space.rank)
    for n, t in enumerate(times):
        gradient, rate = slopes(u_b, x, t)
        nodal = problem.source(x, times)[n] - rate
        terms = [(w * nodal)[:, None] * space.values]
        terms += [-(w * at(a, x, t) * gradient[axis])[:, None] * space.gradients[axis] for axis in range(dimension)]
        noise = 32 * EPS * sum(np.abs(term).sum(axis=0) for term in terms)
        assert (np.abs(loads[n] - sum(term.sum(axis=0) for term in terms)) <= noise).all()


@pytest.mark.parametrize("case", ["moving-1d", "unsplit-2d"])
def test_loads_of_many_times_are_those_of_each(case):
    # more than are held in memory at once
    problem = lifted_statement(case)()
    system = assemble(small_space(problem.dimension), problem)
    times = np.linspace(0.0, 1.0, 2 * TIMES_AT_ONCE + 3)
    alone = np.stack([system.load(np.array([t]))[0] for t in times])
    assert system.load(times) == pytest.approx(alone, abs=64 * EPS * np.abs(alone).max())


@cases
def test_the_initial_value_is_projected_after_the_lifting_is_taken_off(case):
    dimension, _, _, u_b, _, _ = CASES[case]
    problem, space = lifted_statement(case)(), small_space(dimension)
    x, w = space.quadrature.nodes, space.quadrature.weights
    terms = (w * (problem.initial(x) - at(u_b, x, 0.0)))[:, None] * space.values
    found = assemble(space, problem).initial
    scale = (w * np.abs(at(u_b, x, 0.0)))[:, None] * np.abs(space.values)
    assert (np.abs(found - terms.sum(axis=0)) <= 16 * EPS * (np.abs(terms) + scale).sum(axis=0)).all()


@pytest.mark.long
@cases
def test_the_loads_of_the_equivalent_homogeneous_problem_are_the_same(case):
    # div(a grad u_b) in its source is integrated by parts here: equal for a rule that resolves the products
    system, homogeneous = (
        run_of(statement(case)(), 2, tau=1e-8).system for statement in (lifted_statement, homogeneous_statement)
    )
    times = np.array([0.0, 0.2, 0.5])
    loads = homogeneous.load(times)
    assert system.load(times) == pytest.approx(loads, abs=RESOLVED[CASES[case][0]] * np.abs(loads).max())
    assert system.initial == pytest.approx(homogeneous.initial, abs=1e-14)


# Solutions


@pytest.mark.long
@cases
@integrators
def test_the_error_is_that_of_the_equivalent_homogeneous_problem(case, integrator):
    # u - u_b solves the homogeneous problem: the absolute errors are the same, at every time
    lifted, homogeneous = (
        run_of(statement(case)(), 40, integrator=integrator)  # S would damp u and u - u_b differently
        for statement in (lifted_statement, homogeneous_statement)
    )
    rule = lifted.space.quadrature
    times = lifted.trajectory.times

    def absolute(solution):
        exact = solution.problem.exact(rule.nodes, times)
        return solution.errors * np.sqrt(exact**2 @ rule.weights)

    one, other = absolute(lifted), absolute(homogeneous)
    assert one.shape == (41,)
    assert other[-1] > 1e-6  # an error of the time step, which rounding does not hide
    # what the rule does not integrate by parts is a load in error, over a time of 1/2
    assert one == pytest.approx(other, rel=1e-9, abs=RESOLVED[CASES[case][0]])
    assert lifted.errors[-1] < 0.02


@cases
def test_the_initial_error_is_that_of_the_projection_alone(case):
    solution = run_of(lifted_statement(case)(), 2)
    assert solution.errors[0] < {1: 1e-6, 2: 1e-6, 3: 1e-5}[CASES[case][0]]


@pytest.mark.long
@pytest.mark.parametrize("case", [case for case in CASES if not case.endswith("3d")])
def test_the_midpoint_rule_keeps_its_order_two(case):
    errors = np.array([run_of(lifted_statement(case)(), steps, saved=()).errors[-1] for steps in (8, 16, 32)])
    assert np.log2(errors[:-1] / errors[1:]) == pytest.approx([2.0, 2.0], abs=0.02)


def test_a_solution_that_is_its_own_lifting_is_met_exactly():
    # u = u_b: nothing is left for the space but rounding, whatever the step
    statement = pde.FormulaProblem(dimension=1, exact="1 + x*t", lifting="1 + x*t", diffusion="1/10")
    solution = run_of(statement(), 4)
    assert (solution.errors < 1e-12).all()
    assert np.abs(solution.trajectory.coefficients).max() < 1e-11


@pytest.mark.parametrize("other", ["cos(pi*x) + x*(1-x)", "exp(-t)*0 + (1 - 2*x)", "1 - 2*x + t*x*(1-x)"])
def test_the_solution_does_not_depend_on_how_the_boundary_values_are_lifted(other):
    # three functions with the same trace
    exact = "cos(pi*x) + exp(-t)*sin(2*pi*x)"
    nodes = np.linspace(0.0, 1.0, 21)[:, None]
    one, two = (
        run_of(
            pde.FormulaProblem(dimension=1, exact=exact, lifting=lifting, diffusion="1/10")(), 400, saved=()
        ).evaluate(nodes)
        for lifting in ("cos(pi*x)", other)
    )
    # a lifting that moves is followed with its own error of the time step, dt^2/8 and less
    assert one == pytest.approx(two, abs=1e-6)


def test_the_values_on_the_boundary_are_those_of_the_lifting_exactly():
    for case in CASES:
        dimension, _, _, u_b, _, _ = CASES[case]
        solution = run_of(lifted_statement(case)(), 4)
        nodes = np.vstack([np.zeros(dimension), np.ones(dimension), np.full(dimension, 0.3)])
        nodes[2, 0] = 1.0
        wanted = np.stack([at(u_b, nodes, t) for t in solution.trajectory.times])
        assert solution.evaluate(nodes) == pytest.approx(wanted, abs=8 * EPS)


def test_a_lifted_problem_without_exact_solution_relaxes_to_its_stationary_state():
    # u'' = 0 between u(0) = 1 and u(1) = 3
    statement = pde.FormulaProblem(dimension=1, initial="1 + 2*x**3 + sin(pi*x)", lifting="1 + 2*x**3", diffusion="1")
    solution = run_of(statement(), 200, final_time=5.0, saved=())
    nodes = np.linspace(0.0, 1.0, 11)[:, None]
    # 0.05 is a long step for stiff modes, which the midpoint rule damps by (1 - s k)/(1 + s k) a step
    assert solution.evaluate(nodes)[-1] == pytest.approx(1.0 + 2.0 * nodes[:, 0], abs=1e-6)
    assert not solution.has_final_error
    assert solution.errors.shape == (1,)


# Norms and energies


@cases
@integrators
def test_norms_and_energies_of_a_lifted_run_are_the_nodal_sums(case, integrator):
    _, _, _, u_b, _, a = CASES[case]
    solution = run_of(lifted_statement(case)(), 9, integrator=integrator, stabilization=1.0, tau=1e-8)
    space, trajectory = solution.space, solution.trajectory
    x, w = space.quadrature.nodes, space.quadrature.weights
    norms, energies = [], []
    for t, alpha in zip(trajectory.times, trajectory.coefficients, strict=True):
        gradient = slopes(u_b, x, t)[0] + space.gradients @ alpha
        norms.append(np.sqrt(np.sum(w * (at(u_b, x, t) + space.values @ alpha) ** 2)))
        energies.append(np.sum(w * at(a, x, t) * np.sum(gradient**2, axis=0)))
    # the identity mass that || alpha ||^2 stands for is met to 1e-12 at this tau
    assert norm_history(solution.system, trajectory) == pytest.approx(norms, rel=1e-12, abs=0.0)
    assert energy_history(solution.system, trajectory) == pytest.approx(energies, rel=1e-12, abs=0.0)
    if integrator == "stabilized_semi_implicit":
        assert trajectory.energies == pytest.approx(np.array(energies) / 2.0, rel=1e-12, abs=0.0)


@pytest.mark.parametrize("case", ["moving-1d", "unsplit-1d"])
def test_histories_of_many_times_are_those_of_each(case):
    # more than are held in memory at once
    solution = run_of(lifted_statement(case)(), TIMES_AT_ONCE + 9, tau=1e-8)
    system, trajectory = solution.system, solution.trajectory
    for history in (norm_history, energy_history):
        alone = [
            history(system, Trajectory(trajectory.times[[n]], trajectory.coefficients[[n]]))[0]
            for n in range(TIMES_AT_ONCE + 10)
        ]
        assert history(system, trajectory) == pytest.approx(alone, rel=1e-13, abs=0.0)


def test_a_lifted_function_that_cancels_has_the_norm_zero():
    # u = 0 with u_b = x(1-x) = -v: the three parts of the norm cancel but for rounding, and none is the root of less
    statement = pde.FormulaProblem(dimension=1, exact="0", lifting="x*(1-x)", diffusion="1/10")
    solution = run_of(statement(), 10)
    norms = norm_history(solution.system, solution.trajectory)
    assert np.isfinite(norms).all()
    assert (norms < 1e-7).all()  # the root of rounding
    assert np.isnan(solution.errors).all()  # a relative error is not defined


def test_a_squared_norm_that_rounds_below_zero_is_zero():
    # || u_b + v ||^2 = 1 - 2 + (1 - eps), of u_b = -v
    lifting = AssembledLifting(
        mass=lambda times: -np.ones((len(times), 1)),
        flux=lambda times: np.zeros((len(times), 1)),
        square=lambda times: np.full(len(times), 1.0 - EPS),
        energy=np.zeros_like,
        nodal=lambda times: np.zeros((len(times), 1)),
    )
    system = GalerkinSystem(lambda t: np.eye(1), True, lambda times: np.zeros((len(times), 1)), np.ones(1), lifting)
    assert norm_history(system, Trajectory(np.zeros(2), np.ones((2, 1)))).tolist() == [0.0, 0.0]


def test_the_public_run_has_the_lifted_histories():
    problem = lifted_statement("moving-1d")()
    ds = pde.solve(
        problem, DICTIONARIES[1], seed=1, quadrature=40, validation=40, dt=0.05, final_time=0.5, tau=1e-14
    )  # fmt: skip
    solution = run_of(problem, 10)
    assert np.array_equal(ds.error_history, solution.errors)
    assert np.array_equal(ds.norm_history, norm_history(solution.system, solution.trajectory))
    assert np.array_equal(ds.energy_history, energy_history(solution.system, solution.trajectory))
    exact = problem.exact(solution.space.quadrature.nodes, solution.trajectory.times)
    wanted = np.sqrt(exact**2 @ solution.space.quadrature.weights)
    assert ds.norm_history.values == pytest.approx(wanted, rel=1e-2)


# Two forms of the same lifting


@pytest.mark.parametrize("case", ["steady-1d", "moving-1d", "moving-2d", "moving-3d"])
@integrators
def test_separable_and_general_liftings_give_the_same_run(case, integrator):
    problem = lifted_statement(case)()

    def unsplit(function):
        return NonSeparable(lambda nodes, t: function(nodes, np.array([t]))[0])

    lifting = problem.lifting
    general = Lifting(
        unsplit(lifting.value), unsplit(lifting.rate),
        tuple(map(unsplit, lifting.gradient)), tuple(map(unsplit, lifting.flux)),
    )  # fmt: skip
    one, two = (
        run_of(each, 20, integrator=integrator, stabilization=1.0, tau=1e-8)
        for each in (problem, dataclasses.replace(problem, lifting=general))
    )
    states = one.trajectory.coefficients
    assert two.trajectory.coefficients == pytest.approx(states, abs=1e-12 * np.abs(states).max())
    for history in (norm_history, energy_history):
        assert history(two.system, two.trajectory) == pytest.approx(
            history(one.system, one.trajectory), rel=1e-12, abs=0.0
        )
    assert two.errors == pytest.approx(one.errors, abs=1e-12)


# A lifting that vanishes


@pytest.mark.parametrize("zero", ["0", "0*x*exp(-t)", "x - x"])
@integrators
def test_a_lifting_that_vanishes_changes_nothing(zero, integrator):
    statement = homogeneous_statement("moving-1d")
    plain, lifted = (
        run_of(each(), 12, integrator=integrator, stabilization=2.0)
        for each in (statement, dataclasses.replace(statement, lifting=zero))
    )
    assert lifted.problem.lifting is not None
    assert plain.problem.lifting is None
    assert np.array_equal(lifted.trajectory.coefficients, plain.trajectory.coefficients)
    assert np.array_equal(lifted.errors, plain.errors)
    for history in (norm_history, energy_history):
        assert np.array_equal(history(lifted.system, lifted.trajectory), history(plain.system, plain.trajectory))


# The compatibility condition


@pytest.mark.parametrize(
    ("formulas", "values", "message"),
    [
        (
            {"dimension": 1, "initial": "x*(1-x)", "lifting": "1/4 + x"},
            {},
            "`initial` must equal `lifting` on the boundary, got a difference of 1.25 there",
        ),
        (
            {
                "dimension": 1,
                "initial": "1 + x",
                "lifting": "1 + x + x*t",
            },  # right at t = 0, which is all that is asked
            {},
            None,
        ),
        (
            {"dimension": 1, "initial": "1 + x", "lifting": "(1 + x)*exp(t) + x/8"},
            {},
            "`initial` must equal `lifting` on the boundary, got a difference of 0.125 there",
        ),
        (
            {"dimension": 1, "exact": "1 - 2*x + sin(pi*x)", "lifting": "1 - 2*x + x*t/4"},
            {},
            "`exact` must equal `lifting` on the boundary, got a difference of 0.25 there",
        ),
        (
            {"dimension": 1, "exact": "x*t", "lifting": "x*t*k", "final_time": 2.0},
            {"k": 1.5},
            "`exact` must equal `lifting` on the boundary, got a difference of 1 there for k = 1.5",
        ),
        (
            {"dimension": 2, "exact": "x + y", "lifting": "x + y + x*(1-x)"},
            {},
            "`exact` must equal `lifting` on the boundary, got a difference of 0.25 there",
        ),
        (
            {"dimension": 2, "initial": "x*y", "lifting": "x*y + y*(1-y)*x"},
            {},
            "`initial` must equal `lifting` on the boundary, got a difference of 0.25 there",
        ),
        (
            {"dimension": 3, "exact": "z", "lifting": "z + x*(1-x)*y*(1-y)"},
            {},
            "`exact` must equal `lifting` on the boundary, got a difference of 0.0625 there",
        ),
        (
            {"dimension": 1, "exact": "1000 + x", "lifting": "1000 + x + x*1e-5"},
            {},
            "`exact` must equal `lifting` on the boundary, got a difference of 1e-05 there",
        ),
        ({"dimension": 1, "exact": "1000 + x", "lifting": "1000 + x + x*1e-10"}, {}, None),  # rounding, at this size
        (
            # 1 at x = 1, but 0.005 and less at the points inside that the size is taken of too
            {"dimension": 1, "exact": "exp(1000*(x - 1))", "lifting": "exp(1000*(x - 1)) + x*1e-10"},
            {},
            None,
        ),
        (
            {"dimension": 1, "initial": "x", "lifting": "sin(x)/x"},
            {},
            "`initial` must equal `lifting` on the boundary, got a difference of nan there",
        ),
        (
            {"dimension": 1, "exact": "exp(-t)*sin(pi*x)", "lifting": "1 + x"},  # which vanishes, but is not to
            {},
            "`exact` must equal `lifting` on the boundary, got a difference of 2 there",
        ),
    ],
)
def test_the_compatibility_condition_is_checked_and_the_difference_measured(formulas, values, message):
    statement = pde.FormulaProblem(**formulas)
    if message is None:
        assert statement(**values).lifting is not None
        return
    with pytest.raises(ProblemError) as caught:
        statement(**values)
    assert str(caught.value) == message
