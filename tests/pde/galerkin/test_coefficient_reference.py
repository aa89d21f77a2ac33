"""References for the final coefficients: closed forms, each against the other, and what they refuse."""

import dataclasses

import numpy as np
import pytest
from wing import make_space

from evogt_study.errors import ProblemError
from evogt_study.pde.dictionaries import Dictionary
from evogt_study.pde.galerkin.problem import Potential
from evogt_study.pde.galerkin.system import DenseBasis, GalerkinSystem, Reaction, assemble
from evogt_study.pde.galerkin.validation import COEFFICIENT_REFERENCES, CoefficientReference
from evogt_study.pde.numerics import Quadrature
from evogt_study.pde.problems.formula_problem import FormulaProblem

EIGEN, DOP853 = (CoefficientReference(name) for name in COEFFICIENT_REFERENCES)


def space_of(dimension=1, N=16, tau=1e-8, points=24):
    return make_space(Dictionary("uniform_elm", N, 5.0), dimension, points, tau, 3)


def one_mode(load, initial=0.0, k=0.0):
    """alpha' + k alpha = load(t)."""
    return GalerkinSystem(lambda t: np.array([[k]]), True, lambda times: load(times)[:, None], np.array([initial]))


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


MOVING = {
    "diffusion": FormulaProblem(1, initial="x*(1-x)", diffusion="1 + t"),
    "unsplit-diffusion": FormulaProblem(1, initial="x*(1-x)", diffusion="2 + sin(x*t)"),
    "source": FormulaProblem(1, initial="x*(1-x)", source="exp(-t)*x"),
    "lifting": FormulaProblem(1, initial="x + x*(1-x)", lifting="x*cos(t)"),
    "potential": FormulaProblem(1, initial="x*(1-x)", potential="u**2/2"),
}


@pytest.mark.parametrize("name", MOVING)
def test_the_eigendecomposition_is_refused_where_it_does_not_apply_and_dop853_is_not(name):
    problem = MOVING[name]()
    with pytest.raises(ProblemError) as caught:
        EIGEN.check(problem)
    assert str(caught.value) == (
        "`coefficient_reference` eigendecomposition needs a linear problem without advection whose terms do not "
        "depend on t. Use dop853"
    )
    DOP853.check(problem)
    assert np.isfinite(DOP853.final_state(assemble(space_of(N=6), problem), 0.1)).all()


def test_dop853_says_where_it_gave_up():
    # alpha' = alpha^2 from 1 is infinite at t = 1
    explosive = Potential(lambda u: -(u**3) / 3.0, lambda u: -(u**2))
    system = dataclasses.replace(
        one_mode(np.zeros_like, initial=1.0),
        reaction=Reaction(explosive, DenseBasis(Quadrature(np.zeros((1, 1)), np.ones(1)), np.ones((1, 1)), None)),
    )
    assert DOP853.final_state(system, 0.5) == pytest.approx([2.0], rel=1e-11)
    with pytest.raises(ProblemError, match="^dop853 stopped before t = 2: ") as caught:
        DOP853.final_state(system, 2.0)
    assert "\n" not in str(caught.value)
