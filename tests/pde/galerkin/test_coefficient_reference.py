"""References for the final coefficients: closed forms, each against the other, and what they refuse."""

import dataclasses

import mpmath
import numpy as np
import pytest
import scipy.integrate
from mpmath import mp

from evogt_study.errors import ParameterError, ProblemError
from evogt_study.pde.dictionaries import Dictionary
from evogt_study.pde.domains import UnitCube
from evogt_study.pde.galerkin.coefficient_reference import NAMES, CoefficientReference
from evogt_study.pde.galerkin.problem import Potential
from evogt_study.pde.galerkin.retained_space import retain, trial_functions, weighted_svd
from evogt_study.pde.galerkin.system import GalerkinSystem, Reaction, assemble
from evogt_study.pde.numerics.quadrature import QuadratureRule
from evogt_study.pde.numerics.time_grid import TimeGrid
from evogt_study.pde.pipeline import Discretisation, solve
from evogt_study.pde.problems.formula_problem import FormulaProblem

EPS = np.finfo(float).eps
EIGEN, DOP853 = (CoefficientReference(name) for name in NAMES)


def space_of(dimension=1, N=16, tau=1e-8, points=24):
    cube, features = UnitCube(dimension), Dictionary("uniform_elm", N, 5.0).sample(3, dimension)
    trial = trial_functions(cube, features, cube.quadrature(QuadratureRule("gauss_legendre", points)))
    return retain(trial, weighted_svd(trial), tau)


def rotation(size, seed=0):
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((size, size)))[0]


def system_of(K, b, initial, *, autonomous=True):
    return GalerkinSystem(lambda t: K, autonomous, lambda times: np.tile(b, (len(times), 1)), initial, steady_load=True)


def one_mode(load, initial=0.0, k=0.0):
    """alpha' + k alpha = load(t)."""
    return GalerkinSystem(lambda t: np.array([[k]]), True, lambda times: load(times)[:, None], np.array([initial]))


# Closed forms

RATES = np.array([0.0, 1e-13, 1e-6, 0.3, 2.0, 40.0, 2.5e4])
LOADS = np.array([1.0, -2.0, 0.7, 3.0, 0.0, -5.0, 1e3])
STARTS = np.array([2.0, 1.0, -0.4, 0.0, 1.5, 7.0, 0.1])


def closed_form(T):
    """exp(-k T) a + (1 - exp(-k T))/k b for each mode, in 40 digits."""
    with mp.workdps(40):
        values = []
        for k, b, a in zip(RATES, LOADS, STARTS, strict=True):
            k, b, a = map(mpmath.mpf, (float(k), float(b), float(a)))
            values.append(float(mp.exp(-k * T) * a + (T if k == 0 else -mp.expm1(-k * T) / k) * b))
        return np.array(values)


@pytest.mark.parametrize("final_time", [1e-6, 0.25, 3.0])
def test_the_eigendecomposition_of_a_diagonal_system_is_the_closed_form(final_time):
    found = EIGEN.final_state(system_of(np.diag(RATES), LOADS, STARTS), final_time)
    # the exponent k T is rounded before its exponential is taken: eps k T, where that matters
    assert found == pytest.approx(closed_form(final_time), rel=8 * EPS * (1 + 10 * final_time), abs=0.0)


@pytest.mark.parametrize("final_time", [0.25, 3.0])
def test_it_does_not_depend_on_the_coordinates(final_time):
    Q, few = rotation(6), slice(0, 6)  # without the stiff mode, whose rounding would be seen in all coordinates
    rotated = system_of((Q * RATES[few]) @ Q.T, Q @ LOADS[few], Q @ STARTS[few])
    wanted = Q @ closed_form(final_time)[few]
    assert EIGEN.final_state(rotated, final_time) == pytest.approx(wanted, abs=64 * EPS * 40.0 * final_time)


@pytest.mark.parametrize("final_time", [0.25, 3.0])
def test_dop853_of_a_diagonal_system_is_the_closed_form(final_time):
    few = slice(0, 6)
    system = system_of(np.diag(RATES[few]), LOADS[few], STARTS[few])
    found = DOP853.final_state(system, final_time)
    assert found == pytest.approx(closed_form(final_time)[few], rel=1e-10, abs=1e-12)  # rtol = 1e-12 a step


def test_a_negative_eigenvalue_grows():
    system = system_of(np.diag([-2.0, 1.0]), np.array([1.0, 1.0]), np.ones(2))
    wanted = [np.exp(2.0) + (np.exp(2.0) - 1.0) / 2.0, 1.0]
    assert EIGEN.final_state(system, 1.0) == pytest.approx(wanted, rel=8 * EPS)
    assert DOP853.final_state(system, 1.0) == pytest.approx(wanted, rel=1e-10)


# Each against the other, on assembled systems

STEADY = {
    "source": FormulaProblem(1, initial="x*(1-x)", source="1 + x", diffusion="1/20 + x/40"),
    "lifting": FormulaProblem(1, initial="1 + x**2", lifting="1 + x", diffusion="1/20 + x/40"),
    "both": FormulaProblem(1, initial="cos(pi*x/2)", source="exp(x)", lifting="1 - x", diffusion="1/20"),
    "both-2d": FormulaProblem(2, initial="x + y**2", source="x*y", lifting="x + y**2", diffusion="(1 + x*y)/20"),
}


@pytest.mark.parametrize("name", STEADY)
def test_the_two_references_agree_where_both_apply(name):
    problem = STEADY[name]()
    system = assemble(space_of(problem.dimension, points=24 if problem.dimension == 1 else 10), problem)
    assert np.abs(system.load(np.zeros(1))).max() > 0.01
    one, other = (reference.final_state(system, 0.5) for reference in (EIGEN, DOP853))
    assert np.linalg.norm(one - other) < 1e-10 * np.linalg.norm(one)
    assert np.linalg.norm(one - system.initial) > 1e-2 * np.linalg.norm(one)


def naive_state(space, source, u_b, initial, stiffness, slope_of_potential, final_time):
    """alpha(final_time) from nodal values, by an implicit method: u_b steady, with gradient 1."""
    w, V = space.quadrature.weights, space.values

    def rate(t, alpha):
        g = V.T @ (w * slope_of_potential(u_b + V @ alpha))
        return V.T @ (w * source(t)) - space.gradients[0].T @ (w * 0.05) - stiffness @ alpha - g

    start = V.T @ (w * (initial - u_b))
    return scipy.integrate.solve_ivp(rate, (0.0, final_time), start, "Radau", rtol=1e-11, atol=1e-12).y[:, -1]


def test_dop853_advances_reaction_lifting_and_a_moving_source():
    space = space_of(N=8)
    x = space.quadrature.nodes[:, 0]
    statement = FormulaProblem(
        1, initial="x + sin(pi*x)", source="cos(4*t)*x", lifting="x", diffusion="1/20", potential="(u**2 - 1)**2/4"
    )
    system = assemble(space, statement())
    stiffness = space.gradients[0].T @ (0.05 * space.quadrature.weights[:, None] * space.gradients[0])
    wanted = naive_state(
        space, lambda t: np.cos(4 * t) * x, x, x + np.sin(np.pi * x), stiffness, lambda u: u**3 - u, 1.0
    )
    found = DOP853.final_state(system, 1.0)
    assert np.linalg.norm(found - wanted) < 1e-8 * np.linalg.norm(wanted)  # the implicit method's own tolerance


def test_dop853_of_a_quadratic_potential_is_a_shifted_linear_system():
    # F = c u^2/2: g = c alpha + c (u_b, phi~), so that K + c I and b - c (u_b, phi~) make a linear system
    c = 3.0
    space = space_of()
    statement = {"initial": "x + sin(pi*x)", "lifting": "x", "diffusion": "1/20"}
    system = assemble(space, FormulaProblem(1, **statement, potential="c*u**2/2")(c=c))
    linear = assemble(space, FormulaProblem(1, **statement)())
    mass = space.project(space.quadrature.nodes[:, 0])
    shifted = system_of(
        linear.stiffness(0.0) + c * np.eye(space.rank), linear.load(np.zeros(1))[0] - c * mass, linear.initial
    )
    one, other = DOP853.final_state(system, 0.7), EIGEN.final_state(shifted, 0.7)
    assert np.linalg.norm(one - other) < 1e-10 * np.linalg.norm(other)


def test_dop853_follows_a_stiffness_that_moves():
    # alpha' + (1 + cos t) alpha = 0
    system = GalerkinSystem(
        lambda t: np.array([[1.0 + np.cos(t)]]), False, lambda times: np.zeros((len(times), 1)), np.array([2.0])
    )
    assert DOP853.final_state(system, 2.0) == pytest.approx([2.0 * np.exp(-2.0 - np.sin(2.0))], rel=1e-11)


# What dop853 is given


def test_the_tolerances_are_used():
    system = one_mode(lambda times: np.cos(30.0 * times), k=1.0)
    exact = (np.cos(60.0) + 30.0 * np.sin(60.0) - np.exp(-2.0)) / 901.0
    errors = [
        abs(CoefficientReference("dop853", rtol=tolerance, atol=tolerance).final_state(system, 2.0)[0] - exact)
        for tolerance in (1e-3, 1e-7, 1e-12)
    ]
    assert errors[0] > 100 * errors[1] > 1e4 * errors[2]
    assert errors[2] < 1e-13
    for tolerances in ({"atol": 1e-3}, {"rtol": 1e-3}):  # the larger of the two decides
        loose = CoefficientReference("dop853", **tolerances).final_state(system, 2.0)[0]
        assert abs(loose - exact) > 1e-9


def test_the_longest_step_is_used():
    # a pulse of area 1/10 that long steps do not see
    system = one_mode(lambda times: 100.0 / np.sqrt(np.pi) * np.exp(-((1000.0 * (times - 0.4321)) ** 2)))
    assert DOP853.final_state(system, 1.0)[0] < 1e-100
    found = CoefficientReference("dop853", max_step=1e-3).final_state(system, 1.0)
    assert found == pytest.approx([0.1], rel=1e-9)


# Refusals


def test_an_unknown_reference_is_refused():
    with pytest.raises(ParameterError) as caught:
        CoefficientReference("rk4")
    assert str(caught.value) == "`coefficient_reference` must be one of eigendecomposition, dop853, got 'rk4'"


MOVING = {
    "diffusion": FormulaProblem(1, initial="x*(1-x)", diffusion="1 + t"),
    "unsplit-diffusion": FormulaProblem(1, initial="x*(1-x)", diffusion="2 + sin(x*t)"),
    "source": FormulaProblem(1, initial="x*(1-x)", source="exp(-t)*x"),
    "lifting": FormulaProblem(1, initial="x + x*(1-x)", lifting="x*cos(t)"),
    "potential": FormulaProblem(1, initial="x*(1-x)", potential="u**2/2"),
}


@pytest.mark.parametrize("name", MOVING)
def test_the_eigendecomposition_is_refused_where_it_does_not_apply_and_dop853_is_not(name):
    system = assemble(space_of(N=6), MOVING[name]())
    with pytest.raises(ProblemError) as caught:
        EIGEN.final_state(system, 0.1)
    assert str(caught.value) == (
        "`coefficient_reference` eigendecomposition must have a linear problem without advection whose terms do not "
        "depend on t; use dop853"
    )
    assert np.isfinite(DOP853.final_state(system, 0.1)).all()


def test_dop853_says_where_it_gave_up():
    # alpha' = alpha^2 from 1 is infinite at t = 1
    explosive = Potential(lambda u: -(u**3) / 3.0, lambda u: -(u**2))
    system = dataclasses.replace(
        one_mode(np.zeros_like, initial=1.0), reaction=Reaction(explosive, np.ones((1, 1)), np.ones(1))
    )
    assert DOP853.final_state(system, 0.5) == pytest.approx([2.0], rel=1e-11)
    with pytest.raises(ProblemError, match="^dop853 gave up before t = 2: ") as caught:
        DOP853.final_state(system, 2.0)
    assert "\n" not in str(caught.value)


# In a run


@pytest.mark.parametrize("name", NAMES)
def test_the_coefficient_error_of_a_run_is_the_distance_from_the_reference(name):
    statement = FormulaProblem(1, initial="1 + x**2", lifting="1 + x", diffusion="1/20")
    rule = QuadratureRule("gauss_legendre", 24)
    reference = CoefficientReference(name)
    errors = []
    for steps in (20, 40):
        run = Discretisation(
            Dictionary("uniform_elm", 8, 5.0), 3, 1e-6, rule, rule, TimeGrid(0.5, steps, ()),
            coefficient_reference=reference,
        )  # fmt: skip
        solution = solve(statement(), run)
        state = reference.final_state(solution.system, 0.5)
        assert np.array_equal(solution.reference_state, state)
        final = solution.trajectory.coefficients[-1]
        assert solution.coefficient_error == np.linalg.norm(final - state) / np.linalg.norm(state)
        errors.append(solution.coefficient_error)
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2.0, abs=0.02)


def test_a_run_without_a_reference_has_no_coefficient_error():
    rule = QuadratureRule("gauss_legendre", 12)
    run = Discretisation(Dictionary("uniform_elm", 6, 5.0), 3, 1e-6, rule, rule, TimeGrid(0.1, 2, ()))
    assert solve(FormulaProblem(1, initial="x*(1-x)")(), run).coefficient_error is None


@pytest.mark.parametrize("source", ["cos(12*pi*t)*x", "cos(24*pi*t)*x", "exp(-t)"])
def test_a_source_that_depends_on_time_is_not_steady_whatever_its_period(source):
    statement = FormulaProblem(dimension=1, initial="x*(1-x)", source=source, diffusion="1/20")
    system = assemble(space_of(1), statement())
    assert not system.steady_load
    with pytest.raises(ProblemError, match="use dop853"):
        EIGEN.final_state(system, 1.0)
