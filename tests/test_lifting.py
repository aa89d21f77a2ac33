"""Nonhomogeneous Dirichlet data through a lifting u = u_b + phi~ . alpha (remark nonhomo), on manufactured solutions.

The reference has neither the parser nor the symbolic derivatives of the package: liftings are plain functions here, and
their derivatives are complex steps.
"""

import numpy as np
import pytest

from evogt_study import pde
from evogt_study.pde.galerkin.validation import compute_energy_history, compute_norm_history
from evogt_study.pde.methods.declarations import make_integrator
from evogt_study.pde.numerics import QuadratureRule, TimeGrid
from evogt_study.pde.pipeline import Discretisation, solve_arrays

EPS = np.finfo(float).eps
sin, cos, exp, pi = np.sin, np.cos, np.exp, np.pi

# Dimension; v, which vanishes on the boundary; u_b; a.  Formulas, and u_b and a as plain functions of (x, ..., t).
CASES = {
    "moving-1d": (
        1, "exp(-t)*sin(pi*x)",
        "(1 + t)*(1 - x) + x**2*cos(3*t)", lambda x, t: (1 + t) * (1 - x) + x**2 * cos(3 * t),
        "(2 + x*sin(5*t) + x**2*exp(-t))/20", lambda x, t: (2 + x * sin(5 * t) + x**2 * exp(-t)) / 20,
    ),
    "unsplit-1d": (
        1, "cos(t)*x*(1-x)*exp(x*t)",
        "exp(x*t)/(1 + x + t)", lambda x, t: exp(x * t) / (1 + x + t),
        "(2 + sin(x - 3*t))/20", lambda x, t: (2 + sin(x - 3 * t)) / 20,
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


def problem_of(case, lifted=True):
    """The problem of v + u_b, or the homogeneous problem of v."""
    dimension, v, u_b, _, a, _ = CASES[case]
    more = {"exact": f"{v} + {u_b}", "lifting": u_b} if lifted else {"exact": v}
    return pde.FormulaProblem(dimension=dimension, diffusion=a, **more)()


def run_of(problem, steps, *, final_time=0.5, integrator="implicit_midpoint", stabilization=0.0, tau=1e-14, saved=None):
    rule = QuadratureRule("gauss_legendre", POINTS[problem.dimension])
    grid = TimeGrid(final_time, steps, tuple(range(steps + 1)) if saved is None else saved)
    dictionary = DICTIONARIES[problem.dimension]
    integrator = make_integrator({"time_integrator": integrator, "stabilization": stabilization})
    return solve_arrays(problem, Discretisation(dictionary, 1, tau, rule, rule, grid, integrator))


def at(function, nodes, t):
    """A plain function at all nodes, (Q,)."""
    return np.broadcast_to(function(*nodes.T, t), (len(nodes),))


def slopes(function, nodes, t):
    """Its derivatives in each direction by complex steps, exact to rounding, (d, Q)."""
    steps = 1e-30j * np.eye(nodes.shape[1])
    return np.array([at(function, nodes + step, t).imag / 1e-30 for step in steps])


@pytest.mark.long
@cases
@integrators
def test_the_equivalent_homogeneous_problem_has_the_same_error(case, integrator):
    # u - u_b solves the homogeneous problem: the absolute errors are the same, at every time
    # S would damp u and u - u_b differently
    lifted, homogeneous = (run_of(problem_of(case, each), 40, integrator=integrator) for each in (True, False))
    rule = lifted.space.rule
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


def test_boundary_values_equal_the_lifting_exactly():
    for case in CASES:
        dimension, _, _, u_b, _, _ = CASES[case]
        solution = run_of(problem_of(case), 4)
        nodes = np.vstack([np.zeros(dimension), np.ones(dimension), np.full(dimension, 0.3)])
        nodes[2, 0] = 1.0
        wanted = np.stack([at(u_b, nodes, t) for t in solution.trajectory.times])
        assert solution.evaluate(nodes) == pytest.approx(wanted, abs=8 * EPS)


@cases
@integrators
def test_norms_and_energies_of_a_lifted_run_are_the_nodal_sums(case, integrator):
    _, _, _, u_b, _, a = CASES[case]
    solution = run_of(problem_of(case), 9, integrator=integrator, stabilization=1.0, tau=1e-8)
    space, trajectory = solution.space, solution.trajectory
    x, w = space.rule.nodes, space.rule.weights
    norms, energies = [], []
    for t, alpha in zip(trajectory.times, trajectory.coefficients, strict=True):
        gradient = slopes(u_b, x, t) + space.gradients @ alpha
        norms.append(np.sqrt(np.sum(w * (at(u_b, x, t) + space.values @ alpha) ** 2)))
        energies.append(np.sum(w * at(a, x, t) * np.sum(gradient**2, axis=0)))
    # the identity mass that || alpha ||^2 stands for is met to 1e-12 at this tau
    assert compute_norm_history(solution.system, trajectory) == pytest.approx(norms, rel=1e-12, abs=0.0)
    assert compute_energy_history(solution.system, trajectory) == pytest.approx(energies, rel=1e-12, abs=0.0)
    if integrator == "stabilized_semi_implicit":
        assert trajectory.energies == pytest.approx(np.array(energies) / 2.0, rel=1e-12, abs=0.0)


# The compatibility condition


@pytest.mark.parametrize(
    "formulas",
    [
        {"initial": "1 + x", "lifting": "1 + x + x*t"},  # equal at t = 0
        {"exact": "1000 + x", "lifting": "1000 + x + x*1e-10"},  # rounding, at this size
        # 1 at x = 1, but at most 0.005 at the points inside, which count for the size too
        {"exact": "exp(1000*(x - 1))", "lifting": "exp(1000*(x - 1)) + x*1e-10"},
    ],
)
def test_data_that_meet_the_compatibility_condition_are_read(formulas):
    assert pde.FormulaProblem(1, **formulas)().lifting is not None
