"""Spaces and time grids that tests of the PDE wing share."""

from evogt_study.pde.domains import UnitCube
from evogt_study.pde.galerkin.system import compute_weighted_svd, make_trial, retain
from evogt_study.pde.numerics import QuadratureRule, TimeGrid


def every_step(final_time, steps):
    """A time grid whose steps are all observed."""
    return TimeGrid(final_time, steps, tuple(range(steps + 1)))


def make_space(dictionary, dimension, points, tau, seed, domain=None):
    """The retained space of a dictionary, by default on the unit cube."""
    domain = domain or UnitCube(dimension)
    rule = domain.quadrature(QuadratureRule("gauss_legendre", points))
    trial = make_trial(domain, domain.features(dictionary, seed), rule)
    return retain(trial, compute_weighted_svd(trial), tau)
