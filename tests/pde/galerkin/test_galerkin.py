"""Assembly: stiffness, loads and initial values against sums written out, and the two ways data can be given."""

import itertools

import numpy as np
import pytest

from evogt_study.errors import ProblemError
from evogt_study.pde.dictionaries import Dictionary
from evogt_study.pde.domains import UnitCube
from evogt_study.pde.galerkin.problem import NonSeparable, Problem, Separable
from evogt_study.pde.galerkin.retained_space import retain, trial_functions, weighted_svd
from evogt_study.pde.galerkin.system import assemble, check_diffusion
from evogt_study.pde.galerkin.validation import energy_history, norm_history
from evogt_study.pde.numerics.quadrature import QuadratureRule
from evogt_study.pde.numerics.time_grid import Trajectory

EPS = np.finfo(float).eps

dimensions = pytest.mark.parametrize("dimension", [1, 2, 3])


def assert_within(found, wanted, bound):
    assert (np.abs(found - wanted) <= bound).all(), np.max(np.abs(found - wanted) / bound)


def space_of(dimension, N=6, tau=1e-6, seed=0):
    points = {1: 12, 2: 5, 3: 4}[dimension]
    cube = UnitCube(dimension)
    quadrature = cube.quadrature(QuadratureRule("gauss_legendre", points))
    trial = trial_functions(cube, Dictionary("gtransnet", N, 4.0, N1=2 * N).sample(seed, dimension), quadrature)
    return retain(trial, weighted_svd(trial), tau)


# One set of data in the plain arithmetic of a single node x and time t, and the package's two forms of it.


def diffusion_at(x, t):
    return 1.0 + 0.3 * np.sin(3.0 * t) * np.cos(2.0 * x.sum()) + 0.2 * np.exp(-t) * x[0]


def source_at(x, t):
    return np.cos(t) * np.sin(np.pi * x[0]) + t**2 * x.prod()


def initial_at(x):
    return np.prod(np.sin(np.pi * x)) + 0.1 * x[0]


SEPARABLE_DIFFUSION = Separable(
    lambda nodes: np.stack([np.ones(len(nodes)), 0.3 * np.cos(2.0 * nodes.sum(axis=1)), 0.2 * nodes[:, 0]]),
    lambda times: np.stack([np.ones(len(times)), np.sin(3.0 * times), np.exp(-times)]),
)
SEPARABLE_SOURCE = Separable(
    lambda nodes: np.stack([np.sin(np.pi * nodes[:, 0]), nodes.prod(axis=1)]),
    lambda times: np.stack([np.cos(times), times**2]),
)


def unsplit(function_at):
    return NonSeparable(lambda nodes, t: np.array([function_at(x, t) for x in nodes]))


def problem_of(dimension, *, split, steady=False):
    diffusion = SEPARABLE_DIFFUSION if split else unsplit(diffusion_at)
    if steady:
        diffusion = Separable(lambda nodes: 1.0 + nodes[:, :1].T) if split else unsplit(lambda x, t: 1.0 + x[0])
    return Problem(
        dimension=dimension,
        diffusion=diffusion,
        initial=lambda nodes: np.array([initial_at(x) for x in nodes]),
        source=SEPARABLE_SOURCE if split else unsplit(source_at),
    )


both_forms = pytest.mark.parametrize("split", [True, False], ids=["separable", "general"])


@dimensions
@both_forms
@pytest.mark.parametrize("t", [0.0, 0.4, 1.7])
def test_stiffness_is_the_sum_over_nodes_and_directions(dimension, split, t):
    space = space_of(dimension)
    K = assemble(space, problem_of(dimension, split=split)).stiffness(t)
    wanted = np.zeros((space.rank, space.rank))
    for i, j in itertools.product(range(space.rank), repeat=2):
        for q, (x, w) in enumerate(zip(space.quadrature.nodes, space.quadrature.weights, strict=True)):
            gradients = space.gradients[:, q]
            wanted[i, j] += w * diffusion_at(x, t) * sum(gradients[:, i] * gradients[:, j])
    assert K.shape == wanted.shape
    assert_within(K, wanted, 8 * EPS * np.abs(wanted).max())


@dimensions
@both_forms
def test_stiffness_is_symmetric_bit_for_bit_and_positive_definite(dimension, split):
    system = assemble(space_of(dimension, N=20, tau=1e-10), problem_of(dimension, split=split))
    for t in (0.0, 0.5, 3.0):
        K = system.stiffness(t)
        assert np.array_equal(K, K.T)
        eigenvalues = np.linalg.eigvalsh(K)
        # a >= 0.5 and no retained function is constant: the gradients leave no null direction
        assert eigenvalues.min() > 1.0
        assert eigenvalues.max() > eigenvalues.min()


@dimensions
@both_forms
@pytest.mark.parametrize("steady", [True, False], ids=["steady", "moving"])
def test_energies_are_the_nodal_sums_of_the_weighted_gradients(dimension, split, steady):
    space = space_of(dimension, N=10)
    problem = problem_of(dimension, split=split, steady=steady)
    system = assemble(space, problem)
    trajectory = Trajectory(np.array([0.0, 0.3, 0.9]), np.random.default_rng(2).standard_normal((3, space.rank)))
    wanted = []
    for t, alpha in zip(trajectory.times, trajectory.coefficients, strict=True):
        gradient = space.gradients @ alpha  # (d, Q), of the retained function
        a = [1.0 + x[0] if steady else diffusion_at(x, t) for x in space.quadrature.nodes]
        wanted.append(np.sum(space.quadrature.weights * a * np.sum(gradient**2, axis=0)))
    assert energy_history(system, trajectory) == pytest.approx(wanted, rel=16 * EPS, abs=0.0)
    assert norm_history(system, trajectory) == pytest.approx(
        np.sqrt(np.sum(trajectory.coefficients**2, axis=1)), rel=4 * EPS, abs=0.0
    )


def checked(diffusion, times=(0.25, 0.75)):
    quadrature = UnitCube(1).quadrature(QuadratureRule("composite_midpoint", 10))
    check_diffusion(Problem(1, diffusion, lambda nodes: nodes[:, 0]), quadrature, np.array(times))


@pytest.mark.parametrize(
    ("profile", "measured"),
    [
        (lambda x: 1.0 - 2.0 * x, "-0.9"),  # at the last midpoint, 0.95
        (lambda x: x - 0.05, "0"),  # exactly zero at the first
        (lambda x: np.full_like(x, -3.0), "-3"),
        (lambda x: np.where(x > 0.5, np.nan, 1.0), "nan"),
        (lambda x: np.where(x > 0.5, -np.inf, 1.0), "-inf"),
    ],
    ids=["negative", "zero", "constant", "nan", "minus-infinity"],
)
@both_forms
def test_a_diffusion_that_is_not_positive_is_refused_with_the_measured_minimum(profile, measured, split):
    diffusion = Separable(lambda nodes: profile(nodes.T)) if split else NonSeparable(lambda n, t: profile(n[:, 0]))
    with pytest.raises(ProblemError) as caught:
        checked(diffusion)
    assert str(caught.value) == f"`diffusion` must be positive on the assembly nodes, got a minimum of {measured}"


@both_forms
def test_diffusion_is_checked_at_every_given_time(split):
    def modulated(times):
        return np.stack([np.ones(len(times)), -np.asarray(times)])

    moving = Separable(lambda nodes: np.ones((2, len(nodes))), modulated)  # 1 - t
    diffusion = moving if split else NonSeparable(lambda nodes, t: np.full(len(nodes), 1.0 - t))
    checked(diffusion, (0.0, 0.5, 0.999))
    with pytest.raises(ProblemError, match="got a minimum of -0.25"):
        checked(diffusion, (0.0, 0.5, 1.25))
