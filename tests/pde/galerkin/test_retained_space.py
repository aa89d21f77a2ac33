"""The retained space: weighted SVD, rank rule, identity mass, projection and evaluation."""

import dataclasses

import numpy as np
import pytest

from evogt_study.errors import EmptySpaceError
from evogt_study.pde.dictionaries.base import Dictionary, FirstOrder
from evogt_study.pde.domains import UnitCube
from evogt_study.pde.galerkin.retained_space import (
    TrialFunctions,
    WeightedSVD,
    retain,
    trial_functions,
    trial_values,
    weighted_svd,
)
from evogt_study.pde.numerics.quadrature import Quadrature, QuadratureRule

EPS = np.finfo(float).eps

# dictionary, dimension, Gauss-Legendre points per direction; the last has fewer nodes than features
CASES = {
    "transnet-1d": (Dictionary("transnet", 30, 6.0), 1, 80),
    "gtransnet-1d": (Dictionary("gtransnet", 40, 15.0, N1=80), 1, 100),
    "three-layers-1d": (Dictionary("gtransnet", 30, 10.0, hidden=(60, 50)), 1, 80),
    "elm-2d": (Dictionary("uniform_elm", 40, 5.0), 2, 14),
    "gtransnet-2d": (Dictionary("gtransnet", 40, 6.0, N1=80), 2, 14),
    "gaussian-3d": (Dictionary("gaussian_rf", 40, 2.0), 3, 7),
    "few-nodes-1d": (Dictionary("gaussian_rf", 30, 8.0), 1, 12),
}
cases = pytest.mark.parametrize("case", CASES)


def trial_of(case, seed=1):
    dictionary, dimension, points = CASES[case]
    quadrature = UnitCube(dimension).quadrature(QuadratureRule("gauss_legendre", points))
    return trial_functions(UnitCube(dimension), dictionary.sample(seed, dimension), quadrature)


def space_of(case, tau=1e-10, seed=1):
    trial = trial_of(case, seed)
    return retain(trial, weighted_svd(trial), tau)


def weighted(trial):
    return np.sqrt(trial.quadrature.weights)[:, None] * trial.values


def synthetic(values, weights=None):
    """Trial functions that are nothing but their nodal values, (Q, N)."""
    count = len(values)
    nodes = np.full((count, 1), 0.5)  # where the boundary factor is 1/4 exactly
    quadrature = Quadrature(nodes, np.full(count, 1.0 / count) if weights is None else weights)
    features = Dictionary("transnet", values.shape[1], 1.0).sample(0, 1)
    return TrialFunctions(UnitCube(1), features, quadrature, FirstOrder(4.0 * values, np.zeros((1, *values.shape))))


def mapped(trial, map_of_features):
    """The trial functions of other features: linear combinations, or multiples."""
    psi = FirstOrder(map_of_features(trial.psi.value), map_of_features(trial.psi.gradient))
    return dataclasses.replace(trial, psi=psi)


def assert_within(found, wanted, bound):
    assert (np.abs(found - wanted) <= bound).all(), np.max(np.abs(found - wanted) / bound)


def nodal_projector(space):
    """The matrix that takes nodal values to those of their projection: it knows the span and not the basis."""
    return space.values @ (space.values.T * space.quadrature.weights)


# Trial functions


@cases
def test_trial_functions_are_the_factor_times_the_features_with_the_product_rule_s_derivatives(case):
    trial = trial_of(case)
    nodes = trial.quadrature.nodes
    psi, D = trial.features.jet(nodes, 1), np.prod(nodes * (1.0 - nodes), axis=1)[:, None]
    assert trial.values.shape == (len(nodes), trial.features.count)
    assert_within(trial.values, D * psi.value, 2 * EPS)
    assert np.array_equal(trial_values(trial.domain, trial.features, nodes), D * trial.features.values(nodes))
    for axis, found in enumerate(trial.gradients):
        others = np.delete(nodes, axis, axis=1)
        slope = np.prod(others * (1.0 - others), axis=1)[:, None] * (1.0 - 2.0 * nodes[:, axis, None])
        assert_within(found, slope * psi.value + D * psi.gradient[axis], 4e-15)  # of size gamma/4


# Weighted SVD


@cases
def test_singular_values_are_those_of_the_weighted_matrix(case):
    trial = trial_of(case)
    svd = weighted_svd(trial)
    wanted = np.linalg.svd(weighted(trial), compute_uv=False)
    assert svd.singular_values.shape == (trial.features.count,)
    assert svd.singular_values[: len(wanted)] == pytest.approx(wanted, abs=16 * EPS * wanted[0])  # backward stability
    assert not svd.singular_values[len(wanted) :].any()
    assert (np.diff(svd.singular_values) <= 0.0).all()


@cases
def test_right_singular_vectors_are_orthonormal_and_belong_to_their_values(case):
    trial = trial_of(case)
    svd = weighted_svd(trial)
    V = svd.right
    sigma = svd.singular_values[: V.shape[1]]
    assert_within(V.T @ V, np.eye(V.shape[1]), 64 * EPS)
    images = weighted(trial) @ V
    assert_within(images.T @ images, np.diag(sigma**2), 128 * EPS * sigma[0] ** 2)
    assert_within(np.linalg.norm(images, axis=0), sigma, 64 * EPS * sigma[0])


def test_the_factorisation_leaves_its_input_as_it_was():
    trial = trial_of("transnet-1d")
    before = trial.values.copy()
    weighted_svd(trial)
    assert np.array_equal(trial.values, before)


def test_raw_resolution_is_the_ratio_of_the_extreme_mass_eigenvalues():
    trial = synthetic(np.array([[4.0, 0.0], [0.0, 1.0], [0.0, 0.0], [0.0, 0.0]]))
    assert weighted_svd(trial).raw_resolution == 1.0 / 16.0
    well = trial_of("few-nodes-1d")
    assert weighted_svd(well).raw_resolution == 0.0


def test_trial_functions_that_vanish_at_every_node_leave_no_space():
    with pytest.raises(EmptySpaceError, match="sigma_1 = 0"):
        weighted_svd(synthetic(np.zeros((6, 3))))
    ends = Quadrature(np.array([[0.0], [1.0]]), np.array([0.5, 0.5]))
    trial = trial_functions(UnitCube(1), Dictionary("transnet", 5, 2.0).sample(0, 1), ends)
    with pytest.raises(EmptySpaceError):
        weighted_svd(trial)


# Rank rule


@pytest.mark.parametrize("largest", [1.0, 2.0, 3.0, 1e-8])
@pytest.mark.parametrize("tau", [2.0**-20, 2.0**-40, 1e-12, 0.3])
def test_a_singular_value_exactly_on_the_threshold_is_left_out(tau, largest):
    threshold = np.sqrt(tau) * largest
    above, below = np.nextafter(threshold, np.inf), np.nextafter(threshold, 0.0)
    svd = WeightedSVD(np.array([largest, above, threshold, below]), np.eye(4))
    space = retain(synthetic(np.eye(4)), svd, tau)
    assert space.rank == 2
    assert np.array_equal(space.singular_values, [largest, above])


def test_the_rule_is_strict_from_nodal_values_to_rank():
    # four midpoint weights of 1/4 and columns of one entry: sigma_i is half of that entry, without rounding
    values = np.diag([1.0, 2.0**-9, 2.0**-10, 2.0**-11])
    trial = synthetic(values)
    svd = weighted_svd(trial)
    assert np.array_equal(svd.singular_values, [0.5, 2.0**-10, 2.0**-11, 2.0**-12])
    assert retain(trial, svd, 2.0**-20).rank == 2
    assert retain(trial, svd, 2.0**-20 * (1 - 4 * EPS)).rank == 3
    assert retain(trial, svd, 2.0**-20 * (1 + 4 * EPS)).rank == 2


def test_a_direction_of_zero_is_never_kept():
    values = np.zeros((5, 3))
    values[0, 0] = 1.0
    trial = synthetic(values)
    assert retain(trial, weighted_svd(trial), 1e-300).rank == 1
    assert retain(trial, weighted_svd(trial), 0.0).rank == 1


@cases
def test_rank_grows_as_the_threshold_falls(case):
    trial = trial_of(case)
    svd = weighted_svd(trial)
    taus = [10.0**-k for k in range(1, 16, 2)]
    ranks = [retain(trial, svd, tau).rank for tau in taus]
    assert ranks == [int(np.sum(svd.singular_values**2 > tau * svd.singular_values[0] ** 2)) for tau in taus]
    assert ranks == sorted(ranks)
    assert ranks[0] < ranks[-1]


# Identity mass


@cases
@pytest.mark.parametrize("tau", [1e-4, 1e-8, 1e-12, 1e-14])
def test_the_retained_basis_has_identity_mass_up_to_rounding(case, tau):
    space = space_of(case, tau)
    assert space.condition <= 1.0 / tau
    mass = space.values.T @ np.diag(space.quadrature.weights) @ space.values
    spectral_norm = np.linalg.norm(mass - np.eye(space.rank), 2)
    # the defect is rounding noise itself, of eps sigma_1/sigma_r: two ways to sum agree to a part of eps only
    assert space.mass_defect == pytest.approx(spectral_norm, abs=16 * EPS)
    assert_within(space.mass_defect, 0.0, 16 * EPS * np.sqrt(space.condition))


def test_the_mass_defect_is_seen_where_there_is_one():
    space = space_of("transnet-1d", 1e-4)
    stretched = dataclasses.replace(space, values=space.values * np.r_[1.5, np.ones(space.rank - 1)])
    assert stretched.mass_defect == pytest.approx(1.25, abs=1e-13)
    shrunk = dataclasses.replace(space, values=space.values * np.r_[np.ones(space.rank - 1), 0.5])
    assert shrunk.mass_defect == pytest.approx(0.75, abs=1e-13)


@cases
def test_condition_is_the_ratio_of_the_kept_eigenvalues(case):
    space = space_of(case, 1e-8)
    svd = weighted_svd(trial_of(case))
    assert np.array_equal(space.singular_values, svd.singular_values[: space.rank])
    wanted = (svd.singular_values[0] / svd.singular_values[space.rank - 1]) ** 2
    assert space.condition == pytest.approx(wanted, rel=4 * EPS, abs=0.0)


@cases
def test_values_and_gradients_are_those_of_the_transformed_trial_functions(case):
    trial = trial_of(case)
    space = retain(trial, weighted_svd(trial), 1e-8)
    T = space.transform
    assert T.shape == (trial.features.count, space.rank)
    scale = np.abs(trial.values) @ np.abs(T)
    assert_within(space.values, np.einsum("qn,nr->qr", trial.values, T), 16 * EPS * scale)
    for axis, gradient in enumerate(trial.gradients):
        scale = np.abs(gradient) @ np.abs(T)
        assert_within(space.gradients[axis], np.einsum("qn,nr->qr", gradient, T), 16 * EPS * scale)


# Projection and evaluation


@cases
def test_the_projection_of_a_retained_function_is_itself(case):
    space = space_of(case, 1e-8)
    coefficients = np.random.default_rng(0).standard_normal((3, space.rank))
    nodal = coefficients @ space.values.T
    found = space.project(nodal)
    assert found.shape == (3, space.rank)
    error = np.linalg.norm(found - coefficients, axis=1)
    # the mass is off the identity by mass_defect, so is the projection of a member
    assert_within(error, 0.0, (space.mass_defect + 64 * EPS) * np.linalg.norm(coefficients, axis=1))


@cases
def test_the_coefficient_norm_is_the_quadrature_norm(case):
    space = space_of(case, 1e-8)
    coefficients = np.random.default_rng(1).standard_normal(space.rank)
    square = float(space.quadrature.integrate((space.values @ coefficients) ** 2))
    assert square == pytest.approx(coefficients @ coefficients, rel=space.mass_defect + 16 * EPS, abs=0.0)


@cases
def test_the_residual_of_a_projection_is_orthogonal_to_the_space(case):
    space = space_of(case, 1e-8)
    function = np.cos(5.0 * space.quadrature.nodes).prod(axis=1)
    residual = function - space.values @ space.project(function)
    assert np.linalg.norm(residual) > 1e-3  # the function is not a member: it does not vanish on the boundary
    bound = (space.mass_defect + 256 * EPS) * np.sqrt(space.quadrature.integrate(function**2))
    assert_within(np.linalg.norm(space.project(residual)), 0.0, bound)


@cases
def test_evaluation_at_the_assembly_nodes_gives_the_stored_values(case):
    space = space_of(case, 1e-8)
    coefficients = np.random.default_rng(2).standard_normal(space.rank)
    found = space.evaluate(space.quadrature.nodes, coefficients)
    # the raw coefficients T alpha are as large as 1/sigma_r: so is the cancellation
    scale = np.abs(trial_values(space.domain, space.features, space.quadrature.nodes)) @ np.abs(
        space.transform @ coefficients
    )
    assert_within(found, space.values @ coefficients, 4 * EPS * scale)


@cases
def test_evaluation_anywhere_is_the_sum_of_trial_functions(case):
    space = space_of(case, 1e-6)
    dimension = space.quadrature.dimension
    nodes = np.random.default_rng(3).uniform(0.0, 1.0, (9, dimension))
    coefficients = np.random.default_rng(4).standard_normal((2, 4, space.rank))
    found = space.evaluate(nodes, coefficients)
    assert found.shape == (2, 4, 9)
    raw = np.einsum("nr,...r->...n", space.transform, coefficients)
    factor = np.prod(nodes * (1.0 - nodes), axis=1)
    phi = factor[:, None] * space.features.jet(nodes, 0).value
    scale = np.abs(raw) @ np.abs(phi).T
    assert_within(found, np.einsum("qn,...n->...q", phi, raw), 4 * EPS * scale)


@cases
def test_every_retained_function_vanishes_on_the_boundary(case):
    space = space_of(case, 1e-12)
    dimension = space.quadrature.dimension
    inside = np.random.default_rng(5).uniform(0.0, 1.0, (8, dimension))
    coefficients = np.eye(space.rank)
    assert space.evaluate(inside, coefficients).any(axis=1).all()
    for axis in range(dimension):
        for side in (0.0, 1.0):
            face = inside.copy()
            face[:, axis] = side
            assert not space.evaluate(face, coefficients).any()


# Fewer nodes than features


def test_with_fewer_nodes_than_features_the_rank_is_at_most_the_nodes():
    trial = trial_of("few-nodes-1d")
    svd = weighted_svd(trial)
    assert trial.values.shape == (12, 30)
    assert np.count_nonzero(svd.singular_values) == 12
    space = retain(trial, svd, 1e-28)
    assert space.rank == 12
    # all nodal values can be met then: the projector is the identity (to the rounding of the kept directions)
    assert_within(nodal_projector(space), np.eye(12), 4 * EPS * np.sqrt(space.condition))


# Invariance


@cases
@pytest.mark.parametrize("factor", [3e-9, 7e11])
def test_the_space_does_not_depend_on_the_scale_of_the_trial_functions(case, factor):
    trial = trial_of(case)
    scaled = mapped(trial, lambda features: features * factor)
    one, other = (retain(each, weighted_svd(each), 1e-8) for each in (trial, scaled))
    assert one.rank == other.rank
    assert other.condition == pytest.approx(one.condition, rel=1e-12, abs=0.0)
    assert_within(nodal_projector(other), nodal_projector(one), 1e-12)
    # identity mass fixes the scale: gradients come back the same, up to the signs of the basis
    squares = [np.sum(space.gradients**2, axis=2) for space in (one, other)]
    assert_within(squares[1], squares[0], 2e-12 * squares[0])


@cases
def test_the_space_does_not_depend_on_the_basis_of_the_trial_functions(case):
    trial = trial_of(case)
    count = trial.features.count
    rotation, _ = np.linalg.qr(np.random.default_rng(6).standard_normal((count, count)))
    rotated = mapped(trial, lambda features: features @ rotation)
    svds = [weighted_svd(each) for each in (trial, rotated)]
    assert svds[1].singular_values == pytest.approx(svds[0].singular_values, abs=16 * EPS * svds[0].singular_values[0])
    one, other = (retain(each, svd, 1e-6) for each, svd in zip((trial, rotated), svds, strict=True))
    assert one.rank == other.rank
    gap = svds[0].singular_values[one.rank - 1] - svds[0].singular_values[one.rank : one.rank + 1].sum()
    # Davis-Kahan: the span turns by the backward error over the gap behind the last kept direction
    turn = 2 * EPS * svds[0].singular_values[0] / gap
    apart = np.linalg.norm(nodal_projector(one) - nodal_projector(other), 2)
    assert_within(apart, 0.0, turn * weight_condition(one))


def weight_condition(space):
    """Nodal values are measured with weights: a turn of the weighted span looks larger by this."""
    weights = space.quadrature.weights
    return np.sqrt(weights.max() / weights.min())


def test_the_space_does_not_depend_on_the_order_of_the_nodes():
    trial = trial_of("gtransnet-2d")
    order = np.random.default_rng(7).permutation(len(trial.values))
    quadrature = Quadrature(trial.quadrature.nodes[order], trial.quadrature.weights[order])
    psi = FirstOrder(trial.psi.value[order], trial.psi.gradient[:, order])
    shuffled = TrialFunctions(trial.domain, trial.features, quadrature, psi)
    one, other = (retain(each, weighted_svd(each), 1e-6) for each in (trial, shuffled))
    assert one.rank == other.rank
    assert_within(nodal_projector(other), nodal_projector(one)[np.ix_(order, order)], 2e-13)
