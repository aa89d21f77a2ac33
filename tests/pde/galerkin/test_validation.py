"""Sums of features on a uniform line are interpolated up to rounding, where that takes fewer nodes."""

import numpy as np
import pytest

from evogt_study.pde.dictionaries.base import Dictionary
from evogt_study.pde.domains import UnitCube
from evogt_study.pde.domains.box import Box
from evogt_study.pde.galerkin.validation import make_feature_sums
from evogt_study.pde.numerics import QuadratureRule

MIDPOINTS = QuadratureRule("composite_midpoint", 4096)
FAMILIES = {"transnet": {}, "gtransnet": {"N1": 120}, "gaussian_rf": {}, "uniform_elm": {}}


@pytest.mark.parametrize("gamma", [5e-324, 0.5, 8.0, 36.0])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    "domain", [UnitCube(1), Box(1, (-3.0,), (1.0,)), Box(1, (0.0,), (2.0,), periodic=("x",))], ids=str
)
def test_sums_that_are_interpolated_are_those_of_the_features_at_all_nodes(domain, family, gamma):
    features = domain.features(Dictionary(family, N=40, gamma=gamma, **FAMILIES[family]), seed=7)
    nodes, raw = domain.quadrature(MIDPOINTS).nodes, np.random.default_rng(3).normal(size=(3, features.count))
    sums = make_feature_sums(features, nodes, MIDPOINTS.uniform)
    # Gaussian features of gamma = 36 on a circle are too steep for fewer than half of the nodes
    assert (sums.to_nodes is not None) == (features.strip > 0.01 * np.ptp(nodes))
    assert len(sums.psi) < len(nodes) // 2 or sums.to_nodes is None
    # a slope of 100 makes 1e-14 of a node's rounding, in both
    np.testing.assert_allclose(sums(raw), raw @ features.values(nodes).T, rtol=0, atol=3e-14 * np.abs(raw).sum())


def test_features_are_evaluated_at_all_nodes_where_fewer_would_not_do():
    """Too few nodes, nodes that are not uniform, two directions, a step within a node's distance, no known strip."""

    def interpolates(dictionary, rule, dimension=1):
        nodes = UnitCube(dimension).quadrature(rule).nodes
        return make_feature_sums(dictionary.sample(1, dimension), nodes, rule.uniform).to_nodes is not None

    flat, steep = Dictionary("transnet", N=10, gamma=2.0), Dictionary("transnet", N=10, gamma=1e5)
    assert interpolates(flat, MIDPOINTS)
    assert not interpolates(flat, QuadratureRule("composite_midpoint", 4095))
    assert not interpolates(flat, QuadratureRule("composite_midpoint", 256))
    assert not interpolates(flat, QuadratureRule("gauss_legendre", 1024))
    assert not interpolates(flat, QuadratureRule("composite_midpoint", 64), 2)
    assert not interpolates(steep, MIDPOINTS)
    assert not interpolates(Dictionary("legendre", N=10), MIDPOINTS)
