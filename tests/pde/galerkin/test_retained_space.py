"""The retained space: weighted SVD, rank rule, identity mass, projection and evaluation."""

import numpy as np
import pytest
from wing import make_space

from evogt_study.errors import EmptySpaceError
from evogt_study.pde.dictionaries.base import Dictionary, FirstOrder
from evogt_study.pde.domains import UnitCube
from evogt_study.pde.galerkin.system import (
    TrialFunctions,
    compute_weighted_svd,
    make_trial,
    retain,
)
from evogt_study.pde.numerics import Quadrature

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


def synthetic(values, weights=None):
    """Trial functions that are nothing but their nodal values, (Q, N)."""
    count = len(values)
    nodes = np.full((count, 1), 0.5)  # where the boundary factor is 1/4 exactly
    quadrature = Quadrature(nodes, np.full(count, 1.0 / count) if weights is None else weights)
    features = Dictionary("transnet", values.shape[1], 1.0).sample(0, 1)
    return TrialFunctions(UnitCube(1), features, quadrature, FirstOrder(4.0 * values, np.zeros((1, *values.shape))))


def test_trial_functions_that_vanish_at_every_node_leave_no_space():
    with pytest.raises(EmptySpaceError, match="sigma_1 = 0"):
        compute_weighted_svd(synthetic(np.zeros((6, 3))))
    ends = Quadrature(np.array([[0.0], [1.0]]), np.array([0.5, 0.5]))
    trial = make_trial(UnitCube(1), Dictionary("transnet", 5, 2.0).sample(0, 1), ends)
    with pytest.raises(EmptySpaceError):
        compute_weighted_svd(trial)


def test_the_rule_is_strict_from_nodal_values_to_rank():
    # four midpoint weights of 1/4 and columns of one entry: sigma_i is half of that entry, without rounding
    values = np.diag([1.0, 2.0**-9, 2.0**-10, 2.0**-11])
    trial = synthetic(values)
    svd = compute_weighted_svd(trial)
    assert np.array_equal(svd.singular_values, [0.5, 2.0**-10, 2.0**-11, 2.0**-12])
    assert retain(trial, svd, 2.0**-20).rank == 2
    assert retain(trial, svd, 2.0**-20 * (1 - 4 * EPS)).rank == 3
    assert retain(trial, svd, 2.0**-20 * (1 + 4 * EPS)).rank == 2


@cases
@pytest.mark.parametrize("tau", [1e-4, 1e-8, 1e-12, 1e-14])
def test_the_retained_basis_has_identity_mass_up_to_rounding(case, tau):
    space = make_space(*CASES[case], tau, 1)
    assert space.condition <= 1.0 / tau
    mass = space.values.T @ np.diag(space.rule.weights) @ space.values
    spectral_norm = np.linalg.norm(mass - np.eye(space.rank), 2)
    # the defect is rounding noise itself, of eps sigma_1/sigma_r: two ways to sum agree to a part of eps only
    assert space.mass_defect == pytest.approx(spectral_norm, abs=16 * EPS)
    assert space.mass_defect <= 16 * EPS * np.sqrt(space.condition)
