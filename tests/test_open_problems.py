"""Every term of the equation and every kind of boundary: manufactured solutions, by the method and by finite elements.

Both solve what the formulas state from the same functions, and share no assembly: dense products of features on one
side, sparse matrices of quadratic elements on the other.
"""

import numpy as np
import pytest

from evogt_study import pde
from evogt_study.pde.baselines.finite_elements import finite_elements, make_element_space
from evogt_study.pde.baselines.references import make_reference
from evogt_study.pde.integrators import INTEGRATORS
from evogt_study.pde.numerics import QuadratureRule, TimeGrid, TriangleRule
from evogt_study.pde.pipeline import Discretisation, solve_arrays

WAVE, BUBBLE = "exp(-t)*sin(pi*x)", "exp(-t)*sin(pi*x)*sin(pi*y)"
ROBIN = {
    "exact": "exp(-t)*(1+x**2)", "lifting": "exp(-t)*(1+x)", "diffusion": "2",
    "boundary": {"x1": {"transfer": "3/2*(1+t)", "outside": "exp(-t)*2+4*exp(-t)/(3/2*(1+t))"}},
}  # fmt: skip
L_SHAPE = [[-1, -1], [1, -1], [1, 0], [0, 0], [0, 1], [-1, 1]]
ROUND = "exp(-t)*cos(x)*sin(y) + 2"
OUTWARD = "(-exp(-t)*sin(x)*sin(y)*(x - 0.3)/1.5 + exp(-t)*cos(x)*cos(y)*(y + 0.2)/1.5)"
CIRCLE = {"disk": {"centre": [0.3, -0.2], "radius": 1.5}}
SIDED = {"exact": "exp(-t)*x*(1 - y - x/2)*(1 + y)", "diffusion": "1 + y"}
RIGHT = [[0, 0], [2, 0], [0, 1]]
PROBLEMS = {
    "advection": {"exact": WAVE, "diffusion": "1/20", "advection": ["1+x*sin(t)"]},
    "steady advection": {"exact": WAVE, "diffusion": "1/20", "advection": ["c+x"]},
    "linear reaction": {"exact": WAVE, "diffusion": "1/20", "reaction": "-(1+x*t)*u+x"},
    "reaction": {"exact": WAVE, "diffusion": "1/20", "reaction": "u*(1-u)*(1+x)"},
    "all unsplit": {
        "exact": WAVE, "diffusion": "1+sin(x*t)/2", "reaction": "u*(1-u)*(1+x*t)", "advection": ["cos(x*t)"]
    },
    "interval": {"exact": "exp(-t)*sin(pi*(x+2)/3)", "diffusion": "1/20", "domain": {"lower": [-2], "upper": [1]}},
    "no flux": {
        "exact": "exp(-t)*cos(pi*x)", "diffusion": "1+x", "boundary": {"x0": {"flux": "0"}, "x1": {"flux": "0"}}
    },
    "flux": {"exact": "exp(-t)*cos(x)*x", "diffusion": "1+x",
             "boundary": {"x1": {"flux": "2*exp(-t)*(cos(1)-sin(1))"}}},
    "transfer": ROBIN | {"advection": ["x"], "reaction": "u*x-t"},
    "transfer, lifting and reaction": ROBIN | {"advection": ["x"], "reaction": "u**2*x-t"},
    "periodic": {"exact": "exp(-t)*sin(2*pi*(x-t))+1/2", "diffusion": "1/10", "advection": ["1"],
                 "boundary": {"x": "periodic"}},
    "diagonal": {"exact": BUBBLE, "diffusion": ["1+x*y", "1/3"]},
    "tensor": {"exact": BUBBLE, "diffusion": [["1+x", "t*x/2"], ["x*t/2", "1+y"]], "advection": ["y", "-x"]},
    "lifted tensor": {"exact": f"{BUBBLE}+x*exp(y)", "lifting": "x*exp(y)",
                      "diffusion": [["2", "1/2"], ["1/2", "1+y"]], "advection": ["y", "-x"], "reaction": "-x*u"},
    "channel": {"exact": "exp(-t)*sin(pi*(x-1))*cos(2*pi*y)", "domain": {"lower": [1, 0], "upper": [2, 0.5]},
                "diffusion": ["1", "2"], "boundary": {"y0": {"flux": "0"}, "y1": {"flux": "0"}}},
    "flux of a face": {"exact": "exp(-t)*sin(pi*(x-1))*exp(y)", "lifting": "exp(-t)*sin(pi*(x-1))",
                       "domain": {"lower": [1, 0], "upper": [2, 0.5]}, "diffusion": ["1", "2"],
                       "boundary": {"y1": {"flux": "2*exp(1/2)*exp(-t)*sin(pi*(x-1))"}}},
    "transport": {"exact": "exp(-t)*sin(2*pi*(x-t))*sin(pi*y)", "diffusion": "1/10", "advection": ["1", "0"],
                  "boundary": {"x": "periodic"}},
    "disk": {"exact": "exp(-t)*(1-x**2-y**2)*(1+x)", "domain": {"disk": {"centre": [0, 0], "radius": 1}}},
    "triangle": {"exact": "exp(-t)*x*y*(1-x-y)", "domain": {"polygon": [[0, 0], [1, 0], [0, 1]]},
                 "advection": ["1", "x"]},
    "L-shape": {"exact": "exp(-t)*cos(x)*y+x*y", "lifting": "exp(-t)*cos(x)*y+x*y", "domain": {"polygon": L_SHAPE}},
    "flux on a circle": {"exact": ROUND, "diffusion": "1 + x**2/4", "domain": CIRCLE,
                         "boundary": {"circle": {"flux": f"(1 + x**2/4)*{OUTWARD}"}}},
    "transfer on a circle": {"exact": ROUND, "domain": CIRCLE,
                             "boundary": {"circle": {"transfer": "2", "outside": f"{ROUND} + {OUTWARD}/2"}}},
    "a side": {**SIDED, "domain": {"polygon": RIGHT}, "boundary": {"side0": {"flux": "exp(-t)*x**2/2"}}},
    "a side, clockwise": {**SIDED, "domain": {"polygon": RIGHT[::-1]},
                          "boundary": {"side1": {"flux": "exp(-t)*x**2/2"}}},
}  # fmt: skip
DIRECTIONS = {name: 2 if "y" in formulas["exact"] else 1 for name, formulas in PROBLEMS.items()}
WITHIN = {1: 4e-6, 2: 2e-4}
NATURAL = {"flux on a circle": 5e-5, "transfer on a circle": 5e-5, "a side": 1e-3, "a side, clockwise": 1e-3}
"""Natural boundaries off boxes, and largest errors."""


def make_statement(name):
    return pde.FormulaProblem(DIRECTIONS[name], **PROBLEMS[name])


def problem_of(name):
    stated = make_statement(name)
    return stated(**dict.fromkeys(stated.parameters, 1.0))


def rules_of(problem):
    if not isinstance(problem.domain.usual_rule, QuadratureRule):
        return (TriangleRule(3, 8),) * 2
    points = {1: 120, 2: 26 if len(problem.domain.boundary_points()) > 20 else 40}[problem.dimension]
    return QuadratureRule("gauss_legendre", points), QuadratureRule("gauss_legendre", 30)


DICTIONARIES = {
    1: pde.Dictionary("gtransnet", N=60, N1=240, gamma=6), 2: pde.Dictionary("gtransnet", N=150, N1=300, gamma=3)
}  # fmt: skip


def solve(problem, integrator="gauss_2", dt=0.02, reference=None):
    grid = TimeGrid.from_step(0.2, dt, 2)
    dictionary, (assembly, validation) = DICTIONARIES[problem.dimension], rules_of(problem)
    run = Discretisation(dictionary, 0, 1e-12, assembly, validation, grid, INTEGRATORS[integrator]())
    return solve_arrays(problem, run, reference=reference)


QUICK = ("transfer, lifting and reaction", "tensor", "flux on a circle", "a side, clockwise")
names = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else pytest.mark.long) for name in PROBLEMS]
)


@names
def test_the_method_solves_it(name):
    problem = problem_of(name)
    assert solve(problem).errors[-1] < NATURAL.get(name, WITHIN[problem.dimension])


@names
def test_finite_elements_solve_it_with_third_order(name):
    problem, grid = problem_of(name), TimeGrid.from_step(0.2, 0.02, 2)
    rule = problem.domain.quadrature(rules_of(problem)[1])
    sizes = (8, 16) if isinstance(problem.domain.usual_rule, QuadratureRule) else (2, 3)
    if name in NATURAL:
        sizes = (3, 4)
    exact, errors = problem.exact(rule.nodes, np.array([0.2]))[0], []
    for size in sizes:
        found = finite_elements(problem, make_element_space(problem.domain, 2, size, 8), grid).evaluate(rule.nodes)[-1]
        errors.append(np.sqrt(((found - exact) ** 2 @ rule.weights) / (exact**2 @ rule.weights)))
    assert errors[1] < 2e-3
    assert errors[1] < 1e-6 or np.log2(errors[0] / errors[1]) > (2.65 if name in NATURAL else 2.5)


@pytest.mark.parametrize(
    ("dimension", "domain", "boundary"),
    [
        (1, {"lower": [-1], "upper": [2]}, {"x0": {"flux": "0"}, "x1": {"flux": "0"}}),
        (1, None, {"x": "periodic"}),
        (2, None, {"x": "periodic", "y0": {"flux": "0"}, "y1": {"flux": "0"}}),
        (2, CIRCLE, {"circle": {"flux": "0"}}),
        (2, {"polygon": RIGHT}, {f"side{i}": {"flux": "0"} for i in range(3)}),
    ],
)
def test_without_given_values_the_mass_is_kept(dimension, domain, boundary):
    """Random features, whose span does not contain the constant."""
    problem = pde.FormulaProblem(
        dimension=dimension, initial="1 + cos(2*pi*x)/2", diffusion="1/5", domain=domain, boundary=boundary
    )()
    rule = QuadratureRule("gauss_legendre", {1: 100, 2: 24}[dimension])
    rule = rule if isinstance(problem.domain.usual_rule, QuadratureRule) else TriangleRule(2, 12)
    dictionary, grid = pde.Dictionary("gtransnet", N=30, N1=60, gamma=3.0), TimeGrid.from_step(0.2, 0.01, 21)
    run = Discretisation(dictionary, 0, 1e-12, rule, rule, grid, INTEGRATORS["gauss_2"]())
    solution = solve_arrays(problem, run)
    means = solution.trajectory.coefficients @ (solution.space.values.T @ solution.space.rule.weights)
    assert np.ptp(means) < 1e-15 * np.abs(means).max()


def test_a_problem_of_functions_equals_the_problem_of_formulas():
    stated = pde.FormulaProblem(1, exact=WAVE, diffusion="1/20", reaction="u*(1-u)", advection=["1+x"])()
    law = pde.NonlinearReaction(lambda u, nodes, t: u * (1 - u), lambda u, nodes, t: 1 - 2 * u)
    given = pde.Problem(
        1, stated.diffusion, stated.initial, stated.source, stated.exact, advection=stated.advection, reaction=law
    )
    assert solve(given).errors == pytest.approx(solve(stated).errors, rel=1e-12)


@pytest.mark.slow
def test_errors_against_finite_elements_are_those_against_the_truth():
    """Known answers, from Chebyshev polynomials and Radau at 1e-11: 8.525e-4, 2.131e-4, 5.327e-5."""
    problem = pde.FormulaProblem(
        1, initial="x*(1-x)*exp(x)+sin(3*pi*x)/2", source="10*x*(1-x)*cos(5*t+x)",
        diffusion="1/10+sin(2*pi*x)*cos(3*t+x)/20",
    )()  # fmt: skip
    dictionary = pde.Dictionary("gtransnet", N=80, N1=320, gamma=8)
    rules = QuadratureRule("gauss_legendre", 150), QuadratureRule("composite_midpoint", 2000)
    for dt, wanted in ((2e-2, 8.525e-4), (1e-2, 2.131e-4), (5e-3, 5.327e-5)):
        grid = TimeGrid.from_step(1.0, dt, 2)
        run = Discretisation(dictionary, 0, 1e-12, *rules, grid, INTEGRATORS["implicit_midpoint"]())
        found = solve_arrays(problem, run, reference=make_reference("finite_elements", problem, run, 100, dt))
        assert found.errors[-1] == pytest.approx(wanted, rel=0.02)


def decay_rate(domain, N, refinements, gamma):
    shape = pde.FormulaProblem(2, initial="0", domain=domain)().domain
    one = pde.FormulaProblem(2, initial="0")().diffusion
    problem = pde.Problem(2, one, lambda nodes: shape.boundary_factor(nodes)[0], domain=shape)
    rule, dictionary = TriangleRule(refinements, 8), pde.Dictionary("gtransnet", N=N, N1=2 * N, gamma=gamma)
    run = Discretisation(dictionary, 0, 1e-12, rule, rule, TimeGrid.from_step(1.0, 0.02), INTEGRATORS["radau_iia_3"]())
    norms = np.linalg.norm(solve_arrays(problem, run).trajectory.coefficients, axis=1)
    return np.log(norms[25] / norms[50]) / 0.5


def test_heat_on_the_disk_decays_with_the_square_of_the_first_zero_of_the_bessel_function():
    found = [decay_rate({"disk": {"centre": [0, 0], "radius": 1}}, N, 3, 2.0) / 5.7831859629 - 1.0 for N in (5, 10, 20)]
    assert 0.0 < found[1] < found[0] / 3.0  # Ritz values come from above, and fall with N
    assert abs(found[2]) < 1e-5  # of which 3e-6 is the curved side


@pytest.mark.long
def test_heat_on_the_l_shape_decays_with_its_first_eigenvalue():
    found = [decay_rate({"polygon": L_SHAPE}, N, 4, 3.0) / 9.6397238 - 1.0 for N in (20, 40, 80)]
    assert 0.0 < found[2] < found[1] < found[0] < 5e-2
    assert found[2] < 2e-2
