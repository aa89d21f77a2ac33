"""The error split by its causes, with known answers, and the constants of the error estimate."""

from dataclasses import replace

import numpy as np
import pytest

from evogt_study.pde.certificates.certify import BUDGET, certify, march_semidiscrete, solve_reference, split_error
from evogt_study.pde.certificates.functions import SpectralSpace
from evogt_study.pde.dictionaries import Dictionary
from evogt_study.pde.galerkin.validation import CoefficientReference
from evogt_study.pde.numerics import QuadratureRule, TimeGrid
from evogt_study.pde.pipeline import Discretisation, compute_stage, solve_arrays
from evogt_study.pde.problems import BUILT_IN, FormulaProblem

PROBLEM = BUILT_IN["oscillatory_1d"](epsilon=0.2)
GTRANSNET = Dictionary("gtransnet", N=60, N1=240, gamma=20)
RUN = Discretisation(
    GTRANSNET, 0, 1e-12, QuadratureRule("gauss_legendre", 320), QuadratureRule("composite_midpoint", 4096),
    TimeGrid.from_step(0.25, 2.5e-3),
)  # fmt: skip
DOP853 = CoefficientReference("dop853")


def measured(run, wanted=BUDGET, reference=None):
    return certify(solve_arrays(PROBLEM, run), wanted, compute_stage, "problem", reference)


@pytest.mark.parametrize(
    ("dictionary", "full", "retained", "evolution", "time"),
    [
        (GTRANSNET, 5.9e-5, 3.6e-4, 2.4e-4, 8.7e-6),
        (Dictionary("transnet", N=60, gamma=10), 4.0e-4, 1.4e-2, 1.0e-2, 1.7e-6),
    ],
)
def test_known_answers(dictionary, full, retained, evolution, time):
    found = measured(replace(RUN, dictionary=dictionary))
    rounded = {name: float(f"{value:.1e}") for name, value in found.items()}
    assert rounded == dict(zip(BUDGET, (full, retained, evolution, time), strict=True))


def test_parts_add_up_to_the_error():
    rng = np.random.default_rng(0)
    exact, *states = rng.standard_normal((4, 30))
    parts = split_error(exact, rng.standard_normal((30, 5)), rng.uniform(0.1, 1.0, 30), states)
    np.testing.assert_allclose(parts.sum(axis=0), exact - states[-1], atol=1e-12)
    known, error = measured(RUN), solve_arrays(PROBLEM, RUN).errors[-1]
    assert error <= known["error_retained"] + known["error_evolution"] + known["error_time"]


@pytest.mark.long
def test_the_time_part_is_the_coefficient_error():
    run = replace(RUN, coefficient_reference=DOP853, grid=TimeGrid.from_step(0.25, 0.025))
    solution = solve_arrays(PROBLEM, run)
    norm = np.linalg.norm(solution.reference_state) / np.sqrt(0.5 * np.exp(-0.5))  # over || u(T) ||
    asked = certify(solution, ("error_time",), compute_stage, "problem", None)["error_time"]
    assert asked == pytest.approx(solution.coefficient_error * norm, rel=1e-6)
    own = measured(replace(run, coefficient_reference=None), ("error_time",))["error_time"]
    assert own == pytest.approx(asked, rel=1e-5)


@pytest.mark.long
def test_the_retained_part_falls_with_tau():
    parts = [measured(replace(RUN, tau=tau), ("error_retained",))["error_retained"] for tau in (1e-4, 1e-8, 1e-12)]
    assert parts[0] > parts[1] > parts[2]


def test_the_part_of_all_features_does_not_depend_on_how_many_are_retained():
    """The grid resolves products of any two features, also where the residual is one of five functions."""
    problem, features = BUILT_IN["target_1d"](epsilon=0.2), Dictionary("gtransnet", N=180, N1=240, gamma=36)
    few, many = (
        certify(
            solve_arrays(problem, replace(RUN, dictionary=features, tau=tau)), BUDGET, compute_stage, "problem", None
        )["error_full_space"]
        for tau in (1e-2, 1e-12)
    )  # fmt: skip
    assert few == pytest.approx(many, rel=0.03)


def test_runs_of_another_validation_that_share_stages_change_no_bit():
    kept = {}

    def share(stage, key, compute):
        if (stage, key) not in kept:
            kept[stage, key] = compute()
        return kept[stage, key]

    other = replace(RUN, validation=QuadratureRule("gauss_legendre", 200))  # at whose nodes features are evaluated
    wanted = ("error_bound", "error_estimate", *BUDGET)
    certify(solve_arrays(PROBLEM, other), wanted, share, "problem", None)
    assert certify(solve_arrays(PROBLEM, RUN), wanted, share, "problem", None) == measured(RUN, wanted)


def test_constants():
    reference = solve_reference(PROBLEM, 0.25, SpectralSpace(1, 96), 40)
    names = ("coercivity", "mass_constant", "quadrature_residual", "midpoint_constant")
    fine = measured(RUN, names, reference)
    coarse = measured(replace(RUN, quadrature=QuadratureRule("gauss_legendre", 40)), names, reference)
    # the least a is 1/2, and sin(pi x) has || z ||_{1,q}^2 = (1 + pi^2) || z ||^2
    assert 0.5 * np.pi**2 / (1.0 + np.pi**2) < fine["coercivity"] < 1.5
    assert fine["mass_constant"] == pytest.approx(1.0, abs=1e-6)
    assert fine["quadrature_residual"] < 1e-9 < 1e-3 < coarse["quadrature_residual"]
    assert coarse["mass_constant"] < 0.999
    assert fine["midpoint_constant"] > 0.0


@pytest.mark.parametrize(
    "formulas",
    [
        {"diffusion": "1 + cos(20*pi*x)/2"},
        {"diffusion": "exp(2*sin(2*pi*(x - 12*t)))/20"},
        {"diffusion": "1/50", "advection": ["3*cos(20*t)"], "reaction": "2*u"},
    ],
)
def test_the_semidiscrete_state_is_that_of_the_ode(formulas):
    problem = FormulaProblem(dimension=1, exact="exp(-t)*sin(3*pi*x)", **formulas)()
    system = solve_arrays(problem, replace(RUN, dictionary=Dictionary("legendre", N=20))).system
    exact = CoefficientReference("dop853").final_state(system, 0.25)
    found = march_semidiscrete(system, 0.25)
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-6 * np.linalg.norm(exact))
