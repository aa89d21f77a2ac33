"""Natural boundaries of boxes, disks and polygons: exact solutions, quadratic elements, and the mass."""

import numpy as np
import pytest

from evogt_study import pde
from evogt_study.pde.baselines.references import make_reference
from evogt_study.pde.integrators import INTEGRATORS
from evogt_study.pde.numerics import QuadratureRule, TimeGrid, TriangleRule
from evogt_study.pde.pipeline import Discretisation, solve_arrays

ROUND = "exp(-t)*cos(x)*sin(y) + 2"
OUTWARD = "(-exp(-t)*sin(x)*sin(y)*(x - 0.3)/1.5 + exp(-t)*cos(x)*cos(y)*(y + 0.2)/1.5)"
DISK = {"disk": {"centre": [0.3, -0.2], "radius": 1.5}}
SIDED = {"exact": "exp(-t)*x*(1 - y - x/2)*(1 + y)", "diffusion": "1 + y"}
PROBLEMS = {
    "flux on a circle": {
        "exact": ROUND, "diffusion": "1 + x**2/4", "domain": DISK,
        "boundary": {"circle": {"flux": f"(1 + x**2/4)*{OUTWARD}"}},
    },
    "transfer on a circle": {
        "exact": ROUND, "domain": DISK, "boundary": {"circle": {"transfer": "2", "outside": f"{ROUND} + {OUTWARD}/2"}},
    },
    "side0": {
        **SIDED, "domain": {"polygon": [[0, 0], [2, 0], [0, 1]]}, "boundary": {"side0": {"flux": "exp(-t)*x**2/2"}},
    },
    "side1, clockwise": {
        **SIDED, "domain": {"polygon": [[0, 1], [2, 0], [0, 0]]}, "boundary": {"side1": {"flux": "exp(-t)*x**2/2"}},
    },
}  # fmt: skip
RULE = TriangleRule(2, 12)


def run_of(problem, N, rule, steps=20):
    dictionary = pde.Dictionary("gtransnet", N=N, N1=2 * N, gamma=3.0)
    grid = TimeGrid.of(0.2, 0.2 / steps, steps + 1)
    return Discretisation(dictionary, 0, 1e-12, rule, rule, grid, INTEGRATORS["gauss_2"]())


@pytest.mark.parametrize(
    ("name", "bound"),
    [("flux on a circle", 5e-5), ("transfer on a circle", 5e-5), ("side0", 1e-3), ("side1, clockwise", 1e-3)],
)
def test_the_solution_of_the_formulas_is_found(name, bound):
    problem = pde.FormulaProblem(dimension=2, **PROBLEMS[name]).until(0.2)
    run = run_of(problem, 60, RULE)
    assert solve_arrays(problem, run).errors[-1] < bound
    exact, rule = problem.exact(problem.domain.quadrature(RULE).nodes, np.array([0.2])), problem.domain.quadrature(RULE)
    errors = []
    for refinements in (3, 4):
        found = make_reference("finite_elements", problem, run, refinements, None).values(rule.nodes, np.array([0.2]))
        errors.append(np.sqrt((found - exact) ** 2 @ rule.weights)[0])
    assert np.log2(errors[0] / errors[1]) == pytest.approx(3.0, abs=0.35)


@pytest.mark.parametrize(
    ("dimension", "domain", "boundary"),
    [
        (1, {"lower": [-1], "upper": [2]}, {"x0": {"flux": "0"}, "x1": {"flux": "0"}}),
        (1, None, {"x": "periodic"}),
        (2, None, {"x": "periodic", "y0": {"flux": "0"}, "y1": {"flux": "0"}}),
        (2, DISK, {"circle": {"flux": "0"}}),
        (2, {"polygon": [[0, 0], [2, 0], [0, 1]]}, {f"side{i}": {"flux": "0"} for i in range(3)}),
    ],
)
def test_without_given_values_the_mass_is_kept(dimension, domain, boundary):
    """Random features, whose span does not contain the constant."""
    initial = "1 + cos(2*pi*x)/2"
    problem = pde.FormulaProblem(
        dimension=dimension, initial=initial, diffusion="1/5", domain=domain, boundary=boundary
    )()
    rule = QuadratureRule("gauss_legendre", {1: 100, 2: 24}[dimension])
    solution = solve_arrays(problem, run_of(problem, 30, RULE if domain and "lower" not in domain else rule))
    means = solution.trajectory.coefficients @ (solution.space.values.T @ solution.space.quadrature.weights)
    assert np.ptp(means) < 1e-15 * np.abs(means).max()
