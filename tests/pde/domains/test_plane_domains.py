"""Boxes, disks, polygons and meshes: their rules, boundary factors, and what features see of them."""

import dataclasses

import numpy as np
import pytest

from evogt_study import pde
from evogt_study.pde.domains import Box, Disk, Mesh, Polygon, UnitCube
from evogt_study.pde.numerics import QuadratureRule, TriangleRule

L_SHAPE = Polygon.from_vertices([[-1, -1], [1, -1], [1, 0], [0, 0], [0, 1], [-1, 1]])
DISK = Disk(2, (1.0, -2.0), 1.5)
STAR = Polygon.from_vertices([[0, 0], [3, 1], [1, 2], [1, 5], [-1, 2]])
ANNULUS = Mesh.from_triangles(
    [[-2, -2], [2, -2], [2, 2], [-2, 2], [-1, -1], [1, -1], [1, 1], [-1, 1]],
    [[0, 1, 4], [1, 5, 4], [1, 2, 5], [2, 6, 5], [2, 3, 6], [3, 7, 6], [3, 0, 7], [0, 4, 7]],
)
MIXED = Box(2, (1.0, -1.0), (3.0, 0.5), (), ("x0", "y1"))
ROLLED = Box(2, (1.0, -1.0), (3.0, 0.5), ("x",), ("y0",))
ROUND = Disk(2, (1.0, -2.0), 1.5, ("circle",))
SIDED = Polygon.from_vertices([[0, 2], [3, 1], [-1, 0]], ("side0", "side2"))  # clockwise
PLANE = {"L": L_SHAPE, "disk": DISK, "star": STAR, "annulus": ANNULUS, "round": ROUND, "sided": SIDED}
CUBES = {"interval": UnitCube(1), "square": UnitCube(2), "cube": UnitCube(3)}
ALL = {**PLANE, "mixed": MIXED, "rolled": ROLLED, **CUBES}
AREAS = {"L": 3.0, "disk": np.pi * 1.5**2, "star": 7.5, "annulus": 12.0, "round": np.pi * 1.5**2, "sided": 3.5}


def rule_of(domain, refinements=2):
    return TriangleRule(refinements, 8) if domain in PLANE.values() else QuadratureRule("gauss_legendre", 12)


@pytest.mark.parametrize("name", PLANE)
def test_a_rule_on_triangles_integrates_over_the_domain(name):
    rule = PLANE[name].quadrature(TriangleRule(3, 8))
    assert (rule.weights > 0).all()
    assert rule.weights.sum() == pytest.approx(AREAS[name], rel=1e-5 if name in ("disk", "round") else 1e-13)
    assert PLANE[name].contains(rule.nodes).mean() > 0.999  # a curved side misses the circle by 1e-5


def test_a_rule_is_exact_to_its_degree():
    rule = L_SHAPE.quadrature(TriangleRule(0, 6))
    x, y = rule.nodes.T
    assert x**4 * y**2 @ rule.weights == pytest.approx(2 / 5 * 2 / 3 - 1 / 15, rel=1e-13)


@pytest.mark.parametrize("name", ALL)
def test_the_boundary_factor_has_the_derivatives_that_it_says(name):
    domain, h = ALL[name], 1e-5
    nodes = domain.quadrature(rule_of(domain, 1)).nodes[::5]
    value, gradient, *hessian = domain.boundary_factor(nodes, 2 if name in CUBES else 1)
    assert (value > 0).all()
    for axis in range(domain.dimension):
        step = h * np.eye(domain.dimension)[axis]
        ahead, back = (domain.boundary_factor(nodes + sign * step, 1) for sign in (1, -1))
        assert gradient[axis] == pytest.approx((ahead[0] - back[0]) / (2 * h), rel=1e-5, abs=1e-8)
        for each in hessian:
            assert each[axis] == pytest.approx((ahead[1] - back[1]) / (2 * h), rel=1e-4, abs=1e-6)
    for order in (0, 1):
        for part, full in zip(domain.boundary_factor(nodes, order), (value, gradient), strict=False):
            assert np.array_equal(part, full)


@pytest.mark.parametrize("name", ALL)
def test_it_vanishes_on_the_dirichlet_boundary_only(name):
    domain = ALL[name]
    points = domain.boundary_points()
    assert domain.boundary_factor(points)[0] == pytest.approx(np.zeros(len(points)), abs=1e-12)
    for face in domain.natural:
        assert domain.boundary_factor(domain.quadrature(rule_of(domain)).faces[face].nodes)[0].min() > 0.0


@pytest.mark.parametrize("name", ["L", "star", "annulus"])
def test_points_are_told_from_those_outside(name):
    domain, (lower, upper) = PLANE[name], PLANE[name].bounds()
    points = np.random.default_rng(0).uniform(lower, upper, (20_000, 2))
    assert domain.contains(points).mean() == pytest.approx(AREAS[name] / np.prod(upper - lower), abs=0.01)
    assert domain.contains(domain.boundary_points()).all()
    corner, size = (np.array(part) for part in domain.inner_box())
    assert domain.contains(np.array([corner, size, [corner[0], size[1]], [size[0], corner[1]]])).all()


def test_a_hole_of_a_mesh_is_part_of_its_boundary():
    starts, ends = ANNULUS.segments()
    assert len(starts) == 8
    assert np.linalg.norm(ends - starts, axis=1).sum() == pytest.approx(24.0)
    assert ANNULUS.contains(np.array([[0.0, 0.0], [1.5, 0.0]])).tolist() == [False, True]
    finer = ANNULUS.refine(1)
    halved = Mesh.from_triangles(finer.p.T, finer.t.T)
    assert len(halved.segments()[0]) == 8  # edges on a line are one side
    assert halved != ANNULUS
    assert dataclasses.replace(ANNULUS) == ANNULUS


@pytest.mark.parametrize("name", ["mixed", "rolled", "L"])
@pytest.mark.parametrize("family", ["transnet", "gtransnet", "legendre"])
def test_features_have_the_derivatives_of_what_they_see(name, family):
    domain, h = ALL[name], 1e-5
    given = {"transnet": {"gamma": 2.0}, "gtransnet": {"gamma": 2.0, "N1": 9}, "legendre": {}}[family]
    features = domain.features(pde.Dictionary(family, N=6, **given), 3)
    nodes = domain.quadrature(rule_of(domain, 0)).nodes[::7]
    first = features.first_order(nodes)
    for axis in range(2):
        step = h * np.eye(2)[axis]
        slope = (features.values(nodes + step) - features.values(nodes - step)) / (2 * h)
        assert first.gradient[axis] == pytest.approx(slope, rel=1e-6, abs=1e-8)
        assert first.apply(np.eye(6))[axis] == pytest.approx(slope, rel=1e-6, abs=1e-8)


def test_features_of_a_periodic_direction_are_periodic_and_those_of_a_box_are_the_cube_s():
    dictionary = pde.Dictionary("gtransnet", N=6, N1=9, gamma=2.0)
    features, nodes = ROLLED.features(dictionary, 3), ROLLED.quadrature(rule_of(ROLLED)).nodes
    assert features.values(nodes + np.array([2.0, 0.0])) == pytest.approx(features.values(nodes), rel=1e-12)
    boxed, cube = MIXED.features(dictionary, 3), dictionary.sample(3, 2)
    assert boxed.values(nodes) == pytest.approx(
        cube.values((nodes - np.array([1.0, -1.0])) / np.array([2.0, 1.5])), rel=1e-12
    )
