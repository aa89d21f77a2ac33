"""Dictionaries: how they are drawn, digit for digit, and their values, gradients and Hessians."""

import itertools

import numpy as np
import pytest

from evogt_study.pde.dictionaries import Dictionary
from evogt_study.pde.dictionaries.tanh_dictionaries import default_radius

EPS = np.finfo(float).eps
STEP = 1e-30  # of a complex step: no difference is taken, so it can be as small as one likes

dimensions = pytest.mark.parametrize("dimension", [1, 2, 3])


# What the conventions' table says, written out once more.


def unit_directions(rng, count, dimension):
    if dimension == 1:
        return rng.choice([-1.0, 1.0], size=(count, 1))
    normal = rng.standard_normal((count, dimension))
    return normal / np.sqrt((normal**2).sum(axis=1))[:, None]


def transcribed(family, seed, dimension, N, hidden=(), delta=0.5):
    """Directions, offsets and the weights of the further layers, in the table's order of draws."""
    rng = np.random.default_rng(seed)
    weights = []
    if family == "transnet":
        directions, offsets = unit_directions(rng, N, dimension), rng.uniform(0, 1, N)
    elif family == "gtransnet":
        directions, offsets = unit_directions(rng, hidden[0], dimension), rng.uniform(-1, 1, hidden[0])
        before = hidden[0]
        for width in (*hidden[1:], N):
            weights.append(rng.normal(0, np.sqrt(delta / before), (width, before)))
            before = width
    elif family == "gaussian_rf":
        directions, offsets = rng.standard_normal((N, dimension)), rng.standard_normal(N)
    else:
        directions, offsets = rng.uniform(-1, 1, (N, dimension)), rng.uniform(-1, 1, N)
    return directions, offsets, weights


def with_layers(family, N, gamma, hidden, delta=0.5, **parameters):
    """A dictionary, with the parameters of further layers if it has them."""
    layers = {"hidden": hidden, "delta": delta} if family == "gtransnet" else {}
    return Dictionary(family, N, gamma, **layers, **parameters)


def network(draws, nodes, gamma, radius, centre=0.5):
    """The tanh network in plain arithmetic, for real or complex nodes."""
    directions, offsets, weights = draws
    layer = np.tanh(gamma * ((nodes - centre) @ directions.T + radius * offsets))
    for weight in weights:
        layer = np.tanh(layer @ weight.T)
    return layer


def complex_shift(nodes, axis):
    moved = nodes.astype(complex)
    moved[:, axis] += 1j * STEP
    return moved


def derivative(function, nodes, axis):
    return function(complex_shift(nodes, axis)).imag / STEP


def points(dimension, count=12):
    return np.random.default_rng(100 + dimension).uniform(0.0, 1.0, (count, dimension))


CASES = [
    ("transnet", 11, ()),
    ("gaussian_rf", 11, ()),
    ("uniform_elm", 11, ()),
    ("gtransnet", 7, (11,)),
    ("gtransnet", 5, (11, 9)),
    ("gtransnet", 6, (9, 8, 7)),
]
cases = pytest.mark.parametrize(("family", "N", "hidden"), CASES, ids=lambda value: str(value).replace(" ", ""))


def sampled(family, N, hidden, dimension, gamma=3.0, seed=4):
    """The package's features and the transcription's draws, with the radius that both use."""
    features = with_layers(family, N, gamma, hidden, 0.7).sample(seed, dimension)
    return features, transcribed(family, seed, dimension, N, hidden, 0.7), 0.9 if dimension == 3 else 0.8


@cases
@dimensions
@pytest.mark.parametrize("seed", [0, 1, 104])
def test_draws_are_those_of_the_table_digit_for_digit(family, N, hidden, dimension, seed):
    # with gamma = R = 1 the features hold the bare draws
    features = with_layers(family, N, 1.0, hidden, 0.25, radius=1.0).sample(seed, dimension)
    directions, offsets, weights = transcribed(family, seed, dimension, N, hidden, 0.25)
    if family in ("transnet", "gtransnet") and dimension > 1:  # two ways to a norm may differ in the last bit
        assert features.affine.slopes == pytest.approx(directions, rel=4 * EPS, abs=0.0)
    else:
        assert np.array_equal(features.affine.slopes, directions)
    assert np.array_equal(features.affine.shifts, offsets)
    assert len(features.weights) == len(weights)
    assert all(np.array_equal(found, wanted) for found, wanted in zip(features.weights, weights, strict=True))


@cases
@dimensions
def test_values_are_the_network_s(family, N, hidden, dimension):
    features, draws, radius = sampled(family, N, hidden, dimension)
    nodes = points(dimension)
    values = features.values(nodes)
    assert values.shape == (len(nodes), N) == (len(nodes), features.count)
    assert values == pytest.approx(network(draws, nodes, 3.0, radius), abs=16 * EPS)  # gamma |x| eps, at gamma = 3


@cases
@dimensions
def test_gradients_are_the_complex_step_derivatives_of_the_network(family, N, hidden, dimension):
    features, draws, radius = sampled(family, N, hidden, dimension)
    nodes = points(dimension)
    found = features.first_order(nodes)
    assert found.gradient.shape == (dimension, len(nodes), N)
    for axis in range(dimension):
        wanted = derivative(lambda z: network(draws, z, 3.0, radius), nodes, axis)
        assert found.gradient[axis] == pytest.approx(wanted, abs=1e-14)  # of size gamma = 3; measured: 3e-15


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
    assert reach == pytest.approx(
        np.linalg.norm(corners - centre, axis=1).max() / (radius or default_radius(dimension))
    )
    has_a_ball = family in ("transnet", "gtransnet")
    assert dictionary.domain_reach(dimension) == pytest.approx(reach if has_a_ball else 0.0)
