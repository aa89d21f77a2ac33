"""The reference: nearer to the solution than its bound says, and the same when it is packed for other workers."""

import numpy as np
import pytest

from evogt_study.pde.certificates.certify import SpectralReference, find_reference, solve_reference
from evogt_study.pde.certificates.functions import SpectralSpace, TensorGrid
from evogt_study.pde.problems import BUILT_IN, FormulaProblem

CHANGING = FormulaProblem(
    dimension=2, exact="exp(-t)*sin(pi*x)*sin(2*pi*y)", diffusion="1 + (1 + sin(30*t)/2)/4*cos(2*pi*x)*cos(2*pi*y)"
)
LIFTED = FormulaProblem(dimension=1, exact="exp(-t)*sin(pi*x) + x*t", diffusion="1 + x", lifting="x*t")


@pytest.mark.parametrize(
    ("problem", "modes", "steps"),
    [(BUILT_IN["oscillatory_1d"](epsilon=0.2), 96, 40), (CHANGING(), 14, 20), (LIFTED(), 20, 10)],
)
def test_bound_of_the_reference(problem, modes, steps):
    found = solve_reference(problem, 0.1, SpectralSpace(problem.dimension, modes), steps)
    grid = TensorGrid(problem.dimension, 120 if problem.dimension == 1 else 30)
    exact = problem.exact(grid.nodes, np.array([0.1]))[0]
    if problem.lifting is not None:
        exact = exact - problem.lifting.value(grid.nodes, np.array([0.1]))[0]
    error = np.sqrt((exact - found.final(grid).ravel()) ** 2 @ grid.weights.ravel())
    assert error <= found.delta < 1e-6
    again = SpectralReference.unpack(found.pack(), problem.domain)
    assert again.delta == found.delta
    np.testing.assert_array_equal(again.final(grid), found.final(grid))


def test_too_few_modes_are_seen():
    found = solve_reference(BUILT_IN["oscillatory_1d"](epsilon=0.2), 0.1, SpectralSpace(1, 12), 10)
    assert found.delta > 0.5  # sin(16 pi x) is not among them


def test_refined_until_it_is_small():
    problem = BUILT_IN["oscillatory_1d"](epsilon=0.1)
    found = find_reference(problem, 0.1)
    assert found.delta <= 2e-8 * np.linalg.norm(found.solution.states[-1])
