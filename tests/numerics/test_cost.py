"""The work of a run: counts against arithmetic by hand, and their orders against the paper's (app:scaling)."""

from dataclasses import replace

import numpy as np
import pytest

from evogt_study.numerics.coefficient_reference import CoefficientReference
from evogt_study.numerics.cost import NOTHING, RunSize, Work, counts, features, gram, product, stage_work, total
from evogt_study.numerics.dictionaries import Dictionary
from evogt_study.numerics.integrators import ImplicitMidpoint
from evogt_study.numerics.pipeline import Discretisation, stage_keys
from evogt_study.numerics.problem import NonSeparable, Potential, Problem, Separable
from evogt_study.numerics.problem_facts import FunctionFacts, ProblemFacts
from evogt_study.numerics.quadrature import QuadratureRule
from evogt_study.numerics.time_grid import TimeGrid
from evogt_study.problems import Statement

ONE = FunctionFacts(separable=True, steady=True, terms=1, functions=0, operations=0)
HEAT = ProblemFacts(dimension=1, diffusion=ONE, source=ONE, initial=ONE, exact=ONE)


def run_of(N=10, Q=20, V=30, steps=4, hidden=(), **more):
    dictionary = Dictionary("gtransnet" if hidden else "transnet", N, 2.0, hidden=hidden)
    rules = QuadratureRule("gauss_legendre", Q), QuadratureRule("gauss_legendre", V)
    return Discretisation(dictionary, 0, 1e-12, *rules, TimeGrid.of(1.0, 1.0 / steps, 2), **more)


def works(problem=HEAT, **sizes):
    return stage_work(RunSize(run_of(**sizes), problem))


# --- by hand ----------------------------------------------------------------------------------------------------------


def test_work_adds_and_multiplies():
    one, two = Work(products=1.0, calls=2.0), Work(products=3.0, entries=5.0)
    assert one + two == Work(products=4.0, entries=5.0, calls=2.0)
    assert one * 3.0 == Work(products=3.0, calls=6.0)
    assert total([one, two, two]) == Work(products=7.0, entries=10.0, calls=2.0)
    assert total([NOTHING]) == Work()
    assert counts(two)[0] == 3.0


def test_a_product():
    assert product(2, 3, 5) == Work(products=60.0, entries=6.0 + 15.0 + 10.0, calls=1.0)


def test_one_run_by_hand():
    """d = 1, one layer of N = 10, Q = 20, V = 30, four steps of a steady problem; r is taken to be 10."""
    found = works()
    trial = found["trial functions"]
    assert trial.formulas == (1 + 1) * 10  # a direction and an offset for each feature
    assert trial.activations == 20 * 10
    assert trial.products == 2 * 20 * 1 * 10
    assert found["weighted SVD"].qr == 2 * 20 * 10**2 * (1 + 80 / 10)
    assert found["weighted SVD"].svd == 10**2 * (10 + 400)
    assert found["retained space"].products == 2 * 20 * 10 * (10 + 10)  # values and one derivative, N by r
    nodal = 2 * 20  # one profile times one modulation at each node
    moments = 2 * 1 * 20 * 10
    assert found["nodal data"].products == 3 * nodal  # a, f and u_0
    assert found["Galerkin system"].products == 20 * 10**2 + moments
    assert found["trajectory"].eigh == 10**2 * (10 + 1000)
    assert found["trajectory"].cholesky == 0
    assert found["validation features"].activations == 30 * 10
    assert found["run"].products == 2 * 2 * 10 * 30 + 2 * 10 * 20 * 10  # two observed times; the mass defect


def test_a_run_with_steps_that_have_a_matrix_each_by_hand():
    unsteady = replace(HEAT, diffusion=replace(ONE, steady=False, terms=2))
    found = works(unsteady)
    assert found["trajectory"].cholesky == pytest.approx(4 * 10**3 / 3)
    assert found["trajectory"].eigh == 0
    assert found["Galerkin system"].products - works()["Galerkin system"].products == 20 * 10**2  # one profile more
    assert found["nodal data"].products - works()["nodal data"].products == 2 * 20


def test_two_layers_by_hand():
    """Values are s W^T, (Q, N1) by (N1, N), and each of d derivatives as much again."""
    dictionary = Dictionary("gtransnet", 5, 2.0, N1=7)
    value, jet = (features(dictionary, 2, 11, derivatives=given) for given in (False, True))
    assert value.products == 2 * 11 * 2 * 7 + 2 * 11 * 7 * 5
    assert jet.products - value.products == 2 * 11 * 7 * (2 * 5)
    assert value.activations == jet.activations == 11 * (7 + 5)


def test_every_stage_has_its_work():
    assessed = QuadratureRule("gauss_legendre", 25)
    run = run_of(assessment=assessed, coefficient_reference=CoefficientReference("dop853"))
    assert set(stage_work(RunSize(run, HEAT))) == {*stage_keys("p", 1, run), "run"}
    assert set(works()) == {*stage_keys("p", 1, run_of()), "run"}


# --- the paper's orders -----------------------------------------------------------------------------------------------


def growth(of, kind, **larger):
    """By what the count of a kind grows when a size is doubled."""
    problem = larger.pop("problem", HEAT)
    base = {name: value // 2 for name, value in larger.items()}
    sizes = {"N": 400, "Q": 1000, "V": 30, "steps": 4} | base
    return getattr(works(problem, **(sizes | larger))[of], kind) / getattr(works(problem, **sizes)[of], kind)


def test_orders_of_the_stages():
    """O(Q N^2) for the SVD's factorisation, O(d Q r^2) for a stiffness, O(r^3) for a factorised step."""
    unsteady = replace(HEAT, diffusion=replace(ONE, steady=False))
    assert growth("weighted SVD", "qr", Q=2000) == 2
    assert growth("weighted SVD", "qr", N=800) == pytest.approx(4, rel=0.1)
    assert growth("Galerkin system", "products", N=800) == pytest.approx(4, rel=0.01)
    assert growth("trajectory", "cholesky", N=800, problem=unsteady) == pytest.approx(8)
    assert growth("trajectory", "cholesky", steps=8, problem=unsteady) == pytest.approx(2)
    assert gram(100, 3, 8).products == 3 * gram(100, 1, 8).products


def test_a_diffusion_that_does_not_split_is_assembled_in_every_step():
    mixed = replace(HEAT, diffusion=replace(ONE, separable=False, steady=False))
    assert growth("trajectory", "products", steps=8, problem=mixed) == pytest.approx(2, rel=0.05)
    assert works(mixed)["Galerkin system"].products < works()["Galerkin system"].products


def test_a_potential_costs_q_r_in_every_step():
    flow = replace(HEAT, potential=ONE)
    more = works(flow, steps=9)["trajectory"].streamed - works(steps=9)["trajectory"].streamed
    assert more == 10 * 2 * 20 * 10  # projected after nine steps and at the start


def test_steps_in_the_eigenbasis_are_taken_from_one_observed_time_to_the_next():
    """What has to be called grows with the strides between observed times, not with the steps."""

    def calls(steps, saved):
        run = replace(run_of(), grid=TimeGrid.of(1.0, 1.0 / steps, saved))
        return stage_work(RunSize(run, HEAT))["trajectory"].calls

    assert calls(40, 2) == calls(4000, 2)
    assert calls(4000, 41) - calls(4000, 2) == 3 * (40 - 1)
    assert calls(4000, 4001) - calls(4000, 2) == 3 * (4000 - 1)


def test_recorded_fields_and_references_count():
    run, plain = run_of(integrator=ImplicitMidpoint()), works()
    assert stage_work(RunSize(run, HEAT, field=500, saved=3))["run"].activations == 500 * 10
    assert stage_work(RunSize(run, HEAT, reference=Work(qr=7.0)))["reference"].qr == 7.0
    assert plain["run"].activations == plain["reference"].qr == 0.0


# --- facts of a problem -----------------------------------------------------------------------------------------------


def test_facts_of_formulas():
    made = Statement(dimension=2, exact="exp(-t)*sin(pi*x)*sin(pi*y)", diffusion="1 + exp(-t)*cos(x)")()
    facts = ProblemFacts.of(made)
    assert facts.dimension == 2
    assert facts.diffusion == FunctionFacts(separable=True, steady=False, terms=2, functions=1, operations=0)
    assert facts.exact == FunctionFacts(separable=True, steady=False, terms=1, functions=2, operations=3)
    assert facts.source.terms > 1
    assert facts.potential is None


def test_facts_of_what_does_not_split_and_of_a_potential():
    made = Statement(dimension=1, initial="sin(pi*x)", diffusion="1 + sin(x*t)/2", potential="(u**2 - 1)**2/4")()
    facts = ProblemFacts.of(made)
    assert (facts.diffusion.separable, facts.diffusion.steady, facts.diffusion.functions) == (False, False, 1)
    assert facts.exact is None
    assert facts.potential.operations >= 4


def test_facts_of_functions_of_ones_own():
    """However they are written, and without a change to what they return."""

    def profiles(nodes):
        x = np.asarray(nodes[:, 0] * 2.0)
        return np.stack([x, np.sin(nodes[:, 0]), np.power(nodes[:, 0], 1.5, out=np.empty(len(nodes)))])

    made = Problem(
        1,
        diffusion=Separable(profiles, lambda times: np.ones((3, len(times)))),
        initial=lambda nodes: np.sin(np.pi * nodes[:, 0]),
        source=NonSeparable(lambda nodes, t: np.cos(nodes[:, 0] * t)),
        potential=Potential(np.tanh, lambda u: u * u),
    )
    facts = ProblemFacts.of(made)
    assert facts.diffusion == FunctionFacts(separable=True, steady=False, terms=3, functions=2, operations=1)
    assert facts.source == FunctionFacts(separable=False, steady=False, terms=1, functions=1, operations=1)
    assert (facts.potential.functions, facts.potential.operations) == (1, 2)
