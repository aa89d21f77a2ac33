"""Points are found in the elements that they are in, whatever the shape of these."""

import numpy as np
import pytest

from evogt_study.pde.baselines.finite_elements import make_element_space
from evogt_study.pde.domains import UnitCube
from evogt_study.pde.domains.box import Box
from evogt_study.pde.domains.plane import Disk, Polygon

POINTS = np.random.default_rng(11)


def in_box(lower, upper):
    return np.asarray(lower) + np.subtract(upper, lower) * POINTS.uniform(size=(20_000, len(lower)))


def in_disk():
    radius, angle = np.sqrt(POINTS.uniform(size=20_000)), POINTS.uniform(0.0, 2.0 * np.pi, 20_000)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)


def box(*upper):
    return Box(len(upper), (0.0,) * len(upper), tuple(map(float, upper))), in_box([0.0] * len(upper), upper)


THIN = ((0.0, 0.0), (1.0, 0.0), (1.0, 0.02), (0.0, 0.02))
CASES = {
    "interval": (*box(3.0), 40),
    "cube": (UnitCube(3), in_box([0.0] * 3, [1.0] * 3), 8),
    "flat box": (*box(1.0, 0.5, 0.2), 6),
    "thin rectangle": (*box(1.0, 0.02), 20),
    "thin polygon": (Polygon(2, THIN), in_box([0.0, 0.0], [1.0, 0.02]), 4),
    "disk": (Disk(2, (0.0, 0.0), 1.0), in_disk(), 3),
}


@pytest.mark.parametrize("name", CASES)
def test_a_point_is_in_the_element_in_which_it_is_evaluated(name):
    domain, points, size = CASES[name]
    space = make_element_space(domain, 2, size, 4)
    corners = space.basis.mesh.doflocs[:, space.basis.mesh.t[: domain.dimension + 1, 0]].T
    nodes = np.concatenate([points, corners])
    elements, local = space._locate(nodes)
    assert min(local.min(), (1.0 - local.sum(axis=0)).min()) > -1e-9
    places = np.asarray(space.basis.mapping.F(local[:, :, None], tind=elements))[:, :, 0].T
    np.testing.assert_allclose(places, nodes, rtol=0.0, atol=1e-12)
