"""Dictionaries without a seed: Legendre polynomials and Fourier sines, by known answers and rates of convergence."""

import itertools

import numpy as np
import pytest
from numpy.polynomial import legendre

from evogt_study import pde
from evogt_study.pde.dictionaries import Dictionary
from evogt_study.pde.dictionaries.base import by_total_degree
from evogt_study.pde.domains import UnitCube
from evogt_study.pde.problems import FormulaProblem

FACTORS = {1: "sin(pi*x)", 2: "sin(pi*x)*sin(pi*y)", 3: "sin(pi*x)*sin(pi*y)*sin(pi*z)"}
RULES = {1: 60, 2: 30, 3: 18}


def errors(family, dimension, counts, exact):
    """Errors at T = 1/20; time steps are so small that space decides."""
    problem = FormulaProblem(dimension=dimension, exact=exact, diffusion="1/10")()
    return [
        float(
            pde.solve(
                problem, Dictionary(family, N), seed=0, quadrature=RULES[dimension], dt=1e-3, final_time=0.05
            ).error
        )
        for N in counts
    ]


def test_indices_come_by_total_degree():
    assert by_total_degree(5, 1).ravel().tolist() == [0, 1, 2, 3, 4]
    assert by_total_degree(6, 2).tolist() == [[0, 0], [1, 0], [0, 1], [2, 0], [1, 1], [0, 2]]
    every = by_total_degree(84, 3)  # all of degree at most 6: (6 + 3 choose 3)
    assert len(set(map(tuple, every.tolist()))) == 84
    assert every.sum(axis=1).max() == 6
    assert by_total_degree(85, 3).sum(axis=1).max() == 7


def test_legendre_polynomials_are_numpys_with_their_derivatives():
    x = np.linspace(0.0, 1.0, 11)
    jet = Dictionary("legendre", 9).sample(0, 1).second_order(x[:, None])
    for degree in range(9):
        series = np.sqrt(2 * degree + 1) * legendre.Legendre.basis(degree, domain=(0.0, 1.0))
        assert jet.value[:, degree] == pytest.approx(series(x), abs=1e-13)
        assert jet.gradient[0, :, degree] == pytest.approx(series.deriv()(x), abs=1e-11)
        assert jet.hessian[0, 0, :, degree] == pytest.approx(series.deriv(2)(x), abs=1e-9)


def test_sine_trial_functions_are_eigenfunctions_up_to_the_boundary():
    nodes = np.array([0.0, 1e-9, 1e-4, 0.2, 0.5, 0.9, 1.0 - 1e-9, 1.0])[:, None]
    jet = Dictionary("sine", 6).sample(0, 1).second_order(nodes)
    frequency, D = np.pi * np.arange(1, 7), UnitCube(1).boundary_factor(nodes)[0][:, None]
    assert D * jet.value == pytest.approx(np.sqrt(2) * np.sin(frequency * nodes), abs=1e-14)
    slope = (1 - 2 * nodes) * jet.value + D * jet.gradient[0]
    assert slope == pytest.approx(np.sqrt(2) * frequency * np.cos(frequency * nodes), abs=1e-12)
    second = -2 * jet.value + 2 * (1 - 2 * nodes) * jet.gradient[0] + D * jet.hessian[0, 0]
    assert second == pytest.approx(-np.sqrt(2) * frequency**2 * np.sin(frequency * nodes), abs=1e-9)
    at_ends, beside = jet.gradient[0, [0, -1]], jet.gradient[0, [2, 5]]
    assert np.abs(at_ends[0] - beside[0]).max() < 1.0  # the limits join on: q'' is at most (6 pi)^3 / 3
    assert np.isfinite(jet.hessian).all()


@pytest.mark.long
@pytest.mark.parametrize(
    ("dimension", "counts", "ratio"), [(1, (4, 6, 8), 20.0), (2, (10, 21, 36), 8.0), (3, (10, 35, 84), 8.0)]
)
def test_legendre_errors_fall_exponentially(dimension, counts, ratio):
    """By more than `ratio` with each two degrees, as they do for entire solutions."""
    growth = {1: "exp(x)", 2: "exp(x*y)", 3: "exp(x*y*z)"}[dimension]
    found = errors("legendre", dimension, counts, f"exp(-t)*{FACTORS[dimension]}*{growth}")
    assert all(before / after > ratio for before, after in itertools.pairwise(found))


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_an_eigenfunction_is_one_sine(dimension):
    assert errors("sine", dimension, [1], f"exp(-{dimension}/10*pi**2*t)*{FACTORS[dimension]}")[0] < 1e-6


def test_sine_errors_fall_by_the_order_of_the_coefficients():
    """u_xx at the boundary is not zero: coefficients fall as k^-3, errors in L2 as N^-5/2."""
    found = errors("sine", 1, [16, 32], "exp(-t)*sin(pi*x)*exp(x)")
    assert np.log2(found[0] / found[1]) == pytest.approx(2.5, abs=0.1)
