"""Domains from outside of the package: what is solved, measured and shown follows from the problem's domain alone."""

from dataclasses import dataclass

import numpy as np
import pytest

from evogt_study.pde.dictionaries import Dictionary
from evogt_study.pde.domains import UnitCube
from evogt_study.pde.domains.base import Domain
from evogt_study.pde.galerkin.problem import Problem, Separable
from evogt_study.pde.methods.problem_method import sample_fields
from evogt_study.pde.numerics import Quadrature, QuadratureRule, TimeGrid
from evogt_study.pde.pipeline import Discretisation, solve_arrays

GRID = TimeGrid.from_step(0.25, 0.0025, 2)
RULE = QuadratureRule("gauss_legendre", 40)


@dataclass(frozen=True)
class Stretched(Domain):
    """(0, length)^d."""

    length: float

    def quadrature(self, rule):
        cube = UnitCube(self.dimension).quadrature(rule)
        return Quadrature(self.length * cube.nodes, self.length**self.dimension * cube.weights)

    def boundary_factor(self, nodes, order=0):
        jet = UnitCube(self.dimension).boundary_factor(nodes / self.length, order)
        return tuple(part / self.length**k for k, part in enumerate(jet))

    def boundary_points(self):
        return self.length * UnitCube(self.dimension).boundary_points()

    def bounds(self):
        return np.zeros(self.dimension), np.full(self.dimension, self.length)


def mode(domain, length):
    """The slowest mode of u_t = Laplacian u on (0, length)^d, so slowed down that it does not depend on the length."""
    d = domain.dimension

    def profile(nodes):
        return np.prod(np.sin(np.pi * nodes / length), axis=1)

    rate = 0.1 * d * np.pi**2
    return Problem(
        dimension=d,
        diffusion=Separable(lambda nodes: np.full((1, len(nodes)), 0.1 * length**2)),
        initial=profile,
        exact=Separable(lambda nodes: profile(nodes)[None], lambda times: np.exp(-rate * times)[None]),
        domain=domain,
    )


def run_of(length):
    """A dictionary whose features are those of the unit cube, stretched."""
    dictionary = Dictionary("transnet", 30, 3.0 / length, radius=0.8 * length, centre=0.5 * length)
    return Discretisation(dictionary, 1, 1e-12, RULE, RULE, GRID)


@pytest.mark.parametrize("dimension", [1, 2])
def test_a_problem_that_is_stretched_with_its_domain_has_the_same_errors(dimension):
    usual = solve_arrays(mode(UnitCube(dimension), 1.0), run_of(1.0))
    stretched = solve_arrays(mode(Stretched(dimension, 4.0), 4.0), run_of(4.0))
    assert stretched.space.rank == usual.space.rank
    assert usual.errors.max() < 1e-3
    assert stretched.errors == pytest.approx(usual.errors, rel=1e-6)
    nodes = np.random.default_rng(0).uniform(0.0, 1.0, (9, dimension))
    assert stretched.evaluate(4.0 * nodes) == pytest.approx(usual.evaluate(nodes), abs=1e-9)
    _, coordinates = sample_fields(stretched.evaluate, stretched.problem, GRID, ["field"], 5)
    assert [datum.values.tolist() for datum in coordinates.values()][1:] == [[0.0, 1.0, 2.0, 3.0, 4.0]] * dimension
