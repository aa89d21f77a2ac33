"""Dictionaries of tanh layers: draws, values and gradients equal the specification; the ball holds the domain."""

import itertools

import numpy as np
import pytest
from specification import Settings, features, sample_layers

from evogt_study.pde.dictionaries import Dictionary
from evogt_study.pde.dictionaries.tanh_dictionaries import choose_radius

EPS = np.finfo(float).eps
CASES = [
    ("transnet", 11, ()), ("gaussian_rf", 11, ()), ("uniform_elm", 11, ()), ("gtransnet", 7, (11,)),
    ("gtransnet", 5, (11, 9)), ("gtransnet", 6, (9, 8, 7)),
]  # fmt: skip


def with_layers(family, N, gamma, hidden, delta=0.5, **parameters):
    """A dictionary, with the parameters of further layers if it has them."""
    layers = {"hidden": hidden, "delta": delta} if family == "gtransnet" else {}
    return Dictionary(family, N, gamma, **layers, **parameters)


@pytest.mark.parametrize(("family", "N", "hidden"), CASES, ids=lambda value: str(value).replace(" ", ""))
@pytest.mark.parametrize("dimension", [1, 2, 3])
@pytest.mark.parametrize("seed", [0, 104])
def test_draws_values_and_gradients_are_those_of_the_specification(family, N, hidden, dimension, seed):
    none = ("", 0)
    settings = Settings(
        family, seed, N, 3.0, 0.0, 0.0, none, none, choose_radius(dimension), (0.5,) * dimension, 0.0, hidden, 0.7
    )
    layers, found = sample_layers(settings, dimension), with_layers(family, N, 3.0, hidden, 0.7).sample(seed, dimension)
    bare = with_layers(family, N, 1.0, hidden, 0.7, radius=1.0).sample(seed, dimension)  # which holds the draws
    if family in ("transnet", "gtransnet") and dimension > 1:  # two ways to a norm may differ in the last bit
        assert bare.affine.slopes == pytest.approx(layers.directions, rel=4 * EPS, abs=0.0)
    else:
        assert np.array_equal(bare.affine.slopes, layers.directions)
    assert np.array_equal(bare.affine.shifts, layers.offsets)
    assert len(bare.weights) == len(layers.weights)
    assert all(np.array_equal(one, other) for one, other in zip(bare.weights, layers.weights, strict=True))
    nodes = np.random.default_rng(100 + dimension).uniform(0.0, 1.0, (12, dimension))
    values, gradient = features(settings, layers, nodes)
    assert found.values(nodes) == pytest.approx(values, abs=16 * EPS)  # gamma |x| eps, at gamma = 3
    assert found.first_order(nodes).gradient == pytest.approx(np.array(gradient), abs=1e-14)  # measured: 3e-15


@pytest.mark.parametrize(
    ("radius", "centre", "dimension", "reach"),
    [
        (None, 0.5, 1, 0.625), (None, 0.5, 2, np.sqrt(0.5) / 0.8), (None, 0.5, 3, np.sqrt(0.75) / 0.9),  # the paper's
        (0.5, 0.5, 1, 1.0), (0.3, 0.5, 1, 5 / 3), (0.8, 0.1, 1, 0.9 / 0.8), (1.0, (0.5, 2.0), 2, np.sqrt(4.25)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("family", ["transnet", "gtransnet", "gaussian_rf", "uniform_elm"])
def test_the_ball_is_held_against_the_farthest_corner(family, radius, centre, dimension, reach):
    dictionary = with_layers(family, 4, 1.0, (4,), radius=radius, centre=centre)
    corners = np.array(list(itertools.product((0.0, 1.0), repeat=dimension)))
    assert reach == pytest.approx(np.linalg.norm(corners - centre, axis=1).max() / (radius or choose_radius(dimension)))
    assert dictionary.domain_reach(dimension) == pytest.approx(reach if family in ("transnet", "gtransnet") else 0.0)
