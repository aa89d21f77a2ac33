"""Bound, interval and estimate of all linear terms: boxes, tensors, advection, reaction, natural faces, liftings."""

from dataclasses import replace

import numpy as np
import pytest
import sympy
from manufactured import energy_error

from evogt_study.errors import ProblemError, StudyError
from evogt_study.pde.certificates.bound import bound_growth, bound_run, find_knots
from evogt_study.pde.certificates.certify import (
    BUDGET,
    CONSTANTS,
    INTERVAL,
    certify,
    check_certificates,
    find_certificates,
    find_reference,
)
from evogt_study.pde.certificates.functions import ProblemData, TensorGrid
from evogt_study.pde.dictionaries import Dictionary
from evogt_study.pde.numerics import QuadratureRule, TimeGrid
from evogt_study.pde.pipeline import Discretisation, compute_stage, solve_arrays
from evogt_study.pde.problems import FormulaProblem

T = 0.2


def stated(dimension, exact, diffusion, natural=(), domain=None, **terms):
    """The problem with this solution; `natural`: faces with their transfer."""
    names = sympy.symbols("x y z")[:dimension]
    u, lower = sympy.sympify(exact), (0,) * dimension if domain is None else domain["lower"]
    upper = (1,) * dimension if domain is None else domain["upper"]
    boundary = {}
    for face, transfer in natural:
        axis, side = "xyz".index(face[0]), int(face[1])
        if isinstance(diffusion, list):
            flux = sum(
                sympy.sympify(entry) * sympy.diff(u, name) for entry, name in zip(diffusion[axis], names, strict=True)
            )
        else:
            flux = sympy.sympify(diffusion) * sympy.diff(u, names[axis])
        given = ((2 * side - 1) * flux + sympy.sympify(transfer) * u).subs(names[axis], (lower, upper)[side][axis])
        if transfer == "0":
            boundary[face] = {"flux": str(given)}
        else:
            boundary[face] = {"transfer": transfer, "outside": str(sympy.simplify(given / sympy.sympify(transfer)))}
    return FormulaProblem(
        dimension=dimension, exact=exact, diffusion=diffusion, domain=domain, boundary=boundary or (),
        **terms,
    )()  # fmt: skip


PROBLEMS = {
    "reaction and advection on an interval": stated(
        1, "exp(-t)*sin(pi*x/2)*cos(x)", "1 + x/4", domain={"lower": [0], "upper": [2]},
        advection=["1 - x"], reaction="(1 + x)*u",
    ),
    "flux and transfer": stated(1, "exp(-t)*cos(3*x) + x*t", "1 + x/2", [("x0", "0"), ("x1", "2 + t")]),
    "lower end free": stated(1, "exp(-t)*cos(pi*x/2)*(1 + x)", "1/(1 + x)", [("x0", "0")]),
    "upper end free": stated(1, "exp(-t)*x*cosh(x)", "1/(1 + x)", [("x1", "1/2")], advection=["1/4"]),
    "tensor": stated(
        2, "exp(-t)*sin(pi*x)*sin(2*pi*y)", [["2", "1/2 + x/4"], ["1/2 + x/4", "1 + y"]], advection=["1 - 2*y", "x"]
    ),
    "faces of a box": stated(
        2, "exp(-t)*sin(pi*x)*cos(3*y)", "1 + x*y/2", [("y0", "0"), ("y1", "1 + x")],
        domain={"lower": [0, 0], "upper": [1, 0.5]}, reaction="-u", advection=["0", "0"],
    ),
    "fluxes alone": stated(
        2, "(1 + exp(-t)*cos(pi*x))*cos(y)", "1/2", [(face, "0") for face in ("x0", "x1", "y0", "y1")], reaction="-u/2"
    ),
    "a cube": stated(
        3, "exp(-t)*sin(pi*x)*sin(pi*y)*cos(z)", [["1", "0", "0"], ["0", "2", "0"], ["0", "0", "1/2"]], [("z1", "1")],
        domain={"lower": [0, 0, 0], "upper": [1, 1, 1]}, reaction="u",
        lifting="exp(-t)*sin(pi*x)*sin(pi*y)*(1 - z)",
    ),
}  # fmt: skip
"""One of every term."""
LONG = ("upper end free", "faces of a box", "a cube")


def run_of(problem, N, steps):
    d = problem.dimension
    rules = {1: (120, 200), 2: (24, 40), 3: (12, 20)}[d]
    quadrature, validation = (QuadratureRule("gauss_legendre", points) for points in rules)
    dictionary = Dictionary("transnet", N=N, gamma={1: 6.0, 2: 3.0, 3: 2.0}[d])
    return Discretisation(dictionary, 1, 1e-10, quadrature, validation, TimeGrid.from_step(T, T / steps, 2))


@pytest.mark.long
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in LONG else name for name in PROBLEMS]
)
def test_bound_interval_and_estimate(name):
    problem = PROBLEMS[name]
    reference = find_reference(problem, T)
    growth = bound_growth(ProblemData.evaluate(problem, TensorGrid(problem.dimension, 20), np.array([0.0, T])))
    for N, steps in (({1: 20, 2: 60, 3: 60}[problem.dimension], 40), ({1: 6, 2: 20, 3: 20}[problem.dimension], 8)):
        solution = solve_arrays(problem, run_of(problem, N, steps))
        bound = bound_run(solution, find_knots(solution), compute_stage, name)[0].value
        effectivity = bound / energy_error(problem, solution)
        assert 1.0 <= effectivity <= 1.6 * np.exp(growth.rate * T)
        wanted = ("error_bound", "error_estimate", *INTERVAL, *BUDGET)
        found, error = certify(solution, wanted, compute_stage, name, reference), solution.errors[-1]
        assert found["error_lower"] <= error <= found["error_upper"] <= 1.1 * found["error_lower"]
        assert error / 3.0 < found["error_estimate"] < 3.0 * error
        whole = found["error_retained"] + found["error_evolution"] + found["error_time"]
        assert found["error_full_space"] <= found["error_retained"] * (1.0 + 1e-9)
        assert error <= whole * (1.0 + 1e-9)


def test_growth():
    grid, times = TensorGrid(1, 20), np.array([0.0, T])
    growth = bound_growth(ProblemData.evaluate(PROBLEMS["reaction and advection on an interval"], grid, times))
    assert growth.rate == pytest.approx(3.0 - 0.5, rel=0.01)  # c + b'/2 at the upper end
    tensor = ProblemData.evaluate(PROBLEMS["tensor"], TensorGrid(2, 20), times)
    assert bound_growth(tensor).rate == pytest.approx(0.0, abs=1e-9)


def test_what_is_refused():
    wanted = ("error_bound", "error_estimate", *BUDGET)
    box = PROBLEMS["faces of a box"]
    assert find_certificates(box, T) == wanted
    for name in CONSTANTS:
        with pytest.raises(StudyError, match="scalar diffusion on the unit cube"):
            check_certificates((name,), box, T)
    inflow = stated(1, "exp(-t)*cos(pi*x/2)", "1", [("x0", "0")], advection=["1"])
    with pytest.raises(StudyError, match="an inflow on a face"):
        check_certificates(("error_bound",), inflow, T)
    pumped = stated(1, "exp(-t)*cos(x)", "1", [("x0", "0"), ("x1", "-2")])  # without advection
    # inflow at no eighth of the final time
    pulsed = stated(1, "exp(-t)*cos(pi*x/2)", "1", [("x0", "0")], advection=["50*sin(40*pi*t)**2*(1 - x)"])
    for problem in (pumped, pulsed):
        assert find_certificates(problem, T) == ()
    nonlinear = FormulaProblem(dimension=1, initial="sin(pi*x)", reaction="u*(1 - u)")()
    assert find_certificates(nonlinear, T) == ("error_indicator",)
    disk = FormulaProblem(dimension=2, initial="1 - x**2 - y**2", domain={"disk": {"centre": [0, 0], "radius": 1}})()
    with pytest.raises(StudyError, match="whose domain is not a box"):
        check_certificates(("error_bound",), disk, T)


def test_a_bound_beyond_the_range_of_numbers():
    problem = FormulaProblem(dimension=1, exact="exp(-t)*sin(pi*x)", reaction="400*u")()
    run = replace(run_of(problem, 20, 40), grid=TimeGrid.from_step(1.0, 0.002))
    with np.errstate(all="ignore"):
        found = certify(solve_arrays(problem, run), ("error_bound",), compute_stage, "", None)
    assert not found  # what is no number is left out


def test_the_norm_that_the_bound_is_divided_by_has_an_upper_limit():
    problem = FormulaProblem(dimension=1, exact="sin(9*pi*x)*exp(-t) + sin(pi*x)", diffusion="1e-8")()
    solution = solve_arrays(problem, run_of(problem, 6, 8))
    assert (
        certify(solution, ("error_bound",), compute_stage, "", None)["error_bound"] >= 0.5 * solution.errors[-1] > 0.1
    )


def test_a_bound_that_is_no_number_is_infinite():
    problem = FormulaProblem(dimension=1, exact="exp(-t)*sin(pi*x)")()
    run = replace(run_of(problem, 6, 8), grid=TimeGrid.from_step(1e-300, 1e-301))  # rates overflow
    with np.errstate(all="ignore"):
        reference = find_reference(problem, 1e-300)
        found = certify(solve_arrays(problem, run), ("error_bound", *INTERVAL), compute_stage, "", reference)
    assert found["error_bound"] == np.inf
    assert [found[name] for name in INTERVAL] == [0.0, np.inf]


@pytest.mark.parametrize(
    ("dimension", "diffusion", "message"),
    [
        # not positive in an interval that has a node of the certificates, and none of the assembly
        (1, "1 - 3*exp(-((x - 1/3)*3000)**2)", "positive on the nodes of the certificates"),
        (2, [["1", "2*exp(-((x - 0.61)*40)**2)"], ["2*exp(-((x - 0.61)*40)**2)", "1"]], "positive definite"),
    ],
)
def test_a_diffusion_that_is_negative_between_the_nodes_of_assembly(dimension, diffusion, message):
    exact = "exp(-t)*" + "*".join(f"sin(pi*{name})" for name in "xy"[:dimension])
    problem = FormulaProblem(dimension=dimension, exact=exact, diffusion=diffusion)()
    solution = solve_arrays(
        problem, replace(run_of(problem, 10, 8), quadrature=QuadratureRule("gauss_legendre", {1: 60, 2: 12}[dimension]))
    )
    with pytest.raises(ProblemError, match=message):
        certify(solution, ("error_bound",), compute_stage, "", None)


def test_indicator_of_a_reaction():
    problem = FormulaProblem(dimension=1, exact="exp(-t)*sin(pi*x)", reaction="u*(1 - u)")()
    runs = [replace(run_of(problem, 20, 40), dictionary=Dictionary("transnet", N=N, gamma=6.0)) for N in (20, 5)]
    fine, coarse = (
        certify(solve_arrays(problem, run), ("error_indicator",), compute_stage, "", None)["error_indicator"]
        for run in runs
    )
    assert 0.0 < fine < 0.1 * coarse
